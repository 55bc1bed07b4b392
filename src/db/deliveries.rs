//! The table `deliveries`: the outcome of each attempt to send an event, recorded together with the new status of the
//! event and of the next event of its order.
//!
//! Adding or ending a pending event requires a lock on the row of its order. So it is certain which event is the
//! first; the others wait.

use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};
use time::OffsetDateTime;

use super::events::lower_delivery_due;
use super::leases::Lease;
use super::row::event_type;
use super::{DbError, Tx, orders};
use crate::domain::audit::SentEvent;
use crate::domain::code::Code;
use crate::domain::fault::delivery::{self, DeliveryFault};
use crate::domain::id::{EventId, MerchantId};
use crate::domain::webhook::delivery::{AttemptOutcome, Delivery, EventStatus};

/// After `written` has ended the first event of an order: if no other event comes first, the next one waits no longer
/// and is due now.
macro_rules! next {
    ($now:literal) => {
        concat!(
            "next AS (
            UPDATE events n SET waits = false, next_attempt_at = least(n.next_attempt_at, ",
            $now,
            ") FROM written w
            WHERE w.ours AND w.status <> 'pending' AND n.merchant_id = $1 AND n.trade_no = w.trade_no
                AND n.position = (
                    SELECT position FROM events
                    WHERE merchant_id = $1 AND trade_no = w.trade_no AND position > w.position AND waits
                    ORDER BY position LIMIT 1)
                AND NOT EXISTS (
                    SELECT FROM events first
                    WHERE first.merchant_id = $1 AND first.trade_no = w.trade_no AND first.event_id <> $2
                        AND first.status = 'pending' AND NOT first.waits)
            RETURNING n.next_attempt_at)"
        )
    };
}

super::declare_statements! {
    /// So that no two transactions that end the same events wait for each other.
    LOCK_EVENTS = "
        SELECT FROM events WHERE merchant_id = $1 AND event_id = ANY($2)
        ORDER BY event_id FOR NO KEY UPDATE";

    /// Records an attempt that has ended, in any case, because it happened. The event's status changes only if the
    /// fence is unchanged: otherwise another process holds the lease, or a redelivery was asked for.
    RECORD = concat!("
        WITH written AS (
            UPDATE events
            SET attempts = attempts + 1,
                status = CASE WHEN fence = $3 THEN $4 ELSE status END,
                retries = CASE WHEN fence = $3 AND $5::timestamptz IS NOT NULL THEN retries + 1 ELSE retries END,
                next_attempt_at = CASE WHEN fence = $3 THEN $5 ELSE next_attempt_at END,
                waits = waits AND (fence <> $3 OR $4 = 'pending'),
                lease_until = CASE WHEN fence <> $3 THEN lease_until END,
                lease_holder = CASE WHEN fence <> $3 THEN lease_holder END,
                delayed = delayed AND fence <> $3,
                fault = CASE WHEN fence <> $3 THEN fault END
            WHERE merchant_id = $1 AND event_id = $2
            RETURNING attempts, trade_no, position, status, next_attempt_at, waits, fence = $3 AS ours),
        delivery AS (
            INSERT INTO deliveries (merchant_id, event_id, attempt, at, url, signature, status, error,
                                    duration_ms, response_excerpt, fault)
            SELECT $1, $2, attempts, $6, $7, $8, $9, $10, $11, $12, $13 FROM written),
        ", next!("$14"), ",
        due AS (
            SELECT next_attempt_at AS at FROM next
            UNION ALL
            SELECT next_attempt_at FROM written WHERE ours AND NOT waits AND status = 'pending'),
        ", lower_delivery_due!("due.at"), "
        SELECT EXISTS (SELECT FROM next)");

    /// Ends the delivery with the status `$4`, without an attempt.
    END = concat!("
        WITH written AS (
            UPDATE events
            SET status = $4, next_attempt_at = NULL, waits = false, lease_until = NULL, lease_holder = NULL
            WHERE merchant_id = $1 AND event_id = $2 AND fence = $3
            RETURNING trade_no, position, status, true AS ours),
        ", next!("$5"), ",
        due AS (SELECT next_attempt_at AS at FROM next),
        ", lower_delivery_due!("due.at"), "
        SELECT EXISTS (SELECT FROM next)");

    OF_EVENT = "
        SELECT attempt, at, url, signature, status, error, duration_ms, response_excerpt, fault
        FROM deliveries WHERE merchant_id = $1 AND event_id = $2 ORDER BY attempt";

    /// For the audit: those of the newest `$2` events that were sent. An acknowledgement counts even if a redelivery
    /// followed; a failure counts only if no fault of the kinds `$3` spoilt the attempt.
    SENT = "
        SELECT event_id, event_type, payload, acknowledged, failures
        FROM (SELECT event_id, event_type, payload, attempts FROM events
              WHERE merchant_id = $1 ORDER BY event_id DESC LIMIT $2) e
        CROSS JOIN LATERAL (
            SELECT coalesce(bool_or(error IS NULL), false) AS acknowledged,
                   count(*) FILTER (WHERE error IS NOT NULL AND coalesce(fault <> ALL ($3), true)) AS failures
            FROM deliveries d WHERE d.merchant_id = $1 AND d.event_id = e.event_id) tally
        WHERE attempts > 0
        ORDER BY event_id DESC";
}

impl FromRow<'_, PgRow> for Delivery {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let status = row.try_get::<Option<i16>, _>("status")?;
        Ok(Self {
            attempt: row.try_get("attempt")?,
            at: row.try_get("at")?,
            url: row.try_get("url")?,
            signature: row.try_get("signature")?,
            outcome: AttemptOutcome {
                status: status.and_then(|status| u16::try_from(status).ok()),
                error: row.try_get("error")?,
                duration_ms: row.try_get("duration_ms")?,
                response_excerpt: row.try_get("response_excerpt")?,
            },
            fault: row.try_get("fault")?,
        })
    }
}

