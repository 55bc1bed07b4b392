//! The idempotent write: claim the key, run the work, commit the work and its response together
//! (contract, section 4). Every write under `/v1` goes through [`execute`]; what a key means for a
//! request is in `key_claim`, and what the work does in the other files here.
//!
//! ```text
//! T1  claim   one statement, committed at once: a duplicate sees it and need not wait
//!     wait    (a fault) without a connection
//! T2  commit  the work's writes, its events, and the response under the claim
//! ```
//!
//! Creating an order, the hot path, is two statements in all: its T2 is one that does everything or
//! nothing ([`Work::write_at_once`]), and only where that finds something in its way is the work run
//! step by step.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use time::OffsetDateTime;

use super::key_claim::{self, KeyClaim};
use super::{Gateway, WorkError, Written};
use crate::db::idempotency_keys::{self as keys, Claim, ClaimRequest, Completion};
use crate::db::{DbError, PgConnection, Tx};
use crate::domain::fault::call::{CallEffect, Reach};
use crate::domain::id::{MerchantId, RequestId};
use crate::domain::idempotency::{self, BoundRequest, IdempotencyKey, Mismatch};
use crate::domain::refusal::Refusal;
use crate::domain::view::View;

/// How long the work may take, from the first connection to the commit. It covers the wait for a free
/// connection (5 s) and a statement that runs into its own limit (6 s) only in part: a request that
/// meets both is better told to retry.
const DEADLINE: Duration = Duration::from_secs(8);

/// How long a claim stands while nobody completes or releases it, beyond what a fault waits. It
/// must be longer than the deadline, or a key could be taken over from work that still runs. It is also
/// how long a key stays in progress after the process on a shared server was killed, so it is short.
const LEASE: Duration = Duration::from_secs(12);

/// How large two bodies may be together, in bytes, to be compared on a thread that serves requests.
const COMPARED_AT_ONCE: usize = 8 * 1024;

/// A write as it came in.
#[derive(Debug)]
pub struct WriteCall {
    /// Who calls.
    pub merchant: MerchantId,
    /// The id that the response will carry unless an earlier one is replayed.
    pub request_id: RequestId,
    /// The key, if one was sent.
    pub key: Option<IdempotencyKey>,
    /// The request that the key is bound to.
    pub bound: Arc<BoundRequest>,
    /// What a fault does to it. How far it gets, how long it waits and whether its response is stored is obeyed here;
    /// the rest around the call, in `http::middleware::faults`.
    pub effect: CallEffect,
}

/// The work of a write.
pub trait Work: Send + Sync + 'static {
    /// What it makes or finds.
    type Object: View + Send;

    /// What this makes if nothing is in its way, where that can be told without a look at the database.
    fn draft(&self, _now: OffsetDateTime) -> Option<Self::Object> {
        None
    }

    /// Writes a draft and the response that tells it in one statement, which others may share. False where
    /// something was in its way; then nothing is written, and [`Work::run`] finds out what.
    fn write_at_once(
        _gateway: &Gateway,
        _draft: Self::Object,
        _completion: Completion,
    ) -> impl Future<Output = Result<bool, NoReply>> + Send {
        std::future::ready(Ok(false))
    }

    /// Runs inside a transaction, which is rolled back unless this returns `Ok`. `now` is the
    /// merchant's time.
    fn run(
        self,
        tx: &mut Tx<'_>,
        now: OffsetDateTime,
    ) -> impl Future<Output = Result<Written<Self::Object>, WorkError>> + Send;
}

/// A call whose fields are wrong is work too: its refusal is stored under the key.
impl<W: Work> Work for Result<W, Refusal> {
    type Object = W::Object;

    fn draft(&self, now: OffsetDateTime) -> Option<W::Object> {
        self.as_ref().ok()?.draft(now)
    }

    async fn write_at_once(
        gateway: &Gateway,
        draft: W::Object,
        completion: Completion,
    ) -> Result<bool, NoReply> {
        W::write_at_once(gateway, draft, completion).await
    }

    async fn run(self, tx: &mut Tx<'_>, now: OffsetDateTime) -> Result<Written<W::Object>, WorkError> {
        self?.run(tx, now).await
    }
}

