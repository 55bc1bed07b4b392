//! The table `idempotency_keys`: claims with their leases, and the responses stored under them. A claim is
//! identified by the request that made it. No other request makes a claim with that id, so a request that has lost
//! its claim can write nothing under a later one. `service::idempotent` decides what a stored key means for a
//! request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};
use time::OffsetDateTime;

use super::{DbError, merchant_now, merchant_now_or_new, open_merchant};
use crate::domain::id::{MerchantId, RequestId};
use crate::domain::idempotency::{BoundRequest, Fingerprint, IdempotencyKey};

super::declare_statements! {
    /// Claims new keys, and returns those that are in use. A key that another request is just claiming is missing
    /// from the rows. The merchant is created if it is new; while it is being emptied, nothing is claimed. The
    /// commit need not reach the disk: the commit of the work flushes everything before it, and a claim lost in a
    /// crash protects nothing.
    CLAIM = concat!(open_merchant!(), ",
        asked AS (
            SELECT * FROM unnest($2::text[], $3::bytea[], $4::text[], $5::text[], $6::bytea[], $7::uuid[],
                                 $8::bigint[])
                AS asked (key, fingerprint, method, path, request_body, request_id, lease_ms)),
        found AS (
            SELECT key, found.* FROM asked, LATERAL (
                SELECT k.state, k.fingerprint, k.method, k.path, k.request_body, k.request_id, k.status,
                       k.response_body, k.lease_until > clock_timestamp() AS leased,
                       k.created_at + make_interval(hours => $9) <= ", merchant_now!(), " AS expired
                FROM idempotency_keys k JOIN merchants m USING (merchant_id)
                WHERE k.merchant_id = $1 AND k.key = asked.key LIMIT 1) found),
        claimed AS (
            INSERT INTO idempotency_keys
                (merchant_id, key, fingerprint, method, path, request_body, request_id, lease_until,
                 created_at)
            SELECT $1, key, fingerprint, method, path, request_body, request_id,
                   clock_timestamp() + lease_ms * interval '1 millisecond', ", merchant_now_or_new!(), "
            FROM asked
            WHERE set_config('synchronous_commit', 'off', true) = 'off'
                AND NOT EXISTS (SELECT FROM merchants WHERE merchant_id = $1 AND emptying)
                AND NOT EXISTS (SELECT FROM found WHERE found.key = asked.key)
            ORDER BY key
            ON CONFLICT (merchant_id, key) DO NOTHING
            RETURNING key, request_id, created_at)
        SELECT key, created_at AS now, NULL AS state, NULL::bytea AS fingerprint, NULL AS method,
               NULL AS path, NULL::bytea AS request_body, request_id, NULL::smallint AS status,
               NULL::bytea AS response_body, NULL::boolean AS leased, NULL::boolean AS expired FROM claimed
        UNION ALL
        SELECT key, NULL, state, fingerprint, method, path, request_body, request_id, status, response_body,
               leased, expired FROM found");

    /// Claims a key that was found free, held by the request `$10` before, unless another request has claimed it
    /// since. A lease that ends frees only a key in progress. `$9` says that the key had expired and counts as new.
    RECLAIM = concat!("
        UPDATE idempotency_keys k
        SET state = 'in_progress', lease_until = clock_timestamp() + $8 * interval '1 millisecond',
            request_id = $7,
            fingerprint = $3, method = $4, path = $5, request_body = $6, status = NULL, response_body = NULL,
            created_at = CASE WHEN $9 THEN ", merchant_now!(), " ELSE created_at END
        FROM merchants m
        WHERE m.merchant_id = $1 AND k.merchant_id = $1 AND key = $2 AND request_id = $10
            AND (state = 'released' OR (state = 'completed' AND $9)
                 OR (state = 'in_progress' AND lease_until <= clock_timestamp()))
        RETURNING request_id, ", merchant_now!(), " AS now");

    COMPLETE = "
        UPDATE idempotency_keys SET state = 'completed', status = $4, response_body = $5
        WHERE merchant_id = $1 AND key = $2 AND request_id = $3 AND state = 'in_progress'";

    RELEASE = "
        UPDATE idempotency_keys SET state = 'released'
        WHERE merchant_id = $1 AND key = $2 AND request_id = $3 AND state = 'in_progress'";

    SWEEP = concat!("
        DELETE FROM idempotency_keys WHERE merchant_id = $1 AND key = ANY(ARRAY(
            SELECT key FROM idempotency_keys
            WHERE merchant_id = $1 AND created_at <= ", merchant_now_or_new!(), " - make_interval(hours => $2)
                AND (state <> 'in_progress' OR lease_until <= clock_timestamp())
            ORDER BY created_at LIMIT $3))");
}

/// Runs once, at the start of a process that is alone on its data, so it may read every key.
const RELEASE_ALL: &str = "UPDATE idempotency_keys SET state = 'released' WHERE state = 'in_progress'";

/// A claimed key: the right to write under it until another request claims it.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// The request that claimed it, and no other.
    pub(super) request_id: RequestId,
    /// The merchant's time at the claim.
    pub now: OffsetDateTime,
}

/// A request for a claim.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// The key.
    pub key: IdempotencyKey,
    /// The request that the key becomes bound to.
    pub bound: Arc<BoundRequest>,
    /// That request's fingerprint.
    pub fingerprint: Fingerprint,
    /// The id of the response that will be stored.
    pub request_id: RequestId,
    /// How long nobody else may take the key over.
    pub lease: Duration,
}

/// The outcome of a claim.
#[derive(Debug)]
pub enum Claimed {
    /// The key is ours.
    Ours(Claim),
    /// It is in use.
    Found(StoredKey),
    /// Another request is just claiming it, or the merchant is being emptied.
    Contended,
}

/// A key that is in use.
#[derive(Debug)]
pub struct StoredKey {
    /// The request that holds or completed it.
    request_id: RequestId,
    /// Who holds it, or what it holds.
    pub state: KeyState,
    /// Whether its 24 hours are over, by the merchant's time.
    pub expired: bool,
    /// The fingerprint of the request that it is bound to.
    pub fingerprint: Fingerprint,
    /// That request.
    pub bound: BoundRequest,
}

/// Who holds a key, or what it holds.
#[derive(Debug)]
pub enum KeyState {
    /// A request is running.
    InProgress,
    /// Nobody holds it: the outcome was unknown, or the holder's lease is over.
    Free,
    /// The first response.
    Completed {
        /// Its id.
        request_id: RequestId,
        /// Its HTTP status.
        status: u16,
        /// Its body.
        body: Bytes,
    },
}

impl FromRow<'_, PgRow> for Claim {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let request_id = RequestId::from_uuid(row.try_get("request_id")?);
        Ok(Self { request_id, now: row.try_get("now")? })
    }
}

