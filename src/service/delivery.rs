//! Delivery, as far as the database is concerned: which events are to be sent now, and what came of it.
//! Each is a short transaction; nothing is held in between, while the receiver takes its time.

use time::Duration;

use super::Gateway;
use crate::db::deliveries::{self, Attempt, Room, Taken, Underway};
use crate::db::{Connection, DbError};

/// How long an attempt is nobody else's. Longer than it can take with its record: ten seconds, a wait for a
/// connection and a statement that runs into its limit. It is also how long the events wait that a killed
/// process had taken from a shared server.
const LEASE: Duration = Duration::seconds(22);

/// Takes events that are due, to be sent by this process.
///
/// # Errors
/// Those of the database.
pub async fn take(gateway: &Gateway, room: Room, underway: &Underway) -> Result<Vec<Taken>, DbError> {
    deliveries::take(&mut *gateway.db.acquire().await?, room, underway, LEASE).await
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
