//! Combining: what many calls of one merchant ask of the database at the same time becomes one statement, and one
//! commit makes many calls durable. While a batch is at the server, the next one gathers. A batch never waits for
//! more members, so a lone call pays nothing.
//!
//! Members are kept apart: each has its own outcome, and if a batch fails, each member is asked for alone. A batch
//! belongs to one merchant, as every statement does.

use std::collections::HashMap;
use std::future::Future;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use tokio::sync::oneshot;

use crate::db::{Database, DbError, PgConnection};
use crate::domain::id::MerchantId;

/// How many members a batch has at most. More would save little and make the statement slow.
const BATCH: usize = 64;

/// Something that can be asked of the database for many at once.
pub(super) trait Ask: Send + Sync + Sized + 'static {
    /// The outcome of one member.
    type Outcome: Send + 'static;

    /// Asks for all members of a batch, and returns the outcome of each, in their order.
    fn ask_all(
        conn: &mut PgConnection,
        merchant: MerchantId,
        batch: &[Self],
    ) -> impl Future<Output = Result<Vec<Self::Outcome>, DbError>> + Send;
}

type Reply<A> = Result<<A as Ask>::Outcome, DbError>;

struct Member<A: Ask> {
    ask: A,
    reply: oneshot::Sender<Reply<A>>,
}

/// The members that wait, by merchant. A merchant is here while a batch of it is at the server.
type Gathering<A> = Mutex<HashMap<MerchantId, Vec<Member<A>>>>;

/// Gathers what is asked of the database.
pub(super) struct Combiner<A: Ask> {
    db: Arc<Database>,
    gathering: Arc<Gathering<A>>,
}

impl<A: Ask> std::fmt::Debug for Combiner<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Combiner").finish_non_exhaustive()
    }
}

impl<A: Ask> Combiner<A> {
    pub(super) fn new(db: Arc<Database>) -> Self {
        Self { db, gathering: Arc::default() }
    }

    /// Asks, together with the other calls of the same merchant that ask meanwhile. A caller that stops waiting
    /// does not stop the batch.
    pub(super) async fn ask(&self, merchant: MerchantId, ask: A) -> Reply<A> {
        let (reply, outcome) = oneshot::channel();
        let member = Member { ask, reply };
        let is_first = {
            let mut gathering = self.gathering.lock().unwrap_or_else(PoisonError::into_inner);
            let is_first = !gathering.contains_key(&merchant);
            gathering.entry(merchant).or_default().push(member);
            is_first
        };
        if is_first {
            tokio::spawn(run(Arc::clone(&self.db), Arc::clone(&self.gathering), merchant));
        }
        outcome.await.unwrap_or(Err(DbError::Panicked))
    }
}

/// Sends batches of a merchant to the server until nobody waits.
async fn run<A: Ask>(db: Arc<Database>, gathering: Arc<Gathering<A>>, merchant: MerchantId) {
    loop {
        let batch = {
            let mut gathering = gathering.lock().unwrap_or_else(PoisonError::into_inner);
            match gathering.get_mut(&merchant) {
                Some(waiting) if waiting.len() > BATCH => waiting.drain(..BATCH).collect(),
                Some(waiting) if !waiting.is_empty() => mem::take(waiting),
                _ => {
                    gathering.remove(&merchant);
                    return;
                }
            }
        };
        // If a batch panics, its members see their channels close, and their calls log it.
        let _ = AssertUnwindSafe(answer(&db, merchant, batch)).catch_unwind().await;
    }
}

async fn answer<A: Ask>(db: &Database, merchant: MerchantId, batch: Vec<Member<A>>) {
    let (asks, replies): (Vec<_>, Vec<_>) =
        batch.into_iter().map(|member| (member.ask, member.reply)).unzip();
    let outcomes = match ask_all(db, merchant, &asks).await {
        Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
        Err(error) if asks.len() == 1 => vec![Err(error)],
        Err(error @ DbError::Unavailable(_)) => asks.iter().map(|_| Err(error.again())).collect(),
        Err(_) => one_by_one(db, merchant, &asks).await,
    };
    for (reply, outcome) in replies.into_iter().zip(outcomes) {
        // A caller that ran into its deadline waits no more.
        let _ = reply.send(outcome);
    }
}

async fn ask_all<A: Ask>(
    db: &Database,
    merchant: MerchantId,
    asks: &[A],
) -> Result<Vec<A::Outcome>, DbError> {
    A::ask_all(&mut *db.acquire().await?, merchant, asks).await
}

/// One member may be the reason why the batch failed. The others must not suffer for it.
async fn one_by_one<A: Ask>(
    db: &Database,
    merchant: MerchantId,
    asks: &[A],
) -> Vec<Result<A::Outcome, DbError>> {
    let mut outcomes = Vec::with_capacity(asks.len());
    for one in asks.chunks(1) {
        let outcome = ask_all(db, merchant, one).await;
        outcomes.push(outcome.and_then(|mut only| only.pop().ok_or(DbError::Corrupt("outcome of a batch"))));
    }
    outcomes
}