impl FromRow<'_, PgRow> for StoredKey {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let request_id = RequestId::from_uuid(row.try_get("request_id")?);
        let state = match row.try_get("state")? {
            "completed" => KeyState::Completed {
                request_id,
                status: u16::try_from(row.try_get::<i16, _>("status")?).unwrap_or_default(),
                body: row.try_get::<Vec<u8>, _>("response_body")?.into(),
            },
            "in_progress" if row.try_get("leased")? => KeyState::InProgress,
            _ => KeyState::Free,
        };
        Ok(Self {
            request_id,
            state,
            expired: row.try_get("expired")?,
            fingerprint: row.try_get("fingerprint")?,
            bound: BoundRequest {
                method: row.try_get("method")?,
                path: row.try_get("path")?,
                body: row.try_get("request_body")?,
            },
        })
    }
}

/// Claims keys of a merchant, each for its own request, and returns the outcomes in the same order. Waits for no
/// other request.
///
/// # Errors
/// Those of the database; then none is claimed.
pub async fn claim_all(
    conn: &mut PgConnection,
    merchant: MerchantId,
    requests: &[ClaimRequest],
    kept_hours: i32,
) -> Result<Vec<Claimed>, DbError> {
    fn all<'r, T>(requests: &'r [ClaimRequest], read: impl Fn(&'r ClaimRequest) -> T) -> Vec<T> {
        requests.iter().map(read).collect()
    }
    let rows = sqlx::query(CLAIM)
        .bind(merchant.uuid())
        .bind(all(requests, |request| request.key.as_str()))
        .bind(all(requests, |request| request.fingerprint.as_slice()))
        .bind(all(requests, |request| request.bound.method.as_str()))
        .bind(all(requests, |request| request.bound.path.as_str()))
        .bind(all(requests, |request| request.bound.body.as_slice()))
        .bind(all(requests, |request| request.request_id.uuid()))
        .bind(all(requests, |request| milliseconds(request.lease)))
        .bind(kept_hours)
        .fetch_all(conn)
        .await?;
    let outcome = |request: &ClaimRequest| -> Result<Claimed, DbError> {
        for row in &rows {
            if row.try_get::<&str, _>("key")? != request.key.as_str() {
                continue;
            }
            if row.try_get::<Option<OffsetDateTime>, _>("now")?.is_none() {
                return Ok(Claimed::Found(StoredKey::from_row(row)?));
            }
            let claim = Claim::from_row(row)?;
            // Another member of the batch may have the same key.
            let ours = claim.request_id == request.request_id;
            return Ok(if ours { Claimed::Ours(claim) } else { Claimed::Contended });
        }
        Ok(Claimed::Contended)
    };
    requests.iter().map(outcome).collect()
}

