//! What processes use, as Linux counts it under `/proc`. Elsewhere nothing is known, and nothing is said.

use std::fs;

/// The clock of `/proc/*/stat` has a hundred ticks a second wherever Linux runs today.
const TICKS: f64 = 100.0;

/// Processor time of a process so far, in seconds.
pub(crate) fn cpu_seconds(process: u32) -> Option<f64> {
    stat(process).map(|stat| stat.seconds)
}

/// The same of all children that a process has now.
pub(crate) fn cpu_seconds_of_children(parent: u32) -> Option<f64> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Some(ids.filter_map(stat).filter(|stat| stat.parent == parent).map(|stat| stat.seconds).sum())
}

/// Memory of a process that is in RAM now, in megabytes.
pub(crate) fn resident_megabytes(process: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<f64>().ok()? / 1024.0)
}

struct Stat {
    parent: u32,
    seconds: f64,
}

fn stat(process: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name, which may hold anything: the state, the parent, and as the 12th and 13th the times.
    let fields: Vec<_> = text.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(Stat { parent: fields.get(1)?.parse().ok()?, seconds: ticks / TICKS })
}
