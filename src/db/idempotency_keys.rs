//! The table `idempotency_keys`: claims with lease and fence, and the responses stored under them. What
//! a stored key means for a request is decided by `service::idempotent`.

use std::time::Duration;

use sqlx::postgres::types::PgInterval;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::QueryAs;
use sqlx::{FromRow, PgConnection, Postgres, Row};
use time::OffsetDateTime;

use super::{DbError, merchant_now, merchant_now_or_new, open_merchant};
use crate::domain::id::{MerchantId, RequestId};
use crate::domain::idempotency::{BoundRequest, Fingerprint, IdempotencyKey};

super::declare_statements! {
    /// A new claim, which also opens the merchant. Its commit need not reach the disk: the commit of
    /// the work flushes all that came before it, and a claim lost in a crash guards nothing.
    CLAIM = concat!(open_merchant!(), "
        INSERT INTO idempotency_keys
            (merchant_id, key, fingerprint, method, target, request_body, request_id, lease_until, created_at)
        SELECT $1, $2, $3, $4, $5, $6, $7, clock_timestamp() + $8, ", merchant_now_or_new!(), "
        WHERE set_config('synchronous_commit', 'off', true) = 'off'
        ON CONFLICT (merchant_id, key) DO NOTHING
        RETURNING fence, created_at AS now");

    FIND = concat!("
        SELECT state, fence, fingerprint, method, target, request_body, request_id, status, response_body,
               lease_until > clock_timestamp() AS leased,
               created_at + make_interval(hours => $3) <= ", merchant_now!(), " AS expired
        FROM idempotency_keys JOIN merchants m USING (merchant_id) WHERE merchant_id = $1 AND key = $2");

    /// A claim over a key that was found free, unless somebody else has claimed it since. `$9` tells
    /// that the key had expired and is new again.
    RECLAIM = concat!("
        UPDATE idempotency_keys k
        SET state = 'in_progress', fence = fence + 1, lease_until = clock_timestamp() + $8, request_id = $7,
            fingerprint = $3, method = $4, target = $5, request_body = $6, status = NULL, response_body = NULL,
            created_at = CASE WHEN $9 THEN ", merchant_now!(), " ELSE created_at END
        FROM merchants m
        WHERE m.merchant_id = $1 AND k.merchant_id = $1 AND key = $2 AND fence = $10
            AND (state = 'released' OR (state = 'completed' AND $9) OR lease_until <= clock_timestamp())
        RETURNING fence, ", merchant_now!(), " AS now");

    COMPLETE = "
        UPDATE idempotency_keys SET state = 'completed', status = $4, response_body = $5
        WHERE merchant_id = $1 AND key = $2 AND fence = $3 AND state = 'in_progress'";

    RELEASE = "
        UPDATE idempotency_keys SET state = 'released'
        WHERE merchant_id = $1 AND key = $2 AND fence = $3 AND state = 'in_progress'";

    SWEEP = concat!("
        DELETE FROM idempotency_keys WHERE merchant_id = $1 AND key IN (
            SELECT key FROM idempotency_keys
            WHERE merchant_id = $1 AND created_at <= ", merchant_now_or_new!(), " - make_interval(hours => $2)
            ORDER BY created_at LIMIT $3)");
}

/// Runs once, when a process starts that is alone on its data; so it may look at every key.
const RELEASE_ALL: &str = "UPDATE idempotency_keys SET state = 'released' WHERE state = 'in_progress'";

/// A key, claimed: the right to write under it for as long as nobody raises its fence.
#[derive(Debug)]
pub struct Claim {
    fence: i64,
    /// The merchant's time at the claim.
    pub now: OffsetDateTime,
}

/// What a claim is made with.
#[derive(Debug)]
pub struct ClaimRequest<'a> {
    /// Whose key it is.
    pub merchant: MerchantId,
    /// The key.
    pub key: &'a IdempotencyKey,
    /// The request that the key becomes bound to.
    pub bound: &'a BoundRequest,
    /// That request's fingerprint.
    pub fingerprint: Fingerprint,
    /// The id of the response that will be stored.
    pub request_id: RequestId,
    /// How long nobody else may take the key over.
    pub lease: Duration,
}

impl ClaimRequest<'_> {
    /// A statement that claims, with all that a claim writes bound to it as `$1` to `$8`.
    fn query(&self, sql: &'static str) -> QueryAs<'_, Postgres, Claim, PgArguments> {
        sqlx::query_as(sql)
            .bind(self.merchant.uuid())
            .bind(self.key.as_str())
            .bind(self.fingerprint)
            .bind(&self.bound.method)
            .bind(&self.bound.target)
            .bind(&self.bound.body)
            .bind(self.request_id.uuid())
            .bind(interval(self.lease))
    }
}

/// A key that is in use.
#[derive(Debug)]
pub struct StoredKey {
    fence: i64,
    /// Who holds it, or what it holds.
    pub state: KeyState,
    /// Whether its hours are over, by the merchant's time.
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
        body: Vec<u8>,
    },
}

impl FromRow<'_, PgRow> for Claim {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self { fence: row.try_get("fence")?, now: row.try_get("now")? })
    }
}

