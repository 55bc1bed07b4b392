//! What is measured, part by part. Each part starts the sandboxes that it needs, and adds its rows to the table.

mod against;
mod audit;
mod creates;
mod events;
mod generator;
mod growth;
mod level;
mod ready;

use std::net::SocketAddr;
use std::time::Duration;

use crate::load::{self, Numbers, Request, Sample, Until};
use crate::postgres::Server;
use crate::table::Table;
use crate::{Options, Outcome};

/// Whether this build has an embedded database.
const HAS_EMBEDDED: bool = cfg!(feature = "embedded");
/// How many clients there are, each with one request under way.
pub(crate) const CONNECTIONS: usize = 32;
/// How often everything is measured in turns; the median counts.
const ROUNDS: usize = 3;
/// How long one measurement takes.
const ROUND: Duration = Duration::from_secs(4);
/// How long one connection is measured alone.
const ALONE: Duration = Duration::from_secs(2);
/// Between two measurements, in which what the first one left is finished.
const REST: Duration = Duration::from_millis(500);

/// The merchant whose orders are counted, where it does not matter.
const MERCHANT: &str = "kuko_test_speed_000001";

/// Measures what the options ask for.
pub(crate) async fn measure(options: &Options, server: &Server, table: &mut Table) -> Outcome<()> {
    if options.has("generator") {
        generator::measure(table).await?;
    }
    if options.has("creates") {
        creates::measure(server, table).await?;
    }
    if HAS_EMBEDDED && options.has("level") {
        level::measure(table).await?;
    }
    if options.has("events") {
        events::measure(server, table).await?;
    }
    if options.has("audit") {
        audit::measure(server, table).await?;
    }
    if options.has("ready") {
        ready::measure(server, table).await?;
    }
    if options.is_long && options.has("growth") {
        growth::measure(server, table).await?;
    }
    if let Some(other) = &options.against
        && options.has("against")
    {
        against::measure(server, other, table).await?;
    }
    Ok(())
}

/// Sends a request over all connections for a round, after a rest.
async fn round(address: SocketAddr, request: &Request, numbers: &Numbers) -> Outcome<Sample> {
    tokio::time::sleep(REST).await;
    load::run(address, request, numbers, CONNECTIONS, Until::Over(ROUND)).await
}

/// The same over one connection, for less long.
async fn alone(address: SocketAddr, request: &Request, numbers: &Numbers) -> Outcome<Sample> {
    tokio::time::sleep(REST).await;
    load::run(address, request, numbers, 1, Until::Over(ALONE)).await
}

/// So many orders, or anything else with a number.
async fn all(address: SocketAddr, request: &Request, first: u32, count: u32) -> Outcome<Sample> {
    let limit = Duration::from_mins(1) + Duration::from_millis(20) * count;
    load::run(address, request, &Numbers::new(first, count), CONNECTIONS, Until::Used(limit)).await
}

/// Orders until connections, caches and plans are warm.
async fn warm(address: SocketAddr) -> Outcome<()> {
    all(address, &Request::create("kuko_test_speed_warm_01"), 0, 2000).await?;
    Ok(())
}