/// Claims a key that was found free or expired. `None` if another request was faster.
pub async fn reclaim(
    conn: &mut PgConnection,
    merchant: MerchantId,
    request: &ClaimRequest,
    found: &StoredKey,
) -> Result<Option<Claim>, DbError> {
    let claim = sqlx::query_as(RECLAIM)
        .bind(merchant.uuid())
        .bind(request.key.as_str())
        .bind(request.fingerprint)
        .bind(&request.bound.method)
        .bind(&request.bound.path)
        .bind(&request.bound.body)
        .bind(request.request_id.uuid())
        .bind(milliseconds(request.lease))
        .bind(found.expired)
        .bind(found.request_id.uuid());
    Ok(claim.fetch_optional(conn).await?)
}

/// A response, to be stored under a claimed key.
#[derive(Debug)]
pub struct Completion {
    /// The key.
    pub key: IdempotencyKey,
    /// The claim over it.
    pub claim: Claim,
    /// The response's HTTP status.
    pub status: u16,
    /// The response's body.
    pub body: Bytes,
}

impl Completion {
    /// The status as the database stores it.
    pub(super) fn stored_status(&self) -> i16 {
        i16::try_from(self.status).unwrap_or_default()
    }
}

/// Stores the response under a claimed key. Returns false if the claim is lost: then nothing that this transaction
/// wrote may be committed.
pub async fn complete(
    conn: &mut PgConnection,
    merchant: MerchantId,
    completion: &Completion,
) -> Result<bool, DbError> {
    let update = sqlx::query(COMPLETE)
        .bind(merchant.uuid())
        .bind(completion.key.as_str())
        .bind(completion.claim.request_id.uuid())
        .bind(completion.stored_status())
        .bind(completion.body.as_ref());
    Ok(update.execute(conn).await?.rows_affected() == 1)
}

/// Releases a claimed key, so that the next request runs. Returns false if the claim is lost: then nothing that this
/// transaction wrote may be committed.
pub async fn release(
    conn: &mut PgConnection,
    (merchant, key): (MerchantId, &IdempotencyKey),
    claim: &Claim,
) -> Result<bool, DbError> {
    let update = sqlx::query(RELEASE).bind(merchant.uuid()).bind(key.as_str());
    Ok(update.bind(claim.request_id.uuid()).execute(conn).await?.rows_affected() == 1)
}

/// Frees every key that an earlier process held. Only for a process that is alone on its data.
pub(super) async fn release_all(conn: &mut PgConnection) -> Result<(), DbError> {
    sqlx::query(RELEASE_ALL).execute(conn).await?;
    Ok(())
}

/// Deletes at most `limit` of a merchant's expired keys, the oldest first, and returns how many.
pub async fn sweep(
    conn: &mut PgConnection,
    merchant: MerchantId,
    kept_hours: i32,
    limit: i64,
) -> Result<u64, DbError> {
    let delete = sqlx::query(SWEEP).bind(merchant.uuid()).bind(kept_hours).bind(limit);
    Ok(delete.execute(conn).await?.rows_affected())
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
