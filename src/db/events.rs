//! The table `events`, the outbox: an event is written in the transaction of its change. Sending is in `leases` and
//! `deliveries`.

use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};
use uuid::Uuid;

use super::orders::{self, LockedOrder};
use super::row::unknown;
use super::{DbError, Tx};
use crate::domain::code::Code;
use crate::domain::id::{EventId, MerchantId, TradeNo};
use crate::domain::webhook::delivery::{EventStatus, StoredEvent};
use crate::domain::webhook::event::{Event, EventType};

/// An event that waits is due when the first event of its order is, at the earliest.
macro_rules! select {
    ($($rest:literal),*) => {
        concat!(
            "SELECT event_id, event_type, created_at, trade_no, coalesce(notify_url, m.webhook_url) AS url,
                    status, attempts, payload,
                    CASE WHEN waits THEN greatest(next_attempt_at, (
                        SELECT first.next_attempt_at FROM events first
                        WHERE first.merchant_id = e.merchant_id AND first.trade_no = e.trade_no
                            AND first.status = 'pending' AND NOT first.waits)) ELSE next_attempt_at END
                        AS next_attempt_at
             FROM events e JOIN merchants m USING (merchant_id) ", $($rest),*)
    };
}

/// Ends a statement of a [`Tx`] that has made events due (`due`): the delivery looks at their merchant `$1` when its
/// clock reaches this time.
macro_rules! lower_delivery_due {
    ($at:literal) => {
        concat!(
            "lowered AS (
                UPDATE merchants m SET delivery_due_at = ",
            $crate::db::real_time!($at),
            " FROM due WHERE m.merchant_id = $1 AND m.delivery_due_at > ",
            $crate::db::real_time!($at),
            ")"
        )
    };
}
pub(super) use lower_delivery_due;

super::declare_statements! {
    /// Without any URL there is nothing to wait for. A later event of an order waits for an earlier one.
    INSERT = concat!("
        WITH url AS (
            SELECT coalesce($5::text, (SELECT webhook_url FROM merchants WHERE merchant_id = $1)) AS url),
        due AS (
            INSERT INTO events (merchant_id, event_id, event_type, trade_no, notify_url, payload, created_at,
                                status, next_attempt_at, position, waits)
            SELECT $1, $2, $3, $4, $5, $6, $7,
                   CASE WHEN url IS NULL THEN 'no_url' ELSE 'pending' END,
                   CASE WHEN url IS NOT NULL THEN $7::timestamptz END,
                   1 + coalesce((SELECT max(position) FROM events WHERE merchant_id = $1 AND trade_no = $4), 0),
                   url IS NOT NULL AND EXISTS (
                       SELECT FROM events
                       WHERE merchant_id = $1 AND trade_no = $4 AND status = 'pending' AND NOT waits)
            FROM url
            RETURNING CASE WHEN NOT waits THEN next_attempt_at END AS at),
        ", lower_delivery_due!("due.at"), "
        SELECT");

    BY_ID = select!("WHERE merchant_id = $1 AND event_id = $2");
    LIST = select!("WHERE merchant_id = $1 AND event_id < $2 ORDER BY event_id DESC LIMIT $3");

    /// The newest events of each pair of these types (`$4`) and statuses (`$5`), each from its range of the index
    /// `events_in_status`. (With an equality instead of a range, the planner could use the primary key, which has
    /// the same order, and read events until enough of them match.)
    LIST_SOME = select!("
        WHERE merchant_id = $1 AND event_id = ANY(ARRAY(
            SELECT event_id FROM unnest($4::text[]) AS t (of_type), unnest($5::text[]) AS s (in_status), LATERAL (
                SELECT event_id FROM events
                WHERE merchant_id = $1 AND (status, event_type, event_id) < (in_status, of_type, $2)
                    AND (status, event_type, event_id)
                        > (in_status, of_type, '00000000-0000-0000-0000-000000000000')
                ORDER BY status DESC, event_type DESC, event_id DESC LIMIT $3) newest
            ORDER BY event_id DESC LIMIT $3))
        ORDER BY event_id DESC");

    LIST_OF_ORDER = select!("
        WHERE merchant_id = $1 AND trade_no = $6 AND event_id < $2 AND event_type = ANY($4)
            AND status = ANY($5)
        ORDER BY event_id DESC LIMIT $3");

    /// Lets the first event of an order wait for an earlier event `$2` that is sent again.
    LET_WAIT = "
        UPDATE events SET waits = true
        WHERE merchant_id = $1 AND trade_no = $3 AND status = 'pending' AND NOT waits AND position > (
            SELECT position FROM events WHERE merchant_id = $1 AND event_id = $2)";

    /// The schedule starts anew, under a new fence: an attempt in flight no longer changes the status. Its fault has
    /// struck.
    REDELIVER = concat!("
        WITH due AS (
            UPDATE events e
            SET status = 'pending', retries = 0, next_attempt_at = $3, lease_until = NULL, lease_holder = NULL,
                fence = fence + 1, fault = CASE WHEN lease_until > clock_timestamp() THEN NULL ELSE fault END,
                waits = EXISTS (
                    SELECT FROM events first
                    WHERE first.merchant_id = $1 AND first.trade_no = e.trade_no AND first.event_id <> $2
                        AND first.status = 'pending' AND NOT first.waits)
            FROM merchants m
            WHERE m.merchant_id = $1 AND e.merchant_id = $1 AND e.event_id = $2
                AND coalesce(e.notify_url, m.webhook_url) IS NOT NULL
            RETURNING CASE WHEN NOT e.waits THEN e.next_attempt_at END AS at),
        ", lower_delivery_due!("due.at"), "
        SELECT FROM due");
}

impl FromRow<'_, PgRow> for StoredEvent {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            event_id: EventId::from_uuid(row.try_get("event_id")?),
            event_type: row.try_get("event_type")?,
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

/// Writes an event about an order, of which no two are written at once, or the test callback, which has none.
pub async fn insert<'c>(
    tx: &mut Tx<'c>,
    order: Option<&LockedOrder<'c>>,
    event: &Event,
) -> Result<(), DbError> {
    let insert = sqlx::query(INSERT)
        .bind(event.merchant.uuid())
        .bind(event.event_id.uuid())
        .bind(event.event_type.code())
        .bind(order.map(|order| order.trade_no.uuid()))
        .bind(&event.notify_url)
        .bind(&event.payload)
        .bind(event.created_at);
    insert.execute(&mut **tx).await?;
    tx.note_due_events();
    Ok(())
}

/// An event by its identifier.
pub async fn by_id(
    conn: &mut PgConnection,
    merchant: MerchantId,
    event_id: EventId,
) -> Result<Option<StoredEvent>, DbError> {
    Ok(sqlx::query_as(BY_ID).bind(merchant.uuid()).bind(event_id.uuid()).fetch_optional(conn).await?)
}

/// Which events a list holds; without filters, all.
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
pub async fn list(
    conn: &mut PgConnection,
    merchant: MerchantId,
    before: Option<EventId>,
    filters: &Filters,
    limit: i64,
) -> Result<Vec<StoredEvent>, DbError> {
    let has_filter = filters.event_type.is_some() || filters.status.is_some();
    let sql = match filters.trade_no {
        Some(_) => LIST_OF_ORDER,
        None if has_filter => LIST_SOME,
        None => LIST,
    };
    let before = before.map_or(Uuid::max(), EventId::uuid);
    let mut list = sqlx::query_as(sql).bind(merchant.uuid()).bind(before).bind(limit);
    if has_filter || filters.trade_no.is_some() {
        list = list.bind(filters.event_type.map_or(EventType::names(), |only| vec![only.code()]));
        list = list.bind(filters.status.map_or(EventStatus::names(), |only| vec![only.code()]));
    }
    if let Some(trade_no) = filters.trade_no {
        list = list.bind(trade_no.uuid());
    }
    Ok(list.fetch_all(conn).await?)
}

/// Makes an event due again, whatever its status, and starts its schedule anew. Returns false if there is no such
/// event, or no URL to send it to.
pub async fn redeliver(
    tx: &mut Tx<'_>,
    event_id: EventId,
    trade_no: Option<TradeNo>,
) -> Result<bool, DbError> {
    orders::lock_rows(tx, trade_no.into_iter()).await?;
    let (merchant, now) = (tx.merchant().uuid(), tx.now());
    let wait = sqlx::query(LET_WAIT).bind(merchant).bind(event_id.uuid()).bind(trade_no.map(TradeNo::uuid));
    wait.execute(&mut **tx).await?;
    let redeliver = sqlx::query(REDELIVER).bind(merchant).bind(event_id.uuid()).bind(now);
    let is_due = redeliver.fetch_optional(&mut **tx).await?.is_some();
    if is_due {
        tx.note_due_events();
    }
    Ok(is_due)
}
