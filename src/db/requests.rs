//! The table `requests`: the journal. It is written in batches, apart from every transaction of a call,
//! and kept in bounds.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, Row};
use uuid::Uuid;

use super::DbError;
use super::orders::unknown;
use crate::domain::id::{MerchantId, RequestId};
use crate::domain::journal::{Entry, Outcome};

macro_rules! columns {
    () => {
        "merchant_id, request_id, at, received_at, duration_ms, method, path, idempotency_key, request_headers, \
         request_body, order_nos, refund_nos, outcome, fault, status, response_body, answered, client_hung_up"
    };
}

super::declare_statements! {
    /// A batch of entries, of whichever merchants. Nobody waits for its commit to reach the disk.
    INSERT = concat!("
        INSERT INTO requests (", columns!(), ")
        SELECT merchant_id, request_id,
               coalesce(m.clock_frozen_at,
                        received_at + coalesce(m.clock_offset_ms, 0) * interval '1 millisecond'),
               received_at, duration_ms, method, path, idempotency_key, request_headers::jsonb, request_body,
               string_to_array(order_nos, ' '), string_to_array(refund_nos, ' '),
               outcome, fault, status, response_body, answered, client_hung_up
        FROM (SELECT set_config('synchronous_commit', 'off', true)) AS commit,
             unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::bigint[], $5::text[], $6::text[], $7::text[],
                    $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::smallint[],
                    $15::text[], $16::boolean[], $17::boolean[])
             AS entry (merchant_id, request_id, received_at, duration_ms, method, path, idempotency_key,
                       request_headers, request_body, order_nos, refund_nos, outcome, fault, status,
                       response_body, answered, client_hung_up)
             LEFT JOIN merchants m USING (merchant_id)
        ON CONFLICT DO NOTHING");

    FIND = concat!("SELECT ", columns!(), " FROM requests WHERE merchant_id = $1 AND request_id = $2");

    LIST = concat!("
        SELECT ", columns!(), " FROM requests
        WHERE merchant_id = $1 AND request_id < $2
            AND order_nos @> $3 AND refund_nos @> $4
            AND ($5::text IS NULL OR $5 = idempotency_key)
            AND ($6::text IS NULL OR split_part(path, '?', 1) LIKE $6) AND ($7::text IS NULL OR $7 = method)
            AND ($8::smallint IS NULL OR $8 = status) AND ($9::text IS NULL OR $9 = outcome)
        ORDER BY request_id DESC LIMIT $10");

    OLDEST_FIRST = concat!("
        SELECT ", columns!(), " FROM requests WHERE merchant_id = $1 ORDER BY request_id");

    /// Keeps the newest `$2` entries of a merchant, and of these the newest `$3` bytes of bodies; at most
    /// `$4` go at once.
    TRIM = "
        DELETE FROM requests WHERE merchant_id = $1 AND request_id IN (
            SELECT request_id FROM requests WHERE merchant_id = $1 AND request_id <= (
                SELECT request_id FROM (
                    SELECT request_id, row_number() OVER newest AS place,
                           sum(octet_length(request_body) + octet_length(response_body)) OVER newest AS bytes
                    FROM requests WHERE merchant_id = $1
                    WINDOW newest AS (ORDER BY request_id DESC)) AS entries
                WHERE place > $2 OR bytes > $3
                ORDER BY request_id DESC LIMIT 1)
            ORDER BY request_id LIMIT $4)";
}

/// Which entries a list has: those that fit all that is given.
#[derive(Debug, Default)]
pub struct Filters {
    /// Numbers of one order, of either kind.
    pub order_nos: Vec<String>,
    /// Numbers of one refund, of either kind.
    pub refund_nos: Vec<String>,
    /// The Idempotency-Key.
    pub idempotency_key: Option<String>,
    /// The path without its query; `*` stands for anything.
    pub path: Option<String>,
    /// The HTTP method.
    pub method: Option<String>,
    /// The HTTP status.
    pub status: Option<i16>,
    /// What became of it.
    pub outcome: Option<Outcome>,
}

impl FromRow<'_, PgRow> for Entry {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let duration_ms: i64 = row.try_get("duration_ms")?;
        let status: Option<i16> = row.try_get("status")?;
        Ok(Self {
            merchant: MerchantId::from_uuid(row.try_get("merchant_id")?),
            request_id: RequestId::from_uuid(row.try_get("request_id")?),
            at: row.try_get("at")?,
            received_at: row.try_get("received_at")?,
            duration: Duration::from_millis(u64::try_from(duration_ms).unwrap_or_default()),
            method: row.try_get("method")?,
            path: row.try_get("path")?,
            idempotency_key: row.try_get("idempotency_key")?,
            request_headers: row.try_get::<Json<_>, _>("request_headers")?.0,
            request_body: row.try_get("request_body")?,
            order_nos: row.try_get("order_nos")?,
            refund_nos: row.try_get("refund_nos")?,
            outcome: Outcome::from_code(row.try_get("outcome")?).ok_or_else(|| unknown("outcome"))?,
            fault: row.try_get("fault")?,
            status: status.and_then(|status| u16::try_from(status).ok()),
            response_body: row.try_get("response_body")?,
            answered: row.try_get("answered")?,
            client_hung_up: row.try_get("client_hung_up")?,
        })
    }
}

