//! Whose key it is: claims a key for a request, or finds out why it cannot be claimed (contract,
//! section 4). Each step is one statement, committed at once, so that no request waits for another.

use crate::db::idempotency_keys::{self as keys, Claim, ClaimRequest, KeyState};
use crate::db::{DbError, PgConnection};
use crate::domain::id::RequestId;
use crate::domain::idempotency::{self, Mismatch};

/// How often a key is looked at again when it changes hands between reading and claiming it. Each time
/// somebody else has made progress, so a second look nearly always decides.
const ATTEMPTS: usize = 5;

/// What a key means for a request.
#[derive(Debug)]
pub(super) enum KeyClaim {
    /// The key is ours: run.
    Ours(Claim),
    /// The first response is stored.
    Replay { request_id: RequestId, status: u16, body: Vec<u8> },
    /// The first request is still running.
    InProgress,
    /// The key is bound to another request.
    Mismatch(Box<Mismatch>),
}

/// Claims the key of a request, if that is possible. Waits for no other request.
pub(super) async fn claim(conn: &mut PgConnection, request: &ClaimRequest<'_>) -> Result<KeyClaim, DbError> {
    for _ in 0..ATTEMPTS {
        if let Some(claim) = keys::claim(conn, request).await? {
            return Ok(KeyClaim::Ours(claim));
        }
        let kept_hours = idempotency::KEPT_HOURS;
        // Swept between the two statements: it is new again.
        let Some(stored) = keys::find(conn, request.merchant, request.key, kept_hours).await? else {
            continue;
        };
        if !stored.expired && stored.fingerprint != request.fingerprint {
            let mismatch = idempotency::explain_mismatch(&stored.bound, request.bound);
            return Ok(KeyClaim::Mismatch(Box::new(mismatch)));
        }
        match stored.state {
            KeyState::InProgress => return Ok(KeyClaim::InProgress),
            KeyState::Completed { request_id, status, body } if !stored.expired => {
                return Ok(KeyClaim::Replay { request_id, status, body });
            }
            KeyState::Completed { .. } | KeyState::Free => {
                if let Some(claim) = keys::reclaim(conn, request, &stored).await? {
                    return Ok(KeyClaim::Ours(claim));
                }
            }
        }
    }
    Ok(KeyClaim::InProgress)
}