impl FromRow<'_, PgRow> for StoredKey {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let state = match row.try_get("state")? {
            "completed" => KeyState::Completed {
                request_id: RequestId::from_uuid(row.try_get("request_id")?),
                status: u16::try_from(row.try_get::<i16, _>("status")?).unwrap_or_default(),
                body: row.try_get("response_body")?,
            },
            "in_progress" if row.try_get("leased")? => KeyState::InProgress,
            _ => KeyState::Free,
        };
        Ok(Self {
            fence: row.try_get("fence")?,
            state,
            expired: row.try_get("expired")?,
            fingerprint: row.try_get("fingerprint")?,
            bound: BoundRequest {
                method: row.try_get("method")?,
                target: row.try_get("target")?,
                body: row.try_get("request_body")?,
            },
        })
    }
}

/// Claims a key that nobody has used. `None` where it is in use; this waits for no other request.
///
/// # Errors
/// Those of the database.
pub async fn claim(conn: &mut PgConnection, request: &ClaimRequest<'_>) -> Result<Option<Claim>, DbError> {
    Ok(request.query(CLAIM).fetch_optional(conn).await?)
}

/// Reads a key. `None` where nobody uses it any more.
///
/// # Errors
/// Those of the database.
pub async fn find(
    conn: &mut PgConnection,
    merchant: MerchantId,
    key: &IdempotencyKey,
    kept_hours: i32,
) -> Result<Option<StoredKey>, DbError> {
    let find = sqlx::query_as(FIND).bind(merchant.uuid()).bind(key.as_str()).bind(kept_hours);
    Ok(find.fetch_optional(conn).await?)
}

/// Claims a key that was found free or expired. `None` where somebody else was faster.
///
/// # Errors
/// Those of the database.
pub async fn reclaim(
    conn: &mut PgConnection,
    request: &ClaimRequest<'_>,
    found: &StoredKey,
) -> Result<Option<Claim>, DbError> {
    let claim = request.query(RECLAIM).bind(found.expired).bind(found.fence);
    Ok(claim.fetch_optional(conn).await?)
}

/// A response, to be stored under a claimed key.
#[derive(Debug)]
pub struct Completion<'a> {
    /// Whose key it is.
    pub merchant: MerchantId,
    /// The key.
    pub key: &'a IdempotencyKey,
    /// The claim over it.
    pub claim: &'a Claim,
    /// The response's HTTP status.
    pub status: u16,
    /// The response's body.
    pub body: &'a [u8],
}

impl Completion<'_> {
    /// Binds key, fence, status and body, in this order.
    pub(super) fn bind<'q>(
        &'q self,
        query: sqlx::query::Query<'q, Postgres, PgArguments>,
    ) -> sqlx::query::Query<'q, Postgres, PgArguments> {
        query
            .bind(self.key.as_str())
            .bind(self.claim.fence)
            .bind(i16::try_from(self.status).unwrap_or_default())
            .bind(self.body)
    }
}

/// Stores the response under a claimed key. False where the claim is no longer ours: then nothing that
/// this transaction wrote may be committed.
///
/// # Errors
/// Those of the database.
pub async fn complete(conn: &mut PgConnection, completion: &Completion<'_>) -> Result<bool, DbError> {
    let update = completion.bind(sqlx::query(COMPLETE).bind(completion.merchant.uuid()));
    Ok(update.execute(conn).await?.rows_affected() == 1)
}

/// Gives a claimed key up, so that the next request runs. Does nothing where the claim is no longer
/// ours.
///
/// # Errors
/// Those of the database.
pub async fn release(
    conn: &mut PgConnection,
    (merchant, key): (MerchantId, &IdempotencyKey),
    claim: &Claim,
) -> Result<(), DbError> {
    let update = sqlx::query(RELEASE).bind(merchant.uuid()).bind(key.as_str()).bind(claim.fence);
    update.execute(conn).await?;
    Ok(())
}

/// Frees every key that an earlier process held. Only for a process that is alone on its data.
///
/// # Errors
/// Those of the database.
pub(super) async fn release_all(conn: &mut PgConnection) -> Result<(), DbError> {
    sqlx::query(RELEASE_ALL).execute(conn).await?;
    Ok(())
}

/// Deletes at most `limit` of a merchant's expired keys, the oldest first, and returns how many.
///
/// # Errors
/// Those of the database.
pub async fn sweep(
    conn: &mut PgConnection,
    merchant: MerchantId,
    kept_hours: i32,
    limit: i64,
) -> Result<u64, DbError> {
    let delete = sqlx::query(SWEEP).bind(merchant.uuid()).bind(kept_hours).bind(limit);
    Ok(delete.execute(conn).await?.rows_affected())
}

fn interval(duration: Duration) -> PgInterval {
    PgInterval { months: 0, days: 0, microseconds: i64::try_from(duration.as_micros()).unwrap_or(i64::MAX) }
}
