//! The table `deliveries`, and what moves an event on: leasing what is due, and recording what came of it. An
//! event is sent by who holds its lease; where it stands only the holder of its newest fence may tell.
//!
//! Of one order only the oldest pending event is ever taken (`TAKE`). So that the others are not looked at
//! again and again meanwhile, they come due when the oldest does; that is about speed alone. Whoever changes
//! when one is due has locked the row of its order, as has whoever writes a new event of it.

use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::events::event_type;

use super::{DbError, clock_of_those_with, merchant_now};
use crate::domain::audit::SentEvent;
use crate::domain::delivery::{Delivery, EventStatus, Outcome};
use crate::domain::event::EventType;
use crate::domain::id::{EventId, MerchantId, TradeNo};
use crate::domain::webhook::WebhookSecret;

/// Scheme, host and port of the URL that an event goes to: its receiver.
macro_rules! receiver {
    ($url:literal) => {
        concat!("substring(", $url, " FROM '^[^:]+://[^/?#]*')")
    };
}

super::declare_statements! {
    /// Leases what is due, whoever's it is. Of a merchant at most `$1` at once and `$2` altogether, of
    /// which it has `$4` already (by `$3`); nothing for the receivers `$5`, `$6`, which have enough to do;
    /// `$7` in all, and those merchants first that have the least under way. (Pending events of one
    /// order are told by their next attempt, here and below, so that they are not looked for among all that are
    /// pending, in `events_waiting`.)
    TAKE = concat!(clock_of_those_with!("events", "status = 'pending'"), ",
        busy AS (SELECT * FROM unnest($3::uuid[], $4::bigint[]) AS b (merchant_id, attempts)),
        due AS (
            SELECT clock.merchant_id, clock.now, found.event_id, m.webhook_url, m.webhook_secret,
                   CASE WHEN m.previous_secret_until > clock_timestamp() THEN m.previous_webhook_secret END
                       AS previous_webhook_secret
            FROM clock JOIN merchants m USING (merchant_id) LEFT JOIN busy USING (merchant_id), LATERAL (
                SELECT event_id FROM events d
                WHERE d.merchant_id = clock.merchant_id AND d.status = 'pending'
                    AND d.next_attempt_at <= clock.now
                    AND (d.lease_until IS NULL OR d.lease_until <= clock_timestamp())
                    AND NOT EXISTS (
                        SELECT FROM events earlier
                        WHERE earlier.merchant_id = d.merchant_id AND earlier.trade_no = d.trade_no
                            AND earlier.event_id < d.event_id AND earlier.next_attempt_at IS NOT NULL)
                    AND NOT EXISTS (
                        SELECT FROM unnest($5::uuid[], $6::text[]) AS s (merchant_id, receiver)
                        WHERE s.merchant_id = m.merchant_id AND s.receiver = ", receiver!("coalesce(d.notify_url, m.webhook_url)"), ")
                ORDER BY d.next_attempt_at
                LIMIT greatest(0, least($1::bigint, $2::bigint - coalesce(busy.attempts, 0)))
                FOR NO KEY UPDATE OF d SKIP LOCKED) found
            ORDER BY coalesce(busy.attempts, 0) LIMIT $7)
        UPDATE events e SET lease_until = clock_timestamp() + $8, fence = fence + 1
        FROM due WHERE e.merchant_id = due.merchant_id AND e.event_id = due.event_id
        RETURNING e.merchant_id, e.event_id, e.event_type, e.trade_no, e.retries, e.fence, e.delayed, e.payload, due.now,
                  coalesce(e.notify_url, due.webhook_url) AS url,
                  ", receiver!("coalesce(e.notify_url, due.webhook_url)"), " AS receiver,
                  due.webhook_secret, due.previous_webhook_secret");

    /// An attempt has ended: that is recorded in any case, since it happened. Where the event stands is
    /// told only under the fence; otherwise somebody else has the event, or a redelivery was asked for.
    RECORD = concat!("
        WITH recorded AS (
            UPDATE events e
            SET attempts = attempts + 1,
                status = CASE WHEN fence = $3 THEN $4 ELSE status END,
                retries = CASE WHEN fence = $3 AND $5::interval IS NOT NULL THEN retries + 1 ELSE retries END,
                next_attempt_at = CASE WHEN fence = $3 THEN ", merchant_now!(), " + $5::interval
                                       ELSE next_attempt_at END,
                lease_until = CASE WHEN fence = $3 THEN NULL ELSE lease_until END,
                delayed = delayed AND fence <> $3
            FROM merchants m
            WHERE m.merchant_id = $1 AND e.merchant_id = $1 AND e.event_id = $2
            RETURNING attempts, fence = $3 AS ours, next_attempt_at, ", merchant_now!(), " AS now),
        delivery AS (
            INSERT INTO deliveries (merchant_id, event_id, attempt, at, url, signature, status, error,
                                    duration_ms, response_excerpt)
            SELECT $1, $2, attempts, $6, $7, $8, $9, $10, $11, $12 FROM recorded)
        SELECT ours, coalesce(next_attempt_at, now) AS next_turn FROM recorded");

    /// The attempt is not made now, but when `$4` has passed.
    POSTPONE = concat!("
        UPDATE events e SET next_attempt_at = ", merchant_now!(), " + $4, lease_until = NULL, delayed = true
        FROM merchants m
        WHERE m.merchant_id = $1 AND e.merchant_id = $1 AND e.event_id = $2 AND e.fence = $3
        RETURNING next_attempt_at");

    /// There is no URL any more.
    GIVE_UP = concat!("
        UPDATE events e SET status = 'no_url', next_attempt_at = NULL, lease_until = NULL
        FROM merchants m
        WHERE m.merchant_id = $1 AND e.merchant_id = $1 AND e.event_id = $2 AND e.fence = $3
        RETURNING ", merchant_now!());

    /// The later events of an order are due at `$4`. One that somebody has locked is being looked after.
    POSTPONE_LATER = "
        UPDATE events SET next_attempt_at = $4
        WHERE merchant_id = $1 AND event_id IN (
            SELECT event_id FROM events
            WHERE merchant_id = $1 AND trade_no = $2 AND event_id > $3 AND next_attempt_at IS NOT NULL
            FOR NO KEY UPDATE SKIP LOCKED)";

    /// The next event of an order is due at `$4`.
    WAKE_NEXT = "
        UPDATE events SET next_attempt_at = least(next_attempt_at, $4)
        WHERE merchant_id = $1 AND status = 'pending' AND event_id = (
            SELECT event_id FROM events
            WHERE merchant_id = $1 AND trade_no = $2 AND event_id > $3 AND next_attempt_at IS NOT NULL
            ORDER BY event_id LIMIT 1)";

    OF_EVENT = "
        SELECT attempt, at, url, signature, status, error, duration_ms, response_excerpt
        FROM deliveries WHERE merchant_id = $1 AND event_id = $2 ORDER BY attempt";

    /// For the audit. An acknowledgement counts whatever came after it, such as a redelivery.
    SENT = "
        SELECT event_id, event_type, payload, acknowledged, failures
        FROM events e CROSS JOIN LATERAL (
            SELECT coalesce(bool_or(error IS NULL), false) AS acknowledged,
                   count(*) FILTER (WHERE error IS NOT NULL) AS failures
            FROM deliveries d WHERE d.merchant_id = $1 AND d.event_id = e.event_id) tally
        WHERE merchant_id = $1 AND attempts > 0
        ORDER BY event_id DESC LIMIT $2";

    LOCK_ORDER = "SELECT FROM orders WHERE merchant_id = $1 AND trade_no = $2 FOR NO KEY UPDATE";
}

/// Runs once, when a process starts that is alone on its data; so it may look at every event.
const RELEASE_ALL: &str = "UPDATE events SET lease_until = NULL WHERE lease_until IS NOT NULL";

/// How much may be taken at once.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Of one merchant in one go.
    pub at_once: i64,
    /// Of one merchant altogether.
    pub of_merchant: i64,
    /// Of all merchants.
    pub of_all: i64,
}

/// What this process has under way.
#[derive(Debug, Default)]
pub struct Underway {
    /// Merchants, each once.
    pub merchants: Vec<Uuid>,
    /// How many attempts each of them has.
    pub attempts: Vec<i64>,
    /// Merchants of the receivers that have enough to do.
    pub crowded_merchants: Vec<Uuid>,
    /// Those receivers: scheme, host and port.
    pub crowded_receivers: Vec<String>,
}

/// An event that was leased to be sent.
#[derive(Debug)]
pub struct Taken {
    /// Whose event it is.
    pub merchant: MerchantId,
    /// Its identifier.
    pub event_id: EventId,
    /// What has happened.
    pub event_type: EventType,
    /// The order that it belongs to.
    pub trade_no: Option<TradeNo>,
    /// Pauses of the schedule that are used up.
    pub retries: i32,
    /// The right to tell where it stands, until somebody raises it.
    pub fence: i64,
    /// Whether this attempt was held back already.
    pub delayed: bool,
    /// The body to sign and send.
    pub payload: String,
    /// The merchant's time at which it was taken.
    pub now: OffsetDateTime,
    /// Where to send it; `None` where that was removed.
    pub url: Option<String>,
    /// Scheme, host and port of that URL.
    pub receiver: Option<String>,
    /// What signs.
    pub secret: WebhookSecret,
    /// What signs too, while the secret is being rotated.
    pub previous_secret: Option<WebhookSecret>,
}

impl FromRow<'_, PgRow> for Taken {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            merchant: MerchantId::from_uuid(row.try_get("merchant_id")?),
            event_id: EventId::from_uuid(row.try_get("event_id")?),
            event_type: event_type(row)?,
            trade_no: row.try_get::<Option<_>, _>("trade_no")?.map(TradeNo::from_uuid),
            retries: row.try_get("retries")?,
            fence: row.try_get("fence")?,
            delayed: row.try_get("delayed")?,
            payload: row.try_get("payload")?,
            now: row.try_get("now")?,
            url: row.try_get("url")?,
            receiver: row.try_get("receiver")?,
            secret: WebhookSecret::stored(row.try_get("webhook_secret")?),
            previous_secret: row
                .try_get::<Option<_>, _>("previous_webhook_secret")?
                .map(WebhookSecret::stored),
        })
    }
}

