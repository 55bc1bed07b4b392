//! A merchant's clock: reading and setting it, and doing what has come due (contract, section 7).

use time::{Duration, OffsetDateTime};

use super::{Gateway, WorkError, due};
use crate::db::DbError;
use crate::db::merchants::{self, Alone};
use crate::domain::id::MerchantId;
use crate::domain::refusal::Refusal;
use crate::domain::time::clock::{Clock, OutOfRange};

/// A clock, and the moment of real time at which it was read.
#[derive(Debug)]
pub struct Reading {
    /// The clock.
    pub clock: Clock,
    /// The database's time.
    pub real: OffsetDateTime,
}

/// Reads a merchant's clock.
pub async fn read(gateway: &Gateway, merchant: MerchantId) -> Result<Reading, DbError> {
    let mut conn = gateway.db.acquire().await?;
    merchants::open(&mut conn, merchant).await?;
    let (clock, real) = merchants::clock(&mut conn, merchant).await?;
    Ok(Reading { clock, real })
}

/// A clock that was moved.
#[derive(Debug)]
pub struct Moved {
    /// What it shows now.
    pub reading: Reading,
    /// Whether all work that came due is done; if not, a worker does it soon.
    pub due_work_done: bool,
}

/// By how much, or to which time, a clock is advanced.
#[derive(Debug, Clone, Copy)]
pub enum Advance {
    /// By a duration.
    By(Duration),
    /// To a time, unless it already shows a later one, so that a retry changes nothing.
    To(OffsetDateTime),
}

/// How long a call waits for the work that has come due. That is enough to close tens of thousands of orders.
const CATCH_UP_WITHIN: std::time::Duration = std::time::Duration::from_mins(1);

/// Lets time pass at once, and does the work that comes due by it.
///
/// # Errors
/// A refusal if the clock would leave its range, or those of the database; then it was not moved, unless the connection
/// broke during the commit.
pub async fn advance(gateway: &Gateway, merchant: MerchantId, by: Advance) -> Result<Moved, WorkError> {
    match by {
        Advance::By(by) => change(gateway, merchant, |clock, real| clock.advanced(by, real), "seconds").await,
        Advance::To(to) => change(gateway, merchant, |clock, real| clock.advanced_to(to, real), "to").await,
    }
}

/// Sets the time, and whether it is frozen; `None` changes nothing. Does the work that comes due by it.
///
/// # Errors
/// As of [`advance`].
pub async fn set(
    gateway: &Gateway,
    merchant: MerchantId,
    now: Option<OffsetDateTime>,
    frozen: Option<bool>,
) -> Result<Moved, WorkError> {
    change(gateway, merchant, |clock, real| clock.set(now, frozen, real), "now").await
}

async fn change(
    gateway: &Gateway,
    merchant: MerchantId,
    change: impl FnOnce(Clock, OffsetDateTime) -> Result<Clock, OutOfRange>,
    param: &'static str,
) -> Result<Moved, WorkError> {
    // Earlier calls are journaled with the time before.
    gateway.journal.flush(merchant).await;
    let mut conn = gateway.db.acquire().await?;
    let mut alone = Alone::begin(&mut conn, merchant).await?;
    let (clock, real) = merchants::clock(alone.conn(), merchant).await?;
    let clock = change(clock, real).map_err(|OutOfRange| Refusal::ClockOutOfRange(param))?;
    alone.set_clock(clock).await?;
    alone.commit().await?;
    drop(conn);
    // The clock is moved. An error from here on would make the caller move it twice.
    let caught_up = tokio::time::timeout(CATCH_UP_WITHIN, due::catch_up(gateway, merchant)).await;
    if let Ok(Err(error)) = &caught_up {
        tracing::warn!(%error, "what has come due is done later");
    }
    gateway.wake_delivery();
    Ok(Moved { reading: Reading { clock, real }, due_work_done: matches!(caught_up, Ok(Ok(()))) })
}
