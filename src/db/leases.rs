//! The leases of events. A process that sends an event holds its lease, and may change the event's status until
//! another process raises the fence. Due events are found through the merchants' rows, and taken within one
//! merchant, receiver by receiver, so that the backlog of another merchant or receiver is never read.
//!
//! Of the pending events of one order only the first may be sent; the others wait (`events.waits`).

use sqlx::postgres::PgRow;
use sqlx::{Connection, FromRow, PgConnection, Row};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::row::{event_type, unknown};
use super::{DbError, Tx, merchant_now, real_time};
use crate::domain::fault::delivery::{self, DeliveryFault};
use crate::domain::id::{EventId, MerchantId, TradeNo};
use crate::domain::webhook::event::EventType;
use crate::domain::webhook::settings::WebhookSecret;

/// Scheme, host and port of a URL: its receiver.
macro_rules! receiver {
    ($url:literal) => {
        concat!("substring(", $url, " FROM '^[^:]+://[^/?#]*')")
    };
}

/// Whether the event `e` is leased. A process that is alone on the data (`$4`) knows that a lease of another process
/// than itself (`$3`) belongs to one that has ended.
macro_rules! is_leased {
    () => {
        "(e.lease_until > clock_timestamp() AND (e.lease_holder = $3 OR NOT $4))"
    };
}

/// Starts a statement with `queue (receiver)`: the receivers for which a merchant's events wait. The index is read
/// from one receiver to the next, not event by event.
macro_rules! queues {
    () => {
        "WITH RECURSIVE queue AS (
            (SELECT receiver FROM events
             WHERE merchant_id = $1 AND status = 'pending' AND NOT waits ORDER BY receiver LIMIT 1)
            UNION ALL
            SELECT (SELECT e.receiver FROM events e
                    WHERE e.merchant_id = $1 AND e.status = 'pending' AND NOT e.waits
                        AND e.receiver > queue.receiver
                    ORDER BY e.receiver LIMIT 1)
            FROM queue WHERE queue.receiver IS NOT NULL)"
    };
}