impl FromRow<'_, PgRow> for Delivery {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let status = row.try_get::<Option<i16>, _>("status")?;
        Ok(Self {
            attempt: row.try_get("attempt")?,
            at: row.try_get("at")?,
            url: row.try_get("url")?,
            signature: row.try_get("signature")?,
            outcome: Outcome {
                status: status.and_then(|status| u16::try_from(status).ok()),
                error: row.try_get("error")?,
                duration_ms: row.try_get("duration_ms")?,
                response_excerpt: row.try_get("response_excerpt")?,
            },
        })
    }
}

/// Leases events that are due, for as long as an attempt may take at most and somewhat longer.
///
/// # Errors
/// Those of the database.
pub async fn take(
    conn: &mut PgConnection,
    room: Room,
    underway: &Underway,
    lease: Duration,
) -> Result<Vec<Taken>, DbError> {
    let take = sqlx::query_as(TAKE)
        .bind(room.at_once)
        .bind(room.of_merchant)
        .bind(&underway.merchants)
        .bind(&underway.attempts)
        .bind(&underway.crowded_merchants)
        .bind(&underway.crowded_receivers)
        .bind(room.of_all)
        .bind(lease);
    Ok(take.fetch_all(conn).await?)
}

/// An attempt that has ended.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// What was sent.
    pub taken: &'a Taken,
    /// Where to.
    pub url: &'a str,
    /// With which signature.
    pub signature: &'a str,
    /// What came of it.
    pub outcome: &'a Outcome,
    /// Whether it was made beyond those that are due: where the event stands does not depend on it.
    pub is_extra: bool,
}