/// An attempt that has ended.
#[derive(Debug)]
pub struct DeliveryAttempt {
    /// When it began, in the merchant's time.
    pub at: OffsetDateTime,
    /// The header `X-KukoPay-Signature` that was sent.
    pub signature: String,
    /// Its outcome.
    pub outcome: AttemptOutcome,
}

/// The attempts under one lease that have ended. The first decides over the event.
#[derive(Debug)]
pub struct EndedAttempts {
    /// The lease.
    pub lease: Lease,
    /// Pauses of the event's schedule that were used up before.
    pub retries: i32,
    /// The fault that struck.
    pub fault: Option<DeliveryFault>,
    /// Where they went, masked.
    pub url: String,
    /// What came of each; at least one.
    pub attempts: Vec<DeliveryAttempt>,
}

/// A fence that no lease has: the attempt is recorded, and the event keeps its status.
const NO_LEASE: i64 = 0;

/// Records the attempts under each lease and, if the lease is still held, the event's new status.
pub async fn record<'a>(
    tx: &mut Tx<'_>,
    ended: impl Iterator<Item = &'a EndedAttempts> + Clone,
) -> Result<(), DbError> {
    lock(tx, ended.clone().map(|ended| &ended.lease)).await?;
    for attempts in ended {
        record_one(tx, attempts).await?;
    }
    Ok(())
}

async fn record_one(tx: &mut Tx<'_>, ended: &EndedAttempts) -> Result<(), DbError> {
    let EndedAttempts { lease, retries, fault, url, attempts } = ended;
    let Some(first) = attempts.first() else { return Ok(()) };
    let leads_to = first.outcome.leads_to(*retries, tx.now());
    for (index, DeliveryAttempt { at, signature, outcome }) in attempts.iter().enumerate() {
        let fence = if index == 0 { lease.fence } else { NO_LEASE };
        let record = Lease { fence, ..*lease }
            .bind_scalar(RECORD)
            .bind(leads_to.status.code())
            .bind(leads_to.next_attempt_at)
            .bind(at)
            .bind(url)
            .bind(signature)
            .bind(outcome.status.and_then(|status| i16::try_from(status).ok()))
            .bind(&outcome.error)
            .bind(outcome.duration_ms)
            .bind(&outcome.response_excerpt)
            .bind(fault.map(|fault| fault.kind()))
            .bind(tx.now());
        if record.fetch_one(&mut **tx).await? {
            tx.note_due_events();
        }
    }
    Ok(())
}

/// Ends the delivery of an event without sending it, if the lease is still held.
pub async fn end(tx: &mut Tx<'_>, lease: &Lease, status: EventStatus) -> Result<(), DbError> {
    lock(tx, std::iter::once(lease)).await?;
    let end = lease.bind_scalar(END).bind(status.code()).bind(tx.now());
    if end.fetch_one(&mut **tx).await? {
        tx.note_due_events();
    }
    Ok(())
}

/// Locks events, and before them their orders.
async fn lock<'a>(tx: &mut Tx<'_>, leases: impl Iterator<Item = &'a Lease> + Clone) -> Result<(), DbError> {
    orders::lock_rows(tx, leases.clone().filter_map(|lease| lease.trade_no)).await?;
    let event_ids: Vec<_> = leases.map(|lease| lease.event_id.uuid()).collect();
    sqlx::query(LOCK_EVENTS).bind(tx.merchant().uuid()).bind(event_ids).execute(&mut **tx).await?;
    Ok(())
}

/// All attempts to deliver an event, the oldest first.
pub async fn of_event(
    conn: &mut PgConnection,
    merchant: MerchantId,
    event_id: EventId,
) -> Result<Vec<Delivery>, DbError> {
    Ok(sqlx::query_as(OF_EVENT).bind(merchant.uuid()).bind(event_id.uuid()).fetch_all(conn).await?)
}

/// Those of a merchant's newest `limit` events that were sent at least once, the newest first, each with its outcome.
pub async fn sent(
    conn: &mut PgConnection,
    merchant: MerchantId,
    limit: i64,
) -> Result<Vec<SentEvent>, DbError> {
    let sent = sqlx::query_as(SENT).bind(merchant.uuid()).bind(limit).bind(delivery::spoiling());
    Ok(sent.fetch_all(conn).await?)
}

impl FromRow<'_, PgRow> for SentEvent {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let event_id = EventId::from_uuid(row.try_get("event_id")?);
        let payload: String = row.try_get("payload")?;
        let (acknowledged, failures) = (row.try_get("acknowledged")?, row.try_get("failures")?);
        Ok(Self::new(event_id, event_type(row)?, &payload, acknowledged, failures))
    }
}
