//! Orders, replays and look-ups beside `pgbench`, all in turns: on a server with and without the journal, and on the
//! embedded database.

use std::net::SocketAddr;

use super::{ALONE, HAS_EMBEDDED, MERCHANT, REST, ROUND, ROUNDS, alone, round, warm};
use crate::Outcome;
use crate::load::{Numbers, Request, Sample};
use crate::pgbench::Pgbench;
use crate::postgres::Server;
use crate::sandbox::Sandbox;
use crate::table::Target::{AtLeast, AtMost, None as NoTarget};
use crate::table::{Table, Unit, median};
use crate::usage;

/// What a lone order took, beside a transaction of one client of `pgbench`, before calls were combined. Not measured
/// in one run: 2.98 in one, on a build that combined, which was 1.71 times as slow as the earlier one in another.
const ALONE_BEFORE: f64 = 1.75;

/// The figures of one round, by name.
#[derive(Default)]
struct Rounds {
    pgbench: Vec<f64>,
    pgbench_alone: Vec<f64>,
    creates: Vec<f64>,
    creates_alone: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    replays: Vec<f64>,
    look_ups: Vec<f64>,
    unjournaled: Vec<f64>,
    embedded: Vec<f64>,
    embedded_alone: Vec<f64>,
}

/// Processor time for each order, in microseconds.
#[derive(Default)]
struct Cpu {
    sandbox: Vec<f64>,
    postgres: Vec<f64>,
    generator: Vec<f64>,
}

pub(super) async fn measure(server: &Server, table: &mut Table) -> Outcome<()> {
    let pgbench = Pgbench::new(server).await?;
    let journaled = Sandbox::on(&server.database("journaled").await?, &[]).await?;
    let unjournaled = Sandbox::on(&server.database("unjournaled").await?, &["--journal-size", "0"]).await?;
    let embedded = if HAS_EMBEDDED { Some(Sandbox::embedded().await?) } else { None };
    for sandbox in [&journaled, &unjournaled].into_iter().chain(&embedded) {
        warm(sandbox.address).await?;
    }
    pgbench.per_second(ROUND / 2).await?;

    let (mut rounds, mut cpu) = (Rounds::default(), Cpu::default());
    let create = Request::create(MERCHANT);
    let numbers = [0; 3].map(Numbers::from);
    for turn in 0..ROUNDS {
        tokio::time::sleep(REST).await;
        // Who is first changes, as a machine gets faster or slower on the way.
        let is_first = turn % 2 == 0;
        if is_first {
            rounds.pgbench.push(pgbench.per_second(ROUND).await?);
        }
        let sample = cpu.watch(server, &journaled, &create, &numbers[0]).await?;
        rounds.creates.push(sample.per_second());
        rounds.p50.push(sample.percentile(50));
        rounds.p99.push(sample.percentile(99));
        if !is_first {
            rounds.pgbench.push(pgbench.per_second(ROUND).await?);
        }
        let sample = round(unjournaled.address, &create, &numbers[1]).await?;
        rounds.unjournaled.push(sample.per_second());
        rounds.replays.push(again(journaled.address, &Request::replay(MERCHANT), &numbers[0]).await?);
        rounds.look_ups.push(again(journaled.address, &Request::look_up(MERCHANT), &numbers[0]).await?);
        if let Some(embedded) = &embedded {
            let sample = round(embedded.address, &create, &numbers[2]).await?;
            rounds.embedded.push(sample.per_second());
            let sample = alone(embedded.address, &create, &numbers[2]).await?;
            rounds.embedded_alone.push(sample.percentile(50));
        }
        rounds.pgbench_alone.push(pgbench.alone(ALONE).await?);
        rounds.creates_alone.push(alone(journaled.address, &create, &numbers[0]).await?.percentile(50));
    }
    for sandbox in [journaled, unjournaled].into_iter().chain(embedded) {
        sandbox.stop().await?;
    }
    rounds.write(table);
    cpu.write(table);
    Ok(())
}