/// The fence of no lease.
const NO_LEASE: i64 = 0;

/// Records an attempt and, if the lease is still ours, where the event stands now. Returns whether the next
/// event of the order has come due by it. To be called in a transaction.
///
/// # Errors
/// Those of the database.
pub async fn record(tx: &mut PgConnection, attempt: &Attempt<'_>) -> Result<bool, DbError> {
    let Attempt { taken, url, signature, outcome, is_extra } = attempt;
    lock_order(tx, taken.merchant, taken.trade_no).await?;
    let (status, pause) = outcome.leads_to(taken.retries);
    let record = sqlx::query_as::<_, (bool, OffsetDateTime)>(RECORD)
        .bind(taken.merchant.uuid())
        .bind(taken.event_id.uuid())
        .bind(if *is_extra { NO_LEASE } else { taken.fence })
        .bind(status.code())
        .bind(pause)
        .bind(taken.now)
        .bind(url)
        .bind(signature)
        .bind(outcome.status.and_then(|status| i16::try_from(status).ok()))
        .bind(&outcome.error)
        .bind(outcome.duration_ms)
        .bind(&outcome.response_excerpt);
    match record.fetch_optional(&mut *tx).await? {
        Some((true, next)) if status == EventStatus::Pending => {
            move_later(tx, POSTPONE_LATER, taken, next).await
        }
        Some((true, now)) => move_later(tx, WAKE_NEXT, taken, now).await,
        // Somebody else has the event, or nobody: the merchant was emptied.
        Some((false, _)) | None => Ok(false),
    }
}

