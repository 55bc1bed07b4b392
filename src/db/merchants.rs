//! The table `merchants`: one row for each API key that has written something, its time and its webhook
//! settings.

use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{DbError, merchant_now_or_new, open_merchant};
use crate::domain::clock::Clock;
use crate::domain::id::MerchantId;
use crate::domain::webhook::{Rotation, SettingsChange, WebhookSecret, WebhookSettings};

macro_rules! webhook {
    () => {
        "webhook_url, webhook_secret,
         CASE WHEN previous_secret_until > clock_timestamp() THEN previous_secret_until END AS until"
    };
}

super::declare_statements! {
    OPEN = concat!(open_merchant!(), " SELECT ", merchant_now_or_new!());

    CLOCK = "
        SELECT clock_offset_ms, clock_frozen_at, date_trunc('milliseconds', clock_timestamp()) AS real
        FROM merchants WHERE merchant_id = $1";

    LOCK_CLOCK = "
        SELECT clock_offset_ms, clock_frozen_at, date_trunc('milliseconds', clock_timestamp()) AS real
        FROM merchants WHERE merchant_id = $1 FOR NO KEY UPDATE";

    SET_CLOCK = "UPDATE merchants SET clock_offset_ms = $2, clock_frozen_at = $3 WHERE merchant_id = $1";

    WEBHOOK = concat!("SELECT ", webhook!(), " FROM merchants WHERE merchant_id = $1");

    /// `$2` tells whether the URL changes. A new secret signs alone, so it ends a rotation.
    SET_WEBHOOK = concat!("
        UPDATE merchants
        SET webhook_url = CASE WHEN $2 THEN $3 ELSE webhook_url END,
            webhook_secret = coalesce($4, webhook_secret),
            previous_webhook_secret = CASE WHEN $4 IS NULL THEN previous_webhook_secret END,
            previous_secret_until = CASE WHEN $4 IS NULL THEN previous_secret_until END
        WHERE merchant_id = $1
        RETURNING ", webhook!());

    ROTATE_SECRET = concat!("
        UPDATE merchants
        SET webhook_secret = $2, previous_webhook_secret = webhook_secret,
            previous_secret_until = date_trunc('milliseconds', clock_timestamp() + $3)
        WHERE merchant_id = $1
        RETURNING ", webhook!());

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

impl FromRow<'_, PgRow> for WebhookSettings {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            url: row.try_get("webhook_url")?,
            secret: WebhookSecret::stored(row.try_get("webhook_secret")?),
            previous_secret_until: row.try_get("until")?,
        })
    }
}

/// A merchant's webhook settings.
///
/// # Errors
/// Those of the database.
pub async fn webhook(conn: &mut PgConnection, merchant: MerchantId) -> Result<WebhookSettings, DbError> {
    Ok(sqlx::query_as(WEBHOOK).bind(merchant.uuid()).fetch_one(conn).await?)
}

/// Changes a merchant's webhook settings, and returns them.
///
/// # Errors
/// Those of the database.
pub async fn set_webhook(
    conn: &mut PgConnection,
    merchant: MerchantId,
    change: &SettingsChange,
) -> Result<WebhookSettings, DbError> {
    let update = sqlx::query_as(SET_WEBHOOK)
        .bind(merchant.uuid())
        .bind(change.url.is_some())
        .bind(change.url.as_ref().and_then(Option::as_deref))
        .bind(change.secret.as_ref().map(WebhookSecret::as_str));
    Ok(update.fetch_one(conn).await?)
}

/// Gives a merchant a new secret beside the old one, and returns its settings.
///
/// # Errors
/// Those of the database.
pub async fn rotate_secret(
    conn: &mut PgConnection,
    merchant: MerchantId,
    rotation: &Rotation,
) -> Result<WebhookSettings, DbError> {
    let update = sqlx::query_as(ROTATE_SECRET)
        .bind(merchant.uuid())
        .bind(rotation.secret.as_str())
        .bind(rotation.overlap);
    Ok(update.fetch_one(conn).await?)
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
