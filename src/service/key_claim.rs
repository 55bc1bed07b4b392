//! Claims a key for a request, or finds out why that is not possible (contract, section 4). Each step is one
//! statement, committed at once, so that no request waits for another.

use bytes::Bytes;

use super::Gateway;
use super::combine::Ask;
use crate::db::idempotency_keys::{self as keys, Claim, ClaimRequest, Claimed, KeyState, StoredKey};
use crate::db::{DbError, PgConnection};
use crate::domain::id::{MerchantId, RequestId};
use crate::domain::idempotency::{BoundRequest, KEPT_HOURS};

/// How often claiming is tried again if the key changes hands between reading and claiming it. Each time, another
/// request has made progress, so the second attempt nearly always decides.
const ATTEMPTS: usize = 5;

/// What a key means for a request.
#[derive(Debug)]
pub(super) enum KeyClaim {
    /// The key is ours: run.
    Ours(Claim),
    /// The first response is stored.
    Replay { request_id: RequestId, status: u16, body: Bytes },
    /// The first request is still running.
    InProgress,
    /// The key is bound to another request: this one.
    Mismatch(Box<BoundRequest>),
}

/// Many keys are claimed at once.
impl Ask for ClaimRequest {
    type Outcome = Claimed;

    async fn ask_all(
        conn: &mut PgConnection,
        merchant: MerchantId,
        batch: &[Self],
    ) -> Result<Vec<Claimed>, DbError> {
        keys::claim_all(conn, merchant, batch, KEPT_HOURS).await
    }
}

/// Claims the key of a request, if that is possible. Waits for no other request.
pub(super) async fn claim(
    gateway: &Gateway,
    merchant: MerchantId,
    request: &ClaimRequest,
) -> Result<KeyClaim, DbError> {
    for _ in 0..ATTEMPTS {
        match gateway.claims.ask(merchant, request.clone()).await? {
            Claimed::Ours(claim) => return Ok(KeyClaim::Ours(claim)),
            Claimed::Found(stored) => {
                if let Some(decided) = decide(gateway, merchant, request, stored).await? {
                    return Ok(decided);
                }
            }
            Claimed::Contended => {}
        }
    }
    // A key that changes hands so often is held by nobody: the merchant is being emptied.
    Err(DbError::Emptying)
}

/// What a key in use means. `None` if it has changed hands.
async fn decide(
    gateway: &Gateway,
    merchant: MerchantId,
    request: &ClaimRequest,
    stored: StoredKey,
) -> Result<Option<KeyClaim>, DbError> {
    if !stored.expired && stored.fingerprint != request.fingerprint {
        return Ok(Some(KeyClaim::Mismatch(Box::new(stored.bound))));
    }
    match stored.state {
        KeyState::InProgress => Ok(Some(KeyClaim::InProgress)),
        KeyState::Completed { request_id, status, body } if !stored.expired => {
            Ok(Some(KeyClaim::Replay { request_id, status, body }))
        }
        KeyState::Completed { .. } | KeyState::Free => {
            let mut conn = gateway.db.acquire().await?;
            Ok(keys::reclaim(&mut conn, merchant, request, &stored).await?.map(KeyClaim::Ours))
        }
    }
}