/// Holds an attempt back, if the lease is still ours; later events of the order wait as well. To be called
/// in a transaction.
///
/// # Errors
/// Those of the database.
pub async fn postpone(tx: &mut PgConnection, taken: &Taken, delay: Duration) -> Result<(), DbError> {
    lock_order(tx, taken.merchant, taken.trade_no).await?;
    let postpone = sqlx::query_scalar(POSTPONE)
        .bind(taken.merchant.uuid())
        .bind(taken.event_id.uuid())
        .bind(taken.fence)
        .bind(delay);
    if let Some(until) = postpone.fetch_optional(&mut *tx).await? {
        move_later(tx, POSTPONE_LATER, taken, until).await?;
    }
    Ok(())
}

/// Ends the delivery of an event that has no URL any more, if the lease is still ours. Returns whether the
/// next event of the order has come due by it. To be called in a transaction.
///
/// # Errors
/// Those of the database.
pub async fn give_up(tx: &mut PgConnection, taken: &Taken) -> Result<bool, DbError> {
    lock_order(tx, taken.merchant, taken.trade_no).await?;
    let give_up =
        sqlx::query_scalar(GIVE_UP).bind(taken.merchant.uuid()).bind(taken.event_id.uuid()).bind(taken.fence);
    match give_up.fetch_optional(&mut *tx).await? {
        Some(now) => move_later(tx, WAKE_NEXT, taken, now).await,
        None => Ok(false),
    }
}

async fn move_later(
    tx: &mut PgConnection,
    sql: &'static str,
    taken: &Taken,
    to: OffsetDateTime,
) -> Result<bool, DbError> {
    let Some(trade_no) = taken.trade_no else { return Ok(false) };
    let update = sqlx::query(sql)
        .bind(taken.merchant.uuid())
        .bind(trade_no.uuid())
        .bind(taken.event_id.uuid())
        .bind(to);
    Ok(update.execute(tx).await?.rows_affected() > 0)
}

/// Locks the row of an event's order until the end of the transaction.
///
/// # Errors
/// Those of the database.
pub async fn lock_order(
    tx: &mut PgConnection,
    merchant: MerchantId,
    trade_no: Option<TradeNo>,
) -> Result<(), DbError> {
    if let Some(trade_no) = trade_no {
        sqlx::query(LOCK_ORDER).bind(merchant.uuid()).bind(trade_no.uuid()).execute(tx).await?;
    }
    Ok(())
}

/// Every attempt to deliver an event, the first one first.
///
/// # Errors
/// Those of the database.
pub async fn of_event(
    conn: &mut PgConnection,
    merchant: MerchantId,
    event_id: EventId,
) -> Result<Vec<Delivery>, DbError> {
    Ok(sqlx::query_as(OF_EVENT).bind(merchant.uuid()).bind(event_id.uuid()).fetch_all(conn).await?)
}

/// The events that were sent at least once, the newest first, at most `limit`, and what came of each.
///
/// # Errors
/// Those of the database.
pub async fn sent(
    conn: &mut PgConnection,
    merchant: MerchantId,
    limit: i64,
) -> Result<Vec<SentEvent>, DbError> {
    Ok(sqlx::query_as(SENT).bind(merchant.uuid()).bind(limit).fetch_all(conn).await?)
}

impl FromRow<'_, PgRow> for SentEvent {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let event_id = EventId::from_uuid(row.try_get("event_id")?);
        let payload: String = row.try_get("payload")?;
        let (acknowledged, failures) = (row.try_get("acknowledged")?, row.try_get("failures")?);
        Ok(Self::new(event_id, event_type(row)?, &payload, acknowledged, failures))
    }
}

/// Frees every lease of an earlier process. Only for a process that is alone on its data.
///
/// # Errors
/// Those of the database.
pub(super) async fn release_all(conn: &mut PgConnection) -> Result<(), DbError> {
    sqlx::query(RELEASE_ALL).execute(conn).await?;
    Ok(())
}