/// Writes entries.
///
/// # Errors
/// Those of the database; then none is written.
pub async fn insert(conn: &mut PgConnection, entries: &[Entry]) -> Result<(), DbError> {
    fn all<'e, T>(entries: &'e [Entry], read: impl Fn(&'e Entry) -> T) -> Vec<T> {
        entries.iter().map(read).collect()
    }
    let headers = all(entries, |entry| serde_json::to_string(&entry.request_headers).unwrap_or_default());
    sqlx::query(INSERT)
        .bind(all(entries, |entry| entry.merchant.uuid()))
        .bind(all(entries, |entry| entry.request_id.uuid()))
        .bind(all(entries, |entry| entry.received_at))
        .bind(all(entries, |entry| i64::try_from(entry.duration.as_millis()).unwrap_or(i64::MAX)))
        .bind(all(entries, |entry| entry.method.as_str()))
        .bind(all(entries, |entry| entry.path.as_str()))
        .bind(all(entries, |entry| entry.idempotency_key.as_deref()))
        .bind(headers)
        .bind(all(entries, |entry| entry.request_body.as_str()))
        .bind(all(entries, |entry| entry.order_nos.join(" ")))
        .bind(all(entries, |entry| entry.refund_nos.join(" ")))
        .bind(all(entries, |entry| entry.outcome.code()))
        .bind(all(entries, |entry| entry.fault.as_deref()))
        .bind(all(entries, |entry| entry.status.and_then(|status| i16::try_from(status).ok())))
        .bind(all(entries, |entry| entry.response_body.as_str()))
        .bind(all(entries, |entry| entry.answered))
        .bind(all(entries, |entry| entry.client_hung_up))
        .execute(conn)
        .await?;
    Ok(())
}

/// An entry by its id.
///
/// # Errors
/// Those of the database.
pub async fn find(
    conn: &mut PgConnection,
    merchant: MerchantId,
    request_id: RequestId,
) -> Result<Option<Entry>, DbError> {
    let find = sqlx::query_as(FIND).bind(merchant.uuid()).bind(request_id.uuid());
    Ok(find.fetch_optional(conn).await?)
}

/// A merchant's entries from the newest on, or from the one after `before` on, at most `limit`.
///
/// # Errors
/// Those of the database.
pub async fn list(
    conn: &mut PgConnection,
    merchant: MerchantId,
    before: Option<RequestId>,
    filters: &Filters,
    limit: i64,
) -> Result<Vec<Entry>, DbError> {
    let list = sqlx::query_as(LIST)
        .bind(merchant.uuid())
        .bind(before.map_or(Uuid::max(), RequestId::uuid))
        .bind(&filters.order_nos)
        .bind(&filters.refund_nos)
        .bind(&filters.idempotency_key)
        .bind(filters.path.as_deref().map(like))
        .bind(&filters.method)
        .bind(filters.status)
        .bind(filters.outcome.map(Outcome::code))
        .bind(limit);
    Ok(list.fetch_all(conn).await?)
}

/// All of a merchant's entries, the oldest first.
///
/// # Errors
/// Those of the database.
pub async fn oldest_first(conn: &mut PgConnection, merchant: MerchantId) -> Result<Vec<Entry>, DbError> {
    Ok(sqlx::query_as(OLDEST_FIRST).bind(merchant.uuid()).fetch_all(conn).await?)
}

/// How much of a journal is kept.
#[derive(Debug, Clone, Copy)]
pub struct Kept {
    /// How many entries.
    pub entries: i64,
    /// How many bytes of bodies they have together.
    pub bytes: i64,
}

/// Deletes a merchant's oldest entries, at most `limit`, of those that are more than what is kept. Returns how
/// many; none is left where these are fewer.
///
/// # Errors
/// Those of the database.
pub async fn trim(
    conn: &mut PgConnection,
    merchant: MerchantId,
    kept: Kept,
    limit: i64,
) -> Result<u64, DbError> {
    let trim = sqlx::query(TRIM).bind(merchant.uuid()).bind(kept.entries).bind(kept.bytes).bind(limit);
    Ok(trim.execute(conn).await?.rows_affected())
}

/// The pattern of `LIKE` for a path in which `*` stands for anything.
fn like(path: &str) -> String {
    path.replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_").replace('*', "%")
}
