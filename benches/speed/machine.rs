//! The facts without which figures say little: the machine, its disk, the database and the date.

use std::fs::{self, File};
use std::io::Write;
use std::time::Instant;

use sqlx::Connection;

use crate::Outcome;
use crate::postgres::Server;
use crate::table::{Table, median};

/// How many pages are written to learn what the disk takes for one.
const WRITES: usize = 100;
const PAGE: [u8; 8192] = [7; 8192];

/// Writes the facts above the table.
pub(crate) async fn describe(server: &Server, table: &mut Table) -> Outcome<()> {
    let cores = std::thread::available_parallelism()?;
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = info.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(": "));
    let cpu = cpu.map_or("unknown CPU", |(_, name)| name.trim());
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    let today = time::OffsetDateTime::now_utc().date();

    let mut conn = server.connect().await?;
    let settings = "SELECT current_setting('server_version'), current_setting('fsync'), \
                    current_setting('synchronous_commit'), current_setting('shared_buffers')";
    let (version, fsync, commit, buffers): (String, String, String, String) =
        sqlx::query_as(settings).fetch_one(&mut conn).await?;
    conn.close().await?;
    let version = version.split(' ').next().unwrap_or_default();
    let disk = server.folder().map(disk_milliseconds).transpose()?;
    let disk = disk.map_or_else(String::new, |disk| format!("; its disk takes {disk:.2} ms to keep a page"));
    table.fact(format!("{today}, {cores} cores ({cpu}), load {load} before the start."));
    table.fact(format!(
        "PostgreSQL {version}, fsync {fsync}, synchronous_commit {commit}, shared_buffers {buffers}{disk}."
    ));
    Ok(())
}

/// How long the disk takes until a page is safe, in milliseconds. Where it takes none, `fsync` costs nothing, and the
/// figures are not those of a disk.
fn disk_milliseconds(folder: &std::path::Path) -> Outcome<f64> {
    let path = folder.join("disk");
    let mut file = File::create(&path)?;
    let mut times = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let started = Instant::now();
        file.write_all(&PAGE)?;
        file.sync_data()?;
        times.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    fs::remove_file(path)?;
    Ok(median(times))
}
