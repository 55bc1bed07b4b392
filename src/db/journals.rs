//! The table `journals`: how much a merchant's journal holds, and what may be missing. A row is written together with
//! the entries that it counts.

use sqlx::postgres::PgRow;
use sqlx::{Connection, FromRow, PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{DbError, requests};
use crate::domain::id::MerchantId;
use crate::domain::journal::entry::{Bounds, Entry};

/// The commit need not reach the disk. If a lock is held for longer, the write is tried again later, after the
/// journals of other merchants.
const BEGIN: &str = "BEGIN; SET LOCAL synchronous_commit = off; SET LOCAL lock_timeout = '500ms'";

super::declare_statements! {
    ADD = "
        INSERT INTO journals AS j (merchant_id, entries, bytes, dropped, missing_before)
        VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (merchant_id) DO UPDATE
        SET entries = j.entries + excluded.entries, bytes = j.bytes + excluded.bytes,
            dropped = j.dropped + excluded.dropped,
            missing_before = greatest(j.missing_before, excluded.missing_before)
        RETURNING entries, bytes";

    /// Deletes the oldest entries, at most `$4`, until `$2` are left and these have at most `$3` bytes. Only the
    /// oldest `$4` are read. (By a range and no join: without statistics of the merchant, a planner would compare each
    /// of these with each entry.)
    TRIM = "
        WITH journal AS (
            SELECT entries - $2::bigint AS entries, bytes - $3::bigint AS bytes FROM journals
            WHERE merchant_id = $1 FOR UPDATE),
        oldest AS (
            SELECT request_id, row_number() OVER upwards AS place, sum(bytes) OVER upwards - bytes AS before
            FROM (SELECT request_id, bytes FROM requests
                  WHERE merchant_id = $1 ORDER BY request_id LIMIT $4) AS first
            WINDOW upwards AS (ORDER BY request_id)),
        deleted AS (
            DELETE FROM requests r
            WHERE r.merchant_id = $1 AND r.request_id <= (
                SELECT o.request_id FROM journal j, oldest o WHERE o.place <= j.entries OR o.before < j.bytes
                ORDER BY o.request_id DESC LIMIT 1)
            RETURNING r.bytes, r.received_at),
        counted AS (
            SELECT count(*) AS entries, coalesce(sum(bytes), 0) AS bytes,
                   max(received_at) + interval '1 microsecond' AS missing_before
            FROM deleted)
        UPDATE journals j
        SET entries = j.entries - c.entries, bytes = j.bytes - c.bytes,
            missing_before = greatest(j.missing_before, c.missing_before)
        FROM counted c WHERE j.merchant_id = $1
        RETURNING c.entries";

    /// What the journal holds, what may be missing, and how far instances other than `$2` have written it. The last
    /// entries of instances that have died are lost. (`IS NOT TRUE` keeps the planner from using
    /// `journal_writers_instance`, by which it would read all merchants.)
    STATE = "
        SELECT clock_timestamp() AS now, coalesce(j.entries, 0) AS entries, coalesce(j.bytes, 0) AS bytes,
               coalesce(j.dropped, 0) AS dropped, w.written_through,
               CASE WHEN m.emptied_at >= greatest(j.missing_before, w.died_at) THEN NULL
                    ELSE greatest(j.missing_before, w.died_at) END AS missing_before
        FROM (SELECT $1::uuid AS merchant_id) AS one
        LEFT JOIN journals j ON j.merchant_id = $1
        LEFT JOIN merchants m ON m.merchant_id = $1
        CROSS JOIN (
            SELECT min(written_through) FILTER (WHERE alive_until >= now()) AS written_through,
                   max(alive_until) FILTER (WHERE alive_until < now()) AS died_at
            FROM (SELECT coalesce(i.written_through, announced_at) AS written_through,
                         greatest(i.alive_until, announced_at + interval '5 seconds') AS alive_until
                  FROM journal_writers jw LEFT JOIN instances i ON i.instance_id = jw.instance_id
                  WHERE jw.merchant_id = $1 AND (jw.instance_id = $2) IS NOT TRUE) AS writers) AS w";
}

/// The entries of one merchant that are written at once.
#[derive(Debug, Default)]
pub struct Batch {
    /// Entries.
    pub entries: Vec<Entry>,
    /// How many more entries were dropped.
    pub dropped: u64,
    /// No dropped entry was received after this time.
    pub missing_before: Option<OffsetDateTime>,
}

/// How much a journal holds.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    /// Entries.
    pub entries: i64,
    /// Bytes of text in them.
    pub bytes: i64,
}

impl Held {
    /// Whether it exceeds the bounds.
    #[must_use]
    pub const fn exceeds(self, bounds: Bounds) -> bool {
        self.entries > bounds.entries || self.bytes > bounds.bytes
    }
}

/// What a journal holds, and what may be missing, at a moment.
#[derive(Debug)]
pub struct State {
    /// The moment, by the database's clock.
    pub now: OffsetDateTime,
    /// How much it holds.
    pub held: Held,
    /// How many entries were dropped under overload.
    pub dropped: i64,
    /// How far other instances with unwritten entries have written; `None` if there are none.
    pub written_through: Option<OffsetDateTime>,
    /// Calls received before this time may be missing; `None` if none is.
    pub missing_before: Option<OffsetDateTime>,
}

impl FromRow<'_, PgRow> for Held {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self { entries: row.try_get("entries")?, bytes: row.try_get("bytes")? })
    }
}

impl FromRow<'_, PgRow> for State {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            now: row.try_get("now")?,
            held: Held::from_row(row)?,
            dropped: row.try_get("dropped")?,
            written_through: row.try_get("written_through")?,
            missing_before: row.try_get("missing_before")?,
        })
    }
}

/// Writes a batch of one merchant, and returns how much its journal holds now.
///
/// # Errors
/// Those of the database; then nothing of it is written.
pub async fn write(conn: &mut PgConnection, merchant: MerchantId, batch: &Batch) -> Result<Held, DbError> {
    let mut tx = conn.begin_with(BEGIN).await?;
    let (entries, bytes) = requests::insert(&mut tx, merchant, &batch.entries).await?;
    let add = sqlx::query_as(ADD)
        .bind(merchant.uuid())
        .bind(entries)
        .bind(bytes)
        .bind(i64::try_from(batch.dropped).unwrap_or(i64::MAX))
        .bind(batch.missing_before);
    let held = add.fetch_one(&mut *tx).await?;
    tx.commit().await?;
    Ok(held)
}

/// Deletes a merchant's oldest entries beyond the bounds, at most `limit`. Returns how many.
pub async fn trim(
    conn: &mut PgConnection,
    merchant: MerchantId,
    bounds: Bounds,
    limit: i64,
) -> Result<i64, DbError> {
    let mut tx = conn.begin_with(BEGIN).await?;
    let trim =
        sqlx::query_scalar(TRIM).bind(merchant.uuid()).bind(bounds.entries).bind(bounds.bytes).bind(limit);
    let deleted = trim.fetch_optional(&mut *tx).await?;
    tx.commit().await?;
    Ok(deleted.unwrap_or(0))
}

/// What a merchant's journal holds, what may be missing, and how far instances other than `instance` have written.
pub async fn state(conn: &mut PgConnection, merchant: MerchantId, instance: Uuid) -> Result<State, DbError> {
    Ok(sqlx::query_as(STATE).bind(merchant.uuid()).bind(instance).fetch_one(conn).await?)
}