super::declare_statements! {
    /// The merchants that came due first, first, without those that are known to have nothing to take now.
    DUE = "
        SELECT merchant_id FROM merchants
        WHERE delivery_due_at <= now() AND delivery_due_at < 'infinity' AND merchant_id <> ALL($1)
        ORDER BY delivery_due_at LIMIT $2";

    /// Leases events of a merchant that are due by its time `$2`: at most `$5` in total, and for each receiver at
    /// most `$6` less its attempts in flight (`$8`, for the receivers `$7`).
    TAKE = concat!(queues!(), ",
        capacity AS (
            SELECT queue.receiver, $6::bigint - coalesce(busy.attempts, 0) AS events
            FROM queue CROSS JOIN (SELECT webhook_url FROM merchants WHERE merchant_id = $1) m
                LEFT JOIN unnest($7::text[], $8::bigint[]) AS busy (receiver, attempts)
                    ON busy.receiver = CASE WHEN queue.receiver <> '' THEN queue.receiver
                                            ELSE ", receiver!("m.webhook_url"), " END
            WHERE queue.receiver IS NOT NULL),
        found AS (
            SELECT due.event_id FROM capacity CROSS JOIN LATERAL (
                SELECT event_id FROM events e
                WHERE e.merchant_id = $1 AND e.receiver = capacity.receiver AND e.status = 'pending'
                    AND NOT e.waits AND e.next_attempt_at <= $2 AND NOT coalesce(", is_leased!(), ", false)
                ORDER BY e.next_attempt_at LIMIT greatest(0, least(capacity.events, $5))
                FOR NO KEY UPDATE SKIP LOCKED) due
            LIMIT $5)
        UPDATE events e SET lease_until = clock_timestamp() + $9, lease_holder = $3, fence = fence + 1
        FROM found, merchants m
        WHERE m.merchant_id = $1 AND e.merchant_id = $1 AND e.event_id = found.event_id
        RETURNING e.merchant_id, e.event_id, e.event_type, e.trade_no, e.retries, e.fence, e.delayed, e.fault,
                  e.payload, coalesce(e.notify_url, m.webhook_url) AS url,
                  CASE WHEN e.receiver <> '' THEN e.receiver ELSE ", receiver!("m.webhook_url"), " END AS receiver,
                  m.webhook_secret,
                  CASE WHEN m.previous_secret_until > clock_timestamp() THEN m.previous_webhook_secret END
                      AS previous_webhook_secret");

    /// Stores the fault that strikes the next attempt, and extends the lease by `$5`.
    STRIKE = "
        UPDATE events SET fault = $4, lease_until = lease_until + $5
        WHERE merchant_id = $1 AND event_id = $2 AND fence = $3";

    /// Postpones the attempt to `$4`, in the merchant's time.
    POSTPONE = "
        UPDATE events SET next_attempt_at = $4, lease_until = NULL, lease_holder = NULL, delayed = true
        WHERE merchant_id = $1 AND event_id = $2 AND fence = $3";

    /// For the transaction that raises a due time: it waits for no lock, and nobody waits for it.
    HOLD = concat!("
        SELECT ", merchant_now!(), " FROM merchants m WHERE merchant_id = $1 FOR UPDATE SKIP LOCKED");

    /// Sets the time at which the delivery looks at the merchant again: when its next event is due or the first
    /// lease is over. If that is now, nothing changes. `$2` is the merchant's time. A lease counts only if there is
    /// nothing to take.
    RAISE = concat!(queues!(), ",
        waiting AS (
            SELECT min(first.next_attempt_at) AS until FROM queue CROSS JOIN LATERAL (
                SELECT e.next_attempt_at FROM events e
                WHERE e.merchant_id = $1 AND e.receiver = queue.receiver AND e.status = 'pending' AND NOT e.waits
                    AND (e.next_attempt_at > $2 OR NOT coalesce(", is_leased!(), ", false))
                ORDER BY e.next_attempt_at LIMIT 1) first),
        next AS (
            SELECT coalesce(", real_time!("waiting.until"), ", 'infinity') AS at
            FROM waiting CROSS JOIN merchants m WHERE m.merchant_id = $1)
        UPDATE merchants m SET delivery_due_at = least(next.at, (
            SELECT min(leased.lease_until) FROM queue CROSS JOIN LATERAL (
                SELECT e.lease_until FROM events e
                WHERE e.merchant_id = $1 AND e.receiver = queue.receiver AND e.status = 'pending' AND NOT e.waits
                    AND e.next_attempt_at <= $2 AND ", is_leased!(), ") leased))
        FROM next WHERE m.merchant_id = $1 AND next.at > clock_timestamp()");

    /// The process that held the leases has ended, so its events can be taken at once. Their merchants come due
    /// within a lease.
    RELEASE_ALL = "
        UPDATE merchants SET delivery_due_at = now()
        WHERE delivery_due_at > now() AND delivery_due_at <= now() + $1 AND delivery_due_at < 'infinity'";
}

/// How long a lease lasts. An attempt of one post and its record take less, even if the database is away for a moment.
/// On a shared server, the events that a killed process had taken wait this long.
const LEASE: Duration = Duration::seconds(23);
/// How much longer the lease is for each further post of the attempt.
const FURTHER_POST: Duration = Duration::seconds(10);

/// How long the lease of an attempt lasts that makes so many posts after the first.
#[must_use]
pub fn duration(further_posts: u8) -> Duration {
    LEASE + FURTHER_POST * further_posts
}

/// The holder of leases.
#[derive(Debug, Clone, Copy)]
pub struct LeaseHolder {
    /// The process, or a part of it that holds none of the earlier leases.
    pub id: Uuid,
    /// Whether there can be no other holder at the same time.
    pub alone: bool,
}

/// How many events of a merchant may be taken at once.
#[derive(Debug, Clone, Default)]
pub struct Capacity {
    /// In total.
    pub in_all: i64,
    /// How many attempts each receiver may have in flight.
    pub of_receiver: i64,
    /// The receivers (scheme, host and port) that have attempts in flight.
    pub receivers: Vec<String>,
    /// How many attempts each of them has in flight.
    pub attempts: Vec<i64>,
}

/// The right to send an event and to change its status, until another process raises its fence.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    /// Whose event it is.
    pub merchant: MerchantId,
    /// Its identifier.
    pub event_id: EventId,
    /// The order that it belongs to.
    pub trade_no: Option<TradeNo>,
    /// The fence, which each lease raises.
    pub fence: i64,
}

/// An event that was leased to be sent.
#[derive(Debug)]
pub struct Taken {
    /// Its lease.
    pub lease: Lease,
    /// What has happened.
    pub event_type: EventType,
    /// Pauses of the schedule that are used up.
    pub retries: i32,
    /// Whether this attempt was held back already.
    pub delayed: bool,
    /// The fault that strikes this attempt, if an earlier attempt without a record has left one.
    pub fault: Option<DeliveryFault>,
    /// The body to sign and send.
    pub payload: String,
    /// Where to send it; `None` if the URL was removed.
    pub url: Option<String>,
    /// Scheme, host and port of that URL.
    pub receiver: Option<String>,
    /// The secret.
    pub secret: WebhookSecret,
    /// The previous secret, while both sign.
    pub previous_secret: Option<WebhookSecret>,
}

/// An event that was leased and cannot be read.
#[derive(Debug)]
pub struct Unreadable {
    /// Its lease.
    pub lease: Lease,
    /// Why.
    pub cause: DbError,
}

impl FromRow<'_, PgRow> for Lease {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            merchant: MerchantId::from_uuid(row.try_get("merchant_id")?),
            event_id: EventId::from_uuid(row.try_get("event_id")?),
            trade_no: row.try_get::<Option<_>, _>("trade_no")?.map(TradeNo::from_uuid),
            fence: row.try_get("fence")?,
        })
    }
}

