//! The table `events`, the outbox: what has happened, written in the transaction of the change. Sending it
//! is in `deliveries`.

use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};
use uuid::Uuid;

use super::orders::unknown;
use super::{DbError, merchant_now};
use crate::domain::delivery::{EventStatus, StoredEvent};
use crate::domain::event::{Event, EventType};
use crate::domain::id::{EventId, MerchantId, TradeNo};

macro_rules! select {
    ($($rest:literal),*) => {
        concat!(
            "SELECT event_id, event_type, created_at, trade_no, coalesce(notify_url, m.webhook_url) AS url,
                    status, attempts, next_attempt_at, payload
             FROM events JOIN merchants m USING (merchant_id) ", $($rest),*)
    };
}

super::declare_statements! {
    /// Without any URL there is nothing to wait for. A later event of an order is due when the earlier is.
    INSERT = "
        WITH url AS (
            SELECT coalesce($5::text, (SELECT webhook_url FROM merchants WHERE merchant_id = $1)) AS url)
        INSERT INTO events (merchant_id, event_id, event_type, trade_no, notify_url, payload, created_at,
                            status, next_attempt_at)
        SELECT $1, $2, $3, $4, $5, $6, $7,
               CASE WHEN url IS NULL THEN 'no_url' ELSE 'pending' END,
               CASE WHEN url IS NOT NULL THEN coalesce(
                   (SELECT max(next_attempt_at) FROM events
                    WHERE merchant_id = $1 AND trade_no = $4 AND next_attempt_at IS NOT NULL), $7) END
        FROM url";

    BY_ID = select!("WHERE merchant_id = $1 AND event_id = $2");
    LIST = select!("
        WHERE merchant_id = $1 AND event_id < $2 AND ($3::text IS NULL OR event_type = $3)
            AND ($4::text IS NULL OR status = $4)
        ORDER BY event_id DESC LIMIT $5");
    LIST_OF_ORDER = select!("
        WHERE merchant_id = $1 AND trade_no = $6 AND event_id < $2 AND ($3::text IS NULL OR event_type = $3)
            AND ($4::text IS NULL OR status = $4)
        ORDER BY event_id DESC LIMIT $5");

    /// The schedule starts anew. Who has an attempt under way finds the fence raised.
    REDELIVER = concat!("
        UPDATE events e
        SET status = 'pending', retries = 0, next_attempt_at = ", merchant_now!(), ", lease_until = NULL,
            fence = fence + 1
        FROM merchants m
        WHERE m.merchant_id = $1 AND e.merchant_id = $1 AND e.event_id = $2
            AND coalesce(e.notify_url, m.webhook_url) IS NOT NULL");
}

impl FromRow<'_, PgRow> for StoredEvent {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            event_id: EventId::from_uuid(row.try_get("event_id")?),
            event_type: event_type(row)?,
            created_at: row.try_get("created_at")?,
            trade_no: row.try_get::<Option<_>, _>("trade_no")?.map(TradeNo::from_uuid),
            url: row.try_get("url")?,
            status: EventStatus::from_code(row.try_get("status")?).ok_or_else(|| unknown("event status"))?,
            attempts: row.try_get("attempts")?,
            next_attempt_at: row.try_get("next_attempt_at")?,
            payload: row.try_get("payload")?,
        })
    }
}

pub(super) fn event_type(row: &PgRow) -> sqlx::Result<EventType> {
    EventType::from_code(row.try_get("event_type")?).ok_or_else(|| unknown("event type"))
}

/// Writes an event. Whoever writes it has locked the row of its order, so that of one order no two are
/// written at once.
///
/// # Errors
/// Those of the database.
pub async fn insert(conn: &mut PgConnection, event: &Event) -> Result<(), DbError> {
    let insert = sqlx::query(INSERT)
        .bind(event.merchant.uuid())
        .bind(event.event_id.uuid())
        .bind(event.event_type.code())
        .bind(event.trade_no.map(TradeNo::uuid))
        .bind(&event.notify_url)
        .bind(&event.payload)
        .bind(event.created_at);
    insert.execute(conn).await?;
    Ok(())
}

/// An event by its identifier.
///
/// # Errors
/// Those of the database.
pub async fn by_id(
    conn: &mut PgConnection,
    merchant: MerchantId,
    event_id: EventId,
) -> Result<Option<StoredEvent>, DbError> {
    Ok(sqlx::query_as(BY_ID).bind(merchant.uuid()).bind(event_id.uuid()).fetch_optional(conn).await?)
}

/// Which events a list has; all, where nothing is named.
#[derive(Debug, Default)]
pub struct Filters {
    /// Of this type.
    pub event_type: Option<EventType>,
    /// Of this order.
    pub trade_no: Option<TradeNo>,
    /// In this state.
    pub status: Option<EventStatus>,
}

/// A merchant's events from the newest on, or from the one after `before` on, at most `limit`.
///
/// # Errors
/// Those of the database.
pub async fn list(
    conn: &mut PgConnection,
    merchant: MerchantId,
    before: Option<EventId>,
    filters: &Filters,
    limit: i64,
) -> Result<Vec<StoredEvent>, DbError> {
    let sql = if filters.trade_no.is_some() { LIST_OF_ORDER } else { LIST };
    let mut list = sqlx::query_as(sql)
        .bind(merchant.uuid())
        .bind(before.map_or(Uuid::max(), EventId::uuid))
        .bind(filters.event_type.map(EventType::code))
        .bind(filters.status.map(EventStatus::code))
        .bind(limit);
    if let Some(trade_no) = filters.trade_no {
        list = list.bind(trade_no.uuid());
    }
    Ok(list.fetch_all(conn).await?)
}

/// Makes an event due again, whatever came of it, with the whole schedule before it. False where there is
/// no such event, or no URL to send it to.
///
/// # Errors
/// Those of the database.
pub async fn redeliver(
    conn: &mut PgConnection,
    merchant: MerchantId,
    event_id: EventId,
) -> Result<bool, DbError> {
    let update = sqlx::query(REDELIVER).bind(merchant.uuid()).bind(event_id.uuid());
    Ok(update.execute(conn).await?.rows_affected() == 1)
}
