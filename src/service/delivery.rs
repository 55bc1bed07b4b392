//! Delivery, as far as the database is concerned: which events are to be sent now, and what came of it.
//! Each is a short transaction; nothing is held in between, while the receiver takes its time.

use time::Duration;

use super::{Gateway, faults};
use crate::db::deliveries::{self, Attempt, Room, Taken, Underway};
use crate::db::{Connection, DbError};
use crate::domain::fault::DeliveryFault;
use crate::domain::occasion::Occasion;

/// How long an attempt is nobody else's. Longer than it can take with the search for its fault and with its
/// record: one second, ten, a wait for a connection and a statement that runs into its limit. It is also how
/// long the events wait that a killed process had taken from a shared server.
const LEASE: Duration = Duration::seconds(23);

/// How long the search for a fault may take.
const FAULT_WITHIN: std::time::Duration = std::time::Duration::from_secs(1);

/// Takes events that are due, to be sent by this process.
///
/// # Errors
/// Those of the database.
pub async fn take(gateway: &Gateway, room: Room, underway: &Underway) -> Result<Vec<Taken>, DbError> {
    deliveries::take(&mut *gateway.db.acquire().await?, room, underway, LEASE).await
}

/// The fault that strikes an attempt, if one does. One that was held back is not held back again.
///
/// # Errors
/// Those of the database; then the event is sent when its lease is over.
pub async fn fault(gateway: &Gateway, taken: &Taken) -> Result<Option<DeliveryFault>, DbError> {
    let occasion = Occasion::of_event(taken.event_type, &taken.payload);
    let strike = faults::strike_delivery(gateway, taken.merchant, &occasion, !taken.delayed);
    tokio::time::timeout(FAULT_WITHIN, strike).await.unwrap_or_else(|_| Err(DbError::took_too_long()))
}

/// Holds an attempt back by a time of the merchant's clock.
///
/// # Errors
/// Those of the database; then the event is looked at again when its lease is over.
pub async fn postpone(gateway: &Gateway, taken: &Taken, delay: std::time::Duration) -> Result<(), DbError> {
    let delay = Duration::try_from(delay).unwrap_or(Duration::DAY);
    let mut conn = gateway.db.acquire().await?;
    let mut tx = conn.begin().await?;
    deliveries::postpone(&mut tx, taken, delay).await?;
    Ok(tx.commit().await?)
}

/// Records an attempt, and what follows from it for the event.
///
/// # Errors
/// Those of the database; then the event is sent again when its lease is over.
pub async fn record(gateway: &Gateway, attempt: &Attempt<'_>) -> Result<(), DbError> {
    let mut conn = gateway.db.acquire().await?;
    let mut tx = conn.begin().await?;
    let has_next = deliveries::record(&mut tx, attempt).await?;
    tx.commit().await?;
    wake_if(gateway, has_next);
    Ok(())
}

/// Ends the delivery of an event that has no URL any more.
///
/// # Errors
/// Those of the database; then it is looked at again when its lease is over.
pub async fn give_up(gateway: &Gateway, taken: &Taken) -> Result<(), DbError> {
    let mut conn = gateway.db.acquire().await?;
    let mut tx = conn.begin().await?;
    let has_next = deliveries::give_up(&mut tx, taken).await?;
    tx.commit().await?;
    wake_if(gateway, has_next);
    Ok(())
}

fn wake_if(gateway: &Gateway, has_next: bool) {
    if has_next {
        gateway.wake_delivery();
    }
}