/// A rendered response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body's bytes: rendered once, for the client, the key and the journal.
    pub body: Bytes,
}

/// How the outcome of a work becomes a response.
pub trait Render<T>: Fn(Result<&Written<T>, &Refusal>) -> Answer + Send + Sync + 'static {}
impl<T, F: Fn(Result<&Written<T>, &Refusal>) -> Answer + Send + Sync + 'static> Render<T> for F {}

/// What is sent to the client.
#[derive(Debug)]
pub struct Reply {
    /// The response.
    pub answer: Answer,
    /// Its id; that of the first request where it is replayed.
    pub request_id: RequestId,
    /// Whether it is the stored response of an earlier request.
    pub replayed: bool,
}

/// Why a write has no response of its own.
#[derive(Debug)]
pub enum NoReply {
    /// The first request with this key is still running.
    InProgress,
    /// The key is bound to another request.
    Mismatch(Box<Mismatch>),
    /// A fault has stopped it before the work.
    Stopped,
    /// The deadline has passed.
    TimedOut,
    /// The work panicked.
    Panicked,
    /// The database failed.
    Database(DbError),
}

impl From<DbError> for NoReply {
    fn from(error: DbError) -> Self {
        Self::Database(error)
    }
}

/// Executes a write, or finds the response that its key already has. To be called in a task that goes on
/// when the client hangs up.
///
/// # Errors
/// See [`NoReply`]; nothing is stored under the key then.
pub async fn execute<W: Work>(
    gateway: &Gateway,
    call: &WriteCall,
    work: W,
    render: impl Render<W::Object>,
) -> Result<Reply, NoReply> {
    Execution { gateway, call }.run(work, render).await
}

/// Explains why a key cannot be used that is bound to `first`, a masked copy. Large bodies are compared on a
/// thread that serves no requests.
async fn explain(first: BoundRequest, second: Arc<BoundRequest>) -> NoReply {
    let is_large = first.body.len() + second.body.len() > COMPARED_AT_ONCE;
    let explain =
        move || NoReply::Mismatch(Box::new(idempotency::explain_mismatch(&first, &second.masked())));
    if is_large { tokio::task::spawn_blocking(explain).await.unwrap_or(NoReply::Panicked) } else { explain() }
}

/// One write on its way.
struct Execution<'a> {
    gateway: &'a Gateway,
    call: &'a WriteCall,
}

