//! Whether the embedded database stays as fast as it was while orders pile up.

use std::net::SocketAddr;

use super::{MERCHANT, all, warm};
use crate::Outcome;
use crate::load::Request;
use crate::sandbox::Sandbox;
use crate::table::Target::AtLeast;
use crate::table::{Table, Unit, median};

/// How many orders there are in the end, and how many are timed together.
const ORDERS: u32 = 100_000;
const STEP: u32 = 10_000;

pub(super) async fn measure(table: &mut Table) -> Outcome<()> {
    let sandbox = Sandbox::embedded().await?;
    warm(sandbox.address).await?;
    let mut speeds = Vec::new();
    for first in (0..ORDERS).step_by(STEP as usize) {
        speeds.push(step(sandbox.address, first).await?);
    }
    sandbox.stop().await?;
    // Three of each, as one alone may have met other work on this machine.
    let (early, late) = (median(speeds[..3].to_vec()), median(speeds[speeds.len() - 3..].to_vec()));
    let name = format!("embedded: the last of {ORDERS} orders ÷ the first");
    table.row(&name, Unit::Ratio, AtLeast(0.9), late / early, format!("{late:.0}/s ÷ {early:.0}/s"));
    Ok(())
}

async fn step(address: SocketAddr, first: u32) -> Outcome<f64> {
    Ok(all(address, &Request::create(MERCHANT), first, STEP).await?.per_second())
}
