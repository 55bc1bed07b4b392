//! The table `merchants`: one row for each API key that has written something, and its time.

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{DbError, merchant_now_or_new};
use crate::domain::clock::Clock;
use crate::domain::id::MerchantId;

super::declare_statements! {
    OPEN = concat!("
        WITH merchant AS (INSERT INTO merchants (merchant_id) VALUES ($1) ON CONFLICT DO NOTHING)
        SELECT ", merchant_now_or_new!());

    CLOCK = "
        SELECT clock_offset_ms, clock_frozen_at, date_trunc('milliseconds', clock_timestamp()) AS real
        FROM merchants WHERE merchant_id = $1";

    LOCK_CLOCK = "
        SELECT clock_offset_ms, clock_frozen_at, date_trunc('milliseconds', clock_timestamp()) AS real
        FROM merchants WHERE merchant_id = $1 FOR NO KEY UPDATE";

    SET_CLOCK = "UPDATE merchants SET clock_offset_ms = $2, clock_frozen_at = $3 WHERE merchant_id = $1";

    AFTER = "SELECT merchant_id FROM merchants WHERE merchant_id > $1 ORDER BY merchant_id LIMIT $2";
}

/// Opens a merchant that may be new, and returns its time.
///
/// # Errors
/// Those of the database.
pub async fn open(conn: &mut PgConnection, merchant: MerchantId) -> Result<OffsetDateTime, DbError> {
    Ok(sqlx::query_scalar(OPEN).bind(merchant.uuid()).fetch_one(conn).await?)
}

/// A merchant's clock, and real time.
///
/// # Errors
/// Those of the database.
pub async fn clock(
    conn: &mut PgConnection,
    merchant: MerchantId,
) -> Result<(Clock, OffsetDateTime), DbError> {
    read_clock(&sqlx::query(CLOCK).bind(merchant.uuid()).fetch_one(conn).await?)
}

/// The same, and nobody else changes that clock until the end of the transaction.
///
/// # Errors
/// Those of the database.
pub async fn lock_clock(
    conn: &mut PgConnection,
    merchant: MerchantId,
) -> Result<(Clock, OffsetDateTime), DbError> {
    read_clock(&sqlx::query(LOCK_CLOCK).bind(merchant.uuid()).fetch_one(conn).await?)
}

fn read_clock(row: &PgRow) -> Result<(Clock, OffsetDateTime), DbError> {
    let (offset_ms, frozen_at) = (row.try_get("clock_offset_ms")?, row.try_get("clock_frozen_at")?);
    Ok((Clock { offset_ms, frozen_at }, row.try_get("real")?))
}

/// Sets a merchant's clock.
///
/// # Errors
/// Those of the database.
pub async fn set_clock(conn: &mut PgConnection, merchant: MerchantId, clock: Clock) -> Result<(), DbError> {
    let update = sqlx::query(SET_CLOCK).bind(merchant.uuid()).bind(clock.offset_ms).bind(clock.frozen_at);
    update.execute(conn).await?;
    Ok(())
}

/// The merchants that follow one in the order of their numbers, at most `limit`.
///
/// # Errors
/// Those of the database.
pub async fn after(
    conn: &mut PgConnection,
    previous: Option<MerchantId>,
    limit: i64,
) -> Result<Vec<MerchantId>, DbError> {
    let previous = previous.map_or(Uuid::nil(), MerchantId::uuid);
    let rows = sqlx::query_scalar(AFTER).bind(previous).bind(limit).fetch_all(conn).await?;
    Ok(rows.into_iter().map(MerchantId::from_uuid).collect())
}