impl Execution<'_> {
    async fn run<W: Work>(&self, work: W, render: impl Render<W::Object>) -> Result<Reply, NoReply> {
        let Some(key) = &self.call.key else {
            self.meet_fault().await?;
            let answer = bounded(self.run_without_key(work, render)).await?;
            return Ok(self.first(answer));
        };
        let claim = match bounded(self.claim(key)).await? {
            KeyClaim::Ours(claim) => claim,
            KeyClaim::Replay { request_id, status, body } => {
                return Ok(Reply { answer: Answer { status, body }, request_id, replayed: true });
            }
            KeyClaim::InProgress => return Err(NoReply::InProgress),
            KeyClaim::Mismatch(first) => return Err(explain(*first, Arc::clone(&self.call.bound)).await),
        };
        let outcome = match self.meet_fault().await {
            Ok(()) => bounded(self.commit(key, claim, work, render)).await,
            Err(error) => Err(error),
        };
        if outcome.is_err() {
            self.release(key, claim).await;
        }
        outcome.map(|answer| self.first(answer))
    }

    fn first(&self, answer: Answer) -> Reply {
        Reply { answer, request_id: self.call.request_id, replayed: false }
    }

    async fn claim(&self, key: &IdempotencyKey) -> Result<KeyClaim, NoReply> {
        let request = ClaimRequest {
            key: key.clone(),
            bound: Arc::new(self.call.bound.masked()),
            fingerprint: self.call.bound.fingerprint(),
            request_id: self.call.request_id,
            lease: LEASE + self.call.effect.wait,
        };
        Ok(key_claim::claim(self.gateway, self.call.merchant, &request).await?)
    }

    /// Meets what a fault does before the work: waits as a slow bank would, while the key is in progress, and may
    /// end here with an error, after which the key is free and bound to this request, as after any 5xx.
    async fn meet_fault(&self) -> Result<(), NoReply> {
        let CallEffect { reach, wait, .. } = self.call.effect;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        match reach {
            Reach::Work => Ok(()),
            Reach::Key | Reach::Nowhere => Err(NoReply::Stopped),
        }
    }

    async fn run_without_key<W: Work>(
        &self,
        work: W,
        render: impl Render<W::Object>,
    ) -> Result<Answer, NoReply> {
        let mut conn = self.gateway.db.acquire().await?;
        let mut tx = Tx::begin(&mut conn, self.call.merchant).await?;
        let now = tx.now();
        match work.run(&mut tx, now).await {
            Ok(output) => {
                let answer = render(Ok(&output));
                self.gateway.commit(tx).await?;
                Ok(answer)
            }
            Err(WorkError::Refused(refusal)) => Ok(render(Err(&refusal))),
            Err(WorkError::Failed(error)) => Err(error.into()),
        }
    }

    async fn commit<W: Work>(
        &self,
        key: &IdempotencyKey,
        claim: Claim,
        work: W,
        render: impl Render<W::Object>,
    ) -> Result<Answer, NoReply> {
        if let Some(object) = work.draft(claim.now).filter(|_| self.stores_response()) {
            let draft = Written::new(object);
            let answer = render(Ok(&draft));
            let completion = completion(key, claim, &answer);
            if W::write_at_once(self.gateway, draft.object, completion).await? {
                return Ok(answer);
            }
        }
        let mut conn = self.gateway.db.acquire().await?;
        let mut tx = Tx::begin(&mut conn, self.call.merchant).await?;
        match work.run(&mut tx, claim.now).await {
            Ok(output) => {
                let answer = render(Ok(&output));
                self.store(&mut tx, key, claim, &answer).await?;
                self.gateway.commit(tx).await?;
                Ok(answer)
            }
            Err(WorkError::Refused(refusal)) => {
                // Nothing is kept but the answer, so there is nothing that it must be one transaction with.
                tx.rollback().await?;
                let answer = render(Err(&refusal));
                self.store(&mut conn, key, claim, &answer).await?;
                Ok(answer)
            }
            Err(WorkError::Failed(error)) => Err(error.into()),
        }
    }

    /// Stores the response under the claim, or gives the claim up where the outcome is to stay unknown. An error
    /// where the claim is lost: then this work came too late, and must leave nothing behind.
    async fn store(
        &self,
        conn: &mut PgConnection,
        key: &IdempotencyKey,
        claim: Claim,
        answer: &Answer,
    ) -> Result<(), NoReply> {
        let ours = if self.stores_response() {
            keys::complete(conn, self.call.merchant, &completion(key, claim, answer)).await?
        } else {
            keys::release(conn, (self.call.merchant, key), &claim).await?
        };
        if ours { Ok(()) } else { Err(NoReply::InProgress) }
    }

    const fn stores_response(&self) -> bool {
        self.call.effect.stores
    }

    /// Frees the key after an unknown outcome, so that the retry runs for real. Where even that fails,
    /// the lease frees it.
    async fn release(&self, key: &IdempotencyKey, claim: Claim) {
        let release = async {
            let mut conn = self.gateway.db.acquire().await?;
            keys::release(&mut conn, (self.call.merchant, key), &claim).await?;
            Ok(())
        };
        if let Err(error) = bounded(release).await {
            tracing::warn!(?error, "the key stays in progress until its lease is over");
        }
    }
}

/// Bounds a step in time, and turns a panic into an outcome. (Not an `async fn`, which would hold the step twice.)
fn bounded<T>(step: impl Future<Output = Result<T, NoReply>>) -> impl Future<Output = Result<T, NoReply>> {
    tokio::time::timeout(DEADLINE, AssertUnwindSafe(step).catch_unwind()).map(|ended| match ended {
        Ok(Ok(result)) => result,
        Ok(Err(_panic)) => Err(NoReply::Panicked),
        Err(_elapsed) => Err(NoReply::TimedOut),
    })
}

fn completion(key: &IdempotencyKey, claim: Claim, answer: &Answer) -> Completion {
    Completion { key: key.clone(), claim, status: answer.status, body: answer.body.clone() }
}