impl FromRow<'_, PgRow> for Taken {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            lease: Lease::from_row(row)?,
            event_type: event_type(row)?,
            retries: row.try_get("retries")?,
            delayed: row.try_get("delayed")?,
            fault: row.try_get::<Option<&str>, _>("fault")?.map(stored_fault).transpose()?,
            payload: row.try_get("payload")?,
            url: row.try_get("url")?,
            receiver: row.try_get("receiver")?,
            secret: WebhookSecret::stored(row.try_get("webhook_secret")?),
            previous_secret: row
                .try_get::<Option<_>, _>("previous_webhook_secret")?
                .map(WebhookSecret::stored),
        })
    }
}

fn stored_fault(kind: &str) -> sqlx::Result<DeliveryFault> {
    delivery::stored(kind).ok_or_else(|| unknown("fault of an event"))
}

/// At most `limit` merchants that may have an event due now, without those that are resting.
pub async fn due(
    conn: &mut PgConnection,
    resting: &[MerchantId],
    limit: i64,
) -> Result<Vec<MerchantId>, DbError> {
    let resting: Vec<_> = resting.iter().map(|merchant| merchant.uuid()).collect();
    let due = sqlx::query_scalar(DUE).bind(resting).bind(limit).fetch_all(conn).await?;
    Ok(due.into_iter().map(MerchantId::from_uuid).collect())
}

/// Leases events of a merchant that are due.
pub async fn take(
    tx: &mut Tx<'_>,
    lease_holder: LeaseHolder,
    capacity: &Capacity,
) -> Result<Vec<Result<Taken, Unreadable>>, DbError> {
    let take = sqlx::query(TAKE)
        .bind(tx.merchant().uuid())
        .bind(tx.now())
        .bind(lease_holder.id)
        .bind(lease_holder.alone)
        .bind(capacity.in_all)
        .bind(capacity.of_receiver)
        .bind(&capacity.receivers)
        .bind(&capacity.attempts)
        .bind(duration(0));
    let rows = take.fetch_all(&mut **tx).await?;
    let taken = rows.iter().map(|row| {
        let lease = Lease::from_row(row)?;
        Ok(Taken::from_row(row).map_err(|error| Unreadable { lease, cause: error.into() }))
    });
    taken.collect()
}

/// Keeps the fault of the next attempt with its event, until the attempt is recorded.
pub async fn strike(tx: &mut Tx<'_>, lease: &Lease, fault: DeliveryFault) -> Result<(), DbError> {
    let longer = FURTHER_POST * fault.effect().further_posts();
    lease.bind(STRIKE).bind(fault.kind()).bind(longer).execute(&mut **tx).await?;
    Ok(())
}

/// Postpones an attempt by a duration of the merchant's clock.
pub async fn postpone(tx: &mut Tx<'_>, lease: &Lease, delay: Duration) -> Result<(), DbError> {
    let until = tx.now() + delay;
    lease.bind(POSTPONE).bind(until).execute(&mut **tx).await?;
    Ok(())
}

/// Sets when a merchant has an event due again. Returns false, and changes nothing, if that is now or others are
/// writing.
pub async fn raise(
    conn: &mut PgConnection,
    merchant: MerchantId,
    lease_holder: LeaseHolder,
) -> Result<bool, DbError> {
    let mut tx = conn.begin().await?;
    let hold = sqlx::query_scalar::<_, OffsetDateTime>(HOLD).bind(merchant.uuid());
    let Some(now) = hold.fetch_optional(&mut *tx).await? else { return Ok(false) };
    let raise =
        sqlx::query(RAISE).bind(merchant.uuid()).bind(now).bind(lease_holder.id).bind(lease_holder.alone);
    let is_later = raise.execute(&mut *tx).await?.rows_affected() == 1;
    tx.commit().await?;
    Ok(is_later)
}

type Arguments = sqlx::postgres::PgArguments;

impl Lease {
    /// A statement about the event, under the fence.
    fn bind(&self, sql: &'static str) -> sqlx::query::Query<'static, sqlx::Postgres, Arguments> {
        sqlx::query(sql).bind(self.merchant.uuid()).bind(self.event_id.uuid()).bind(self.fence)
    }

    pub(super) fn bind_scalar(
        &self,
        sql: &'static str,
    ) -> sqlx::query::QueryScalar<'static, sqlx::Postgres, bool, Arguments> {
        sqlx::query_scalar(sql).bind(self.merchant.uuid()).bind(self.event_id.uuid()).bind(self.fence)
    }
}

/// Frees the leases of an earlier process. Only for a process that is alone on its data.
pub(super) async fn release_all(conn: &mut PgConnection) -> Result<(), DbError> {
    sqlx::query(RELEASE_ALL).bind(duration(delivery::most_further_posts())).execute(conn).await?;
    Ok(())
}
