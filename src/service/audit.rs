//! The audit of a merchant's client: reads what the client did and what it was told, for the rules in
//! `domain::audit` to judge.

use super::Gateway;
use crate::db::{DbError, deliveries, requests};
use crate::domain::audit::{Call, Report, SentEvent, Thresholds, judge};
use crate::domain::id::MerchantId;

/// How many events are looked at, the newest first: as many as the journal has calls.
const MAX_EVENTS: i64 = 10_000;

/// Judges a merchant's client by what the journal holds now.
///
/// # Errors
/// Those of the database.
pub async fn report(
    gateway: &Gateway,
    merchant: MerchantId,
    thresholds: Thresholds,
) -> Result<Report, DbError> {
    let (calls, events) = read(gateway, merchant).await?;
    // Thousands of bodies are parsed: not on a thread that serves requests.
    let judged = tokio::task::spawn_blocking(move || judge(&calls, &events, thresholds)).await;
    Ok(judged.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())))
}

async fn read(gateway: &Gateway, merchant: MerchantId) -> Result<(Vec<Call>, Vec<SentEvent>), DbError> {
    // A retry that has been answered but not been written yet would look like giving up.
    gateway.journal.flush(Some(merchant)).await;
    let mut conn = gateway.db.acquire().await?;
    let entries = requests::oldest_first(&mut conn, merchant).await?;
    let events = deliveries::sent(&mut conn, merchant, MAX_EVENTS).await?;
    Ok((entries.into_iter().map(Call::from).collect(), events))
}
