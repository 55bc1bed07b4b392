//! The audit of a merchant's client: reads its calls and events, which the rules in `domain::audit` judge.

use super::{Gateway, journal};
use crate::db::{DbError, deliveries, requests};
use crate::domain::audit::{Call, Report, Thresholds, judge};
use crate::domain::id::MerchantId;

/// How many events are looked at, the newest first: as many as the journal has calls.
const MAX_EVENTS: i64 = 10_000;
/// How many calls are read at once.
const SLICE: u16 = 500;

/// Judges a merchant's client by the calls that were answered until now, as far as the journal holds them.
pub async fn report(
    gateway: &Gateway,
    merchant: MerchantId,
    thresholds: Thresholds,
) -> Result<Report, DbError> {
    // A retry that has been answered but not been written yet would look like giving up.
    let reach = journal::reach(gateway, merchant).await?;
    let calls = read(gateway, merchant).await?;
    let events = deliveries::sent(&mut *gateway.db.acquire().await?, merchant, MAX_EVENTS).await?;
    // Comparing thousands of calls must not block a thread that serves requests.
    let judged = tokio::task::spawn_blocking(move || judge(&calls, &events, thresholds, reach)).await;
    Ok(judged.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())))
}

/// Reads in slices, so that others get the connection in between.
async fn read(gateway: &Gateway, merchant: MerchantId) -> Result<Vec<Call>, DbError> {
    let mut calls: Vec<Call> = Vec::new();
    loop {
        let after = calls.last().map(|call| call.request_id);
        let slice = requests::calls(&mut *gateway.db.acquire().await?, merchant, after, SLICE.into()).await?;
        let is_last = slice.len() < usize::from(SLICE);
        calls.extend(slice);
        if is_last {
            return Ok(calls);
        }
    }
}
