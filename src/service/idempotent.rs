//! The idempotent write: claim the key, run the work, commit the work and its response together
//! (contract, section 4). Every write under `/v1` goes through [`execute`]; what a key means for a
//! request is in `key_claim`, and what the work does in the other files here.
//!
//! ```text
//! T1  claim   one statement, committed at once: a duplicate sees it and need not wait
//!     wait    (latency fault) without a connection
//! T2  commit  the work's writes, its events, and the response under the claim's fence
//! ```
//!
//! Creating an order, the hot path, is two statements in all: its T2 is one that does everything or
//! nothing ([`Work::write_at_once`]), and only where that finds something in its way is the work run
//! step by step.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use time::OffsetDateTime;

use super::key_claim::{self, KeyClaim};
use super::{Gateway, WorkError, Written};
use crate::db::idempotency_keys::{self as keys, Claim, ClaimRequest, Completion};
use crate::db::{Connection, DbError, PgConnection, PoolConnection, merchants};
use crate::domain::fault::CallFault;
use crate::domain::id::{MerchantId, RequestId};
use crate::domain::idempotency::{BoundRequest, IdempotencyKey, Mismatch};
use crate::domain::refusal::Refusal;
use crate::domain::view::View;

/// How long the work may take, from the first connection to the commit. It covers the wait for a free
/// connection (5 s) and a statement that runs into its own limit (6 s) only in part: a request that
/// meets both is better told to retry.
const DEADLINE: Duration = Duration::from_secs(8);

/// How long a claim stands while nobody completes or releases it, beyond what a latency fault adds. It
/// must be longer than the deadline, or a key could be taken over from work that still runs. It is also
/// how long a key stays in progress after the process on a shared server was killed, so it is short.
const LEASE: Duration = Duration::from_secs(12);

/// A write as it came in.
#[derive(Debug)]
pub struct Call {
    /// Who calls.
    pub merchant: MerchantId,
    /// The id that the response will carry unless an earlier one is replayed.
    pub request_id: RequestId,
    /// The key, if one was sent.
    pub key: Option<IdempotencyKey>,
    /// The request that the key is bound to.
    pub bound: BoundRequest,
    /// What is to go wrong. Latency holds the key, and what comes after an error is not stored; other
    /// faults are not this module's.
    pub fault: Option<CallFault>,
}

/// The work of a write.
pub trait Work: Send + Sync + 'static {
    /// What it makes or finds.
    type Object: View + Send;

    /// Whether it may write events.
    const TELLS: bool = false;

    /// What this makes if nothing is in its way, where that can be told without a look at the database.
    fn draft(&self, _now: OffsetDateTime) -> Option<Self::Object> {
        None
    }

    /// Writes a draft and the response that tells it in one statement. False where something was in its
    /// way; then nothing is written, and [`Work::run`] finds out what.
    fn write_at_once(
        _conn: &mut PgConnection,
        _draft: &Self::Object,
        _completion: &Completion<'_>,
    ) -> impl Future<Output = Result<bool, DbError>> + Send {
        std::future::ready(Ok(false))
    }

    /// Runs inside a transaction, which is rolled back unless this returns `Ok`. `now` is the
    /// merchant's time.
    fn run(
        self,
        tx: &mut PgConnection,
        now: OffsetDateTime,
    ) -> impl Future<Output = Result<Written<Self::Object>, WorkError>> + Send;
}

/// A call whose fields are wrong is work too: its refusal is stored under the key.
impl<W: Work> Work for Result<W, Refusal> {
    type Object = W::Object;

    const TELLS: bool = W::TELLS;

    fn draft(&self, now: OffsetDateTime) -> Option<W::Object> {
        self.as_ref().ok()?.draft(now)
    }

    async fn write_at_once(
        conn: &mut PgConnection,
        draft: &W::Object,
        completion: &Completion<'_>,
    ) -> Result<bool, DbError> {
        W::write_at_once(conn, draft, completion).await
    }

    async fn run(self, tx: &mut PgConnection, now: OffsetDateTime) -> Result<Written<W::Object>, WorkError> {
        self?.run(tx, now).await
    }
}

/// A rendered response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body's bytes.
    pub body: Vec<u8>,
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
    call: &Call,
    work: W,
    render: impl Render<W::Object>,
) -> Result<Reply, NoReply> {
    Execution { gateway, call }.run(work, render).await
}

/// One write on its way.
struct Execution<'a> {
    gateway: &'a Gateway,
    call: &'a Call,
}

