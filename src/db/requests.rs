//! The table `requests`: the journal. It is written in batches, apart from every transaction of a call,
//! and kept in bounds (see `journals`).

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, Row};
use uuid::Uuid;

use super::DbError;
use super::row::unknown;
use crate::domain::audit::Call;
use crate::domain::code::Code;
use crate::domain::id::{MerchantId, RequestId};
use crate::domain::journal::entry::{Entry, Outcome};

macro_rules! columns {
    () => {
        "merchant_id, request_id, at, received_at, duration_ms, method, path, idempotency_key, request_headers, \
         request_body, order_nos, refund_nos, outcome, fault, status, response_body, answered, client_hung_up, \
         body_hash, code, answer_nos"
    };
}

super::declare_statements! {
    /// Writes entries of one merchant, without those of calls received before it was emptied.
    INSERT = concat!("
        WITH entry AS (
            INSERT INTO requests (", columns!(), ", bytes)
            SELECT $1, request_id,
                   coalesce(m.clock_frozen_at,
                            received_at + coalesce(m.clock_offset_ms, 0) * interval '1 millisecond'),
                   received_at, duration_ms, method, path, idempotency_key, request_headers::jsonb, request_body,
                   string_to_array(order_nos, ' '), string_to_array(refund_nos, ' '),
                   outcome, fault, status, response_body, answered, client_hung_up,
                   body_hash, code, string_to_array(answer_nos, ' '), bytes
            FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[],
                        $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::smallint[],
                        $15::text[], $16::boolean[], $17::boolean[], $18::bigint[], $19::text[], $20::text[],
                        $21::integer[])
                 AS entry (request_id, received_at, duration_ms, method, path, idempotency_key, request_headers,
                           request_body, order_nos, refund_nos, outcome, fault, status, response_body, answered,
                           client_hung_up, body_hash, code, answer_nos, bytes)
                 LEFT JOIN merchants m ON m.merchant_id = $1
            WHERE m.emptied_at IS NULL OR received_at >= m.emptied_at
            ON CONFLICT DO NOTHING
            RETURNING bytes)
        SELECT count(*), coalesce(sum(bytes), 0) FROM entry");

    FIND = concat!("SELECT ", columns!(), " FROM requests WHERE merchant_id = $1 AND request_id = $2");

    LIST = concat!("
        SELECT ", columns!(), " FROM requests
        WHERE merchant_id = $1 AND request_id < $2
            AND order_nos @> $3 AND refund_nos @> $4
            AND ($5::text IS NULL OR $5 = idempotency_key)
            AND ($6::text IS NULL OR split_part(path, '?', 1) LIKE $6) AND ($7::text IS NULL OR $7 = method)
            AND ($8::smallint IS NULL OR $8 = status) AND ($9::text IS NULL OR $9 = outcome)
        ORDER BY request_id DESC LIMIT $10");

    /// A page of the calls that the audit judges, with no more columns than it needs, the oldest first.
    CALLS = "
        SELECT request_id, at, received_at, duration_ms, method, path, idempotency_key, request_body, body_hash,
               order_nos, refund_nos, answer_nos, outcome, status, code, answered, client_hung_up
        FROM requests WHERE merchant_id = $1 AND request_id > $2
        ORDER BY request_id LIMIT $3";
}

/// Which entries a list holds: those that match every given filter.
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
    /// Its outcome.
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
            body_hash: row.try_get("body_hash")?,
            code: row.try_get("code")?,
            answer_nos: row.try_get("answer_nos")?,
        })
    }
}

impl FromRow<'_, PgRow> for Call {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let duration_ms: i64 = row.try_get("duration_ms")?;
        let status: Option<i16> = row.try_get("status")?;
        Ok(Self {
            request_id: RequestId::from_uuid(row.try_get("request_id")?),
            at: row.try_get("at")?,
            received_at: row.try_get("received_at")?,
            duration: Duration::from_millis(u64::try_from(duration_ms).unwrap_or_default()),
            method: row.try_get("method")?,
            path: row.try_get("path")?,
            idempotency_key: row.try_get("idempotency_key")?,
            request_body: row.try_get("request_body")?,
            body_hash: row.try_get("body_hash")?,
            order_nos: row.try_get("order_nos")?,
            refund_nos: row.try_get("refund_nos")?,
            answer_nos: row.try_get("answer_nos")?,
            outcome: Outcome::from_code(row.try_get("outcome")?).ok_or_else(|| unknown("outcome"))?,
            status: status.and_then(|status| u16::try_from(status).ok()),
            code: row.try_get("code")?,
            answered: row.try_get("answered")?,
            client_hung_up: row.try_get("client_hung_up")?,
        })
    }
}

/// Writes entries of one merchant. Returns how many, and how many bytes they hold.
///
/// # Errors
/// Those of the database; then none is written.
pub(super) async fn insert(
    conn: &mut PgConnection,
    merchant: MerchantId,
    entries: &[Entry],
) -> Result<(i64, i64), DbError> {
    fn all<'e, T>(entries: &'e [Entry], read: impl Fn(&'e Entry) -> T) -> Vec<T> {
        entries.iter().map(read).collect()
    }
    if entries.is_empty() {
        return Ok((0, 0));
    }
    let headers = all(entries, |entry| serde_json::to_string(&entry.request_headers).unwrap_or_default());
    let insert = sqlx::query_as(INSERT)
        .bind(merchant.uuid())
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
        .bind(all(entries, |entry| entry.body_hash))
        .bind(all(entries, |entry| entry.code.as_deref()))
        .bind(all(entries, |entry| entry.answer_nos.join(" ")))
        .bind(all(entries, |entry| i32::try_from(entry.bytes()).unwrap_or(i32::MAX)));
    Ok(insert.fetch_one(conn).await?)
}

/// An entry by its id.
pub async fn find(
    conn: &mut PgConnection,
    merchant: MerchantId,
    request_id: RequestId,
) -> Result<Option<Entry>, DbError> {
    let find = sqlx::query_as(FIND).bind(merchant.uuid()).bind(request_id.uuid());
    Ok(find.fetch_optional(conn).await?)
}

/// A merchant's entries from the newest on, or from the one after `before` on, at most `limit`.
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

/// A merchant's calls as the audit reads them, the oldest first, from the one after `after` on, at most `limit`.
pub async fn calls(
    conn: &mut PgConnection,
    merchant: MerchantId,
    after: Option<RequestId>,
    limit: i64,
) -> Result<Vec<Call>, DbError> {
    let after = after.map_or(Uuid::nil(), RequestId::uuid);
    Ok(sqlx::query_as(CALLS).bind(merchant.uuid()).bind(after).bind(limit).fetch_all(conn).await?)
}

/// The pattern of `LIKE` for a path in which `*` stands for anything.
fn like(path: &str) -> String {
    path.replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_").replace('*', "%")
}
