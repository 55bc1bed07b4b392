//! A merchant's clock: reading and setting it, and doing what has come due (contract, section 7).

use time::{Duration, OffsetDateTime};

use super::{Gateway, WorkError, orders, refunds};
use crate::db::{Connection, DbError, merchants};
use crate::domain::clock::{Clock, OutOfRange};
use crate::domain::id::MerchantId;
use crate::domain::refusal::Refusal;

/// A clock, and the moment of real time at which it was read.
#[derive(Debug)]
pub struct Reading {
    /// The clock.
    pub clock: Clock,
    /// The database's time.
    pub real: OffsetDateTime,
}

/// Reads a merchant's clock.
///
/// # Errors
/// Those of the database.
pub async fn read(gateway: &Gateway, merchant: MerchantId) -> Result<Reading, DbError> {
    let mut conn = gateway.db.acquire().await?;
    merchants::open(&mut conn, merchant).await?;
    let (clock, real) = merchants::clock(&mut conn, merchant).await?;
    Ok(Reading { clock, real })
}

/// Lets time pass at once, and does what has come due by it.
///
/// # Errors
/// A refusal where the clock would leave its range, or those of the database.
pub async fn advance(gateway: &Gateway, merchant: MerchantId, by: Duration) -> Result<Reading, WorkError> {
    change(gateway, merchant, |clock, real| clock.advanced(by, real), "seconds").await
}

/// Sets the time, and whether it stands still; what is not given stays. Does what has come due by it.
///
/// # Errors
/// A refusal where the clock would leave its range, or those of the database.
pub async fn set(
    gateway: &Gateway,
    merchant: MerchantId,
    now: Option<OffsetDateTime>,
    frozen: Option<bool>,
) -> Result<Reading, WorkError> {
    change(gateway, merchant, |clock, real| clock.set(now, frozen, real), "now").await
}

async fn change(
    gateway: &Gateway,
    merchant: MerchantId,
    change: impl FnOnce(Clock, OffsetDateTime) -> Result<Clock, OutOfRange>,
    param: &'static str,
) -> Result<Reading, WorkError> {
    // What was called before is journaled with the time before.
    gateway.journal.flush(None).await;
    let mut conn = gateway.db.acquire().await?;
    merchants::open(&mut conn, merchant).await?;
    let mut tx = conn.begin().await.map_err(DbError::from)?;
    let (clock, real) = merchants::lock_clock(&mut tx, merchant).await?;
    let clock = change(clock, real).map_err(|OutOfRange| Refusal::ClockOutOfRange(param))?;
    merchants::set_clock(&mut tx, merchant, clock).await?;
    tx.commit().await.map_err(DbError::from)?;
    drop(conn);
    catch_up(gateway).await?;
    gateway.wake_delivery();
    Ok(Reading { clock, real })
}

/// Does all that is due by the merchants' clocks: closes orders whose time is over, settles refunds.
///
/// # Errors
/// Those of the database.
pub async fn catch_up(gateway: &Gateway) -> Result<(), DbError> {
    // One at a time: rows that another round has locked are skipped, and who has advanced a clock wants
    // them done when the answer comes.
    let _round = gateway.catching_up.lock().await;
    while orders::expire_due(gateway).await? {}
    while refunds::settle_due(gateway).await? {}
    Ok(())
}