impl Execution<'_> {
    async fn run<W: Work>(&self, work: W, render: impl Render<W::Object>) -> Result<Reply, NoReply> {
        let Some(key) = &self.call.key else {
            self.wait(None).await;
            let answer = self.bounded(self.run_without_key(work, render)).await?;
            return Ok(self.first(answer));
        };
        let (conn, claim) = match self.bounded(self.claim(key)).await? {
            (conn, KeyClaim::Ours(claim)) => (conn, claim),
            (_, KeyClaim::Replay { request_id, status, body }) => {
                return Ok(Reply { answer: Answer { status, body }, request_id, replayed: true });
            }
            (_, KeyClaim::InProgress) => return Err(NoReply::InProgress),
            (_, KeyClaim::Mismatch(mismatch)) => return Err(NoReply::Mismatch(mismatch)),
        };
        let conn = self.wait(Some(conn)).await;
        let outcome = self.bounded(self.commit(conn, key, &claim, work, render)).await;
        if outcome.is_err() || !self.stores_response() {
            self.release(key, &claim).await;
        }
        outcome.map(|answer| self.first(answer))
    }

    fn first(&self, answer: Answer) -> Reply {
        Reply { answer, request_id: self.call.request_id, replayed: false }
    }

    async fn claim(&self, key: &IdempotencyKey) -> Result<(PoolConnection, KeyClaim), NoReply> {
        let delay = match self.call.fault {
            Some(CallFault::Latency(delay)) => delay,
            _ => Duration::ZERO,
        };
        let request = ClaimRequest {
            merchant: self.call.merchant,
            key,
            bound: &self.call.bound,
            fingerprint: self.call.bound.fingerprint(),
            request_id: self.call.request_id,
            lease: LEASE + delay,
        };
        let mut conn = self.gateway.db.acquire().await?;
        let claim = key_claim::claim(&mut conn, &request).await?;
        Ok((conn, claim))
    }

    /// Waits as a slow bank would, while the key is in progress. No connection is held meanwhile: the
    /// one that is passed in comes back only where there is nothing to wait for.
    async fn wait(&self, conn: Option<PoolConnection>) -> Option<PoolConnection> {
        let Some(CallFault::Latency(delay)) = self.call.fault else { return conn };
        drop(conn);
        tokio::time::sleep(delay).await;
        None
    }

    async fn run_without_key<W: Work>(
        &self,
        work: W,
        render: impl Render<W::Object>,
    ) -> Result<Answer, NoReply> {
        let mut conn = self.gateway.db.acquire().await?;
        let now = merchants::open(&mut conn, self.call.merchant).await?;
        let mut tx = conn.begin().await.map_err(DbError::from)?;
        match work.run(&mut tx, now).await {
            Ok(output) => {
                let answer = render(Ok(&output));
                tx.commit().await.map_err(DbError::from)?;
                self.wake_delivery::<W>();
                Ok(answer)
            }
            Err(WorkError::Refused(refusal)) => Ok(render(Err(&refusal))),
            Err(WorkError::Failed(error)) => Err(error.into()),
        }
    }

    async fn commit<W: Work>(
        &self,
        conn: Option<PoolConnection>,
        key: &IdempotencyKey,
        claim: &Claim,
        work: W,
        render: impl Render<W::Object>,
    ) -> Result<Answer, NoReply> {
        let mut conn = match conn {
            Some(conn) => conn,
            None => self.gateway.db.acquire().await?,
        };
        if let Some(object) = work.draft(claim.now).filter(|_| self.stores_response()) {
            let draft = Written::new(object);
            let answer = render(Ok(&draft));
            let completion = self.completion(key, claim, &answer);
            if W::write_at_once(&mut conn, &draft.object, &completion).await? {
                return Ok(answer);
            }
        }
        let mut tx = conn.begin().await.map_err(DbError::from)?;
        match work.run(&mut tx, claim.now).await {
            Ok(output) => {
                let answer = render(Ok(&output));
                self.store(&mut tx, key, claim, &answer).await?;
                tx.commit().await.map_err(DbError::from)?;
                self.wake_delivery::<W>();
                Ok(answer)
            }
            Err(WorkError::Refused(refusal)) => {
                // Nothing is kept but the answer, so there is nothing that it must be one transaction with.
                tx.rollback().await.map_err(DbError::from)?;
                let answer = render(Err(&refusal));
                self.store(&mut conn, key, claim, &answer).await?;
                Ok(answer)
            }
            Err(WorkError::Failed(error)) => Err(error.into()),
        }
    }

    fn wake_delivery<W: Work>(&self) {
        if W::TELLS {
            self.gateway.wake_delivery();
        }
    }

    /// Stores the response under the claim. An error where somebody has taken the key over: then this
    /// work came too late, and must leave nothing behind.
    async fn store(
        &self,
        conn: &mut PgConnection,
        key: &IdempotencyKey,
        claim: &Claim,
        answer: &Answer,
    ) -> Result<(), NoReply> {
        if !self.stores_response() {
            return Ok(());
        }
        let ours = keys::complete(conn, &self.completion(key, claim, answer)).await?;
        if ours { Ok(()) } else { Err(NoReply::InProgress) }
    }

    const fn stores_response(&self) -> bool {
        !matches!(self.call.fault, Some(CallFault::ErrorAfter(_)))
    }

    fn completion<'c>(
        &self,
        key: &'c IdempotencyKey,
        claim: &'c Claim,
        answer: &'c Answer,
    ) -> Completion<'c> {
        Completion { merchant: self.call.merchant, key, claim, status: answer.status, body: &answer.body }
    }

    /// Frees the key after an unknown outcome, so that the retry runs for real. Where even that fails,
    /// the lease frees it.
    async fn release(&self, key: &IdempotencyKey, claim: &Claim) {
        let release = async {
            let mut conn = self.gateway.db.acquire().await?;
            Ok(keys::release(&mut conn, (self.call.merchant, key), claim).await?)
        };
        if let Err(error) = self.bounded(release).await {
            tracing::warn!(?error, "the key stays in progress until its lease is over");
        }
    }

    /// Bounds a step in time, and turns a panic into an outcome.
    async fn bounded<T>(&self, step: impl Future<Output = Result<T, NoReply>>) -> Result<T, NoReply> {
        match tokio::time::timeout(DEADLINE, AssertUnwindSafe(step).catch_unwind()).await {
            Ok(Ok(result)) => result,
            Ok(Err(_panic)) => Err(NoReply::Panicked),
            Err(_elapsed) => Err(NoReply::TimedOut),
        }
    }
}
