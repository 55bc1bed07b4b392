//! The table `merchants`: one row for each API key that has written something, and its time.

use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{DbError, merchant_now_or_new};
use crate::domain::id::MerchantId;

super::declare_statements! {
    OPEN = concat!("
        WITH merchant AS (INSERT INTO merchants (merchant_id) VALUES ($1) ON CONFLICT DO NOTHING)
        SELECT ", merchant_now_or_new!());

    AFTER = "SELECT merchant_id FROM merchants WHERE merchant_id > $1 ORDER BY merchant_id LIMIT $2";
}

/// Opens a merchant that may be new, and returns its time.
///
/// # Errors
/// Those of the database.
pub async fn open(conn: &mut PgConnection, merchant: MerchantId) -> Result<OffsetDateTime, DbError> {
    Ok(sqlx::query_scalar(OPEN).bind(merchant.uuid()).fetch_one(conn).await?)
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