/// Sends again what was sent: answers in a second.
async fn again(address: SocketAddr, request: &Request, sent: &Numbers) -> Outcome<f64> {
    // Those at the end may be of a client that had stopped before.
    let count = sent.used().saturating_sub(100).min(20_000);
    Ok(round(address, request, &Numbers::new(0, count)).await?.per_second())
}

impl Cpu {
    /// A round, and what it cost.
    async fn watch(
        &mut self,
        server: &Server,
        sandbox: &Sandbox,
        request: &Request,
        numbers: &Numbers,
    ) -> Outcome<Sample> {
        let of_sandbox = || sandbox.id().and_then(usage::cpu_seconds);
        let of_postgres = || server.process().and_then(usage::cpu_seconds_of_children);
        let of_generator = || usage::cpu_seconds(std::process::id());
        let before = (of_sandbox(), of_postgres(), of_generator());
        let sample = round(sandbox.address, request, numbers).await?;
        let after = (of_sandbox(), of_postgres(), of_generator());
        let micros = |after: f64, before: f64| (after - before) * 1e6 / f64::from(sample.answers);
        self.sandbox.extend(after.0.zip(before.0).map(|(after, before)| micros(after, before)));
        self.postgres.extend(after.1.zip(before.1).map(|(after, before)| micros(after, before)));
        self.generator.extend(after.2.zip(before.2).map(|(after, before)| micros(after, before)));
        Ok(sample)
    }

    fn write(self, table: &mut Table) {
        let parts =
            [("sandbox", self.sandbox), ("PostgreSQL", self.postgres), ("load generator", self.generator)];
        let parts: Vec<_> = parts
            .into_iter()
            .filter(|(_, micros)| !micros.is_empty())
            .map(|(name, micros)| format!("{name} {:.0} µs", median(micros)))
            .collect();
        if !parts.is_empty() {
            table.fact(format!("CPU for each order over 32 connections: {}.", parts.join(", ")));
        }
    }
}

/// The median of the ratios of each round, and what it was made of. The rounds of a busy machine lie far apart, so
/// the least and the greatest ratio are told, too.
fn ratio(above: &[f64], below: &[f64], show: impl Fn(f64) -> String) -> (f64, String) {
    let mut ratios: Vec<_> = above.iter().zip(below).map(|(above, below)| above / below).collect();
    ratios.sort_by(f64::total_cmp);
    let (above, below) = (show(median(above.to_vec())), show(median(below.to_vec())));
    let (least, greatest) = (ratios.first().unwrap_or(&f64::NAN), ratios.last().unwrap_or(&f64::NAN));
    let note = format!("{above} and {below}; rounds {least:.2} to {greatest:.2}");
    (median(ratios), note)
}

impl Rounds {
    fn write(&self, table: &mut Table) {
        let speed = |speed: f64| format!("{speed:.0}/s");
        let time = |time: f64| format!("{time:.2} ms");
        for (name, least, above, below) in [
            ("orders ÷ transactions of two inserts", 1.0, &self.creates, &self.pgbench),
            ("replays ÷ orders", 2.0, &self.replays, &self.creates),
            ("look-ups by number ÷ orders", 2.0, &self.look_ups, &self.creates),
            ("orders with the journal ÷ without", 0.9, &self.creates, &self.unjournaled),
            ("orders on the embedded database ÷ on the server", 0.5, &self.embedded, &self.creates),
        ] {
            if above.is_empty() {
                continue;
            }
            let (figure, note) = ratio(above, below, speed);
            table.row(name, Unit::Ratio, AtLeast(least), figure, note);
        }
        let (figure, note) = ratio(&self.creates_alone, &self.pgbench_alone, time);
        let name = "one connection: an order ÷ a transaction";
        table.row(name, Unit::Ratio, AtMost(ALONE_BEFORE), figure, note);
        if !self.embedded_alone.is_empty() {
            let name = "one connection: an order on the embedded database";
            let figure = median(self.embedded_alone.clone());
            table.row(name, Unit::Milliseconds, NoTarget, figure, "p50");
        }
        let (figure, note) = ratio(&self.p99, &self.p50, time);
        let name = "32 connections: p99 ÷ p50 of an order";
        table.row(name, Unit::Ratio, AtMost(4.0), figure, note);
    }
}
