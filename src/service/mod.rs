//! The use cases: what a call does in the database, in which transactions. No HTTP here: a handler passes in how an
//! outcome is rendered, because the rendered response is stored in the transaction of the work.

pub mod activity;
pub mod audit;
pub mod checkout;
pub mod clock;
mod combine;
pub mod delivery;
pub mod due;
pub mod events;
pub mod faults;
pub mod fixtures;
pub mod health;
pub mod idempotent;
pub mod journal;
mod key_claim;
pub mod orders;
pub mod payments;
pub mod refunds;
pub mod reset;
pub mod webhooks;

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::db::deliveries::EndedAttempts;
use crate::db::idempotency_keys::ClaimRequest;
use crate::db::new_orders::CompletedOrder;
use crate::db::orders::LockedOrder;
use crate::db::{Committed, Database, DbError, Tx, events as outbox};
use crate::domain::id::MerchantId;
use crate::domain::payment::refund::Refund;
use crate::domain::refusal::Refusal;
use crate::domain::time::real_time;
use crate::domain::view::View;
use crate::domain::webhook::event::{Event, EventType};
use crate::domain::webhook::web_url::NotifyPolicy;
use activity::Activity;
use combine::Combiner;
use faults::WithoutRules;
use health::Health;
use journal::Journal;
use orders::LookUp;

/// The gateway: what every use case needs.
#[derive(Debug)]
pub struct Gateway {
    /// The database.
    pub db: Arc<Database>,
    claims: Combiner<ClaimRequest>,
    new_orders: Combiner<CompletedOrder>,
    look_ups: Combiner<LookUp>,
    ended_attempts: Combiner<Arc<EndedAttempts>>,
    /// What `checkout_url` starts with, without a slash at its end.
    pub public_url: String,
    /// Where webhooks may go.
    pub notify_policy: NotifyPolicy,
    /// The merchants that are let in; `None` lets in every well-formed key.
    merchants: Option<HashSet<MerchantId>>,
    /// The work that goes on when its client hangs up; a graceful stop waits for it.
    pub running: TaskTracker,
    /// The journal of the clients' calls.
    pub journal: Journal,
    /// When merchants have called.
    pub activity: Activity,
    without_rules: WithoutRules,
    /// Rung when events may have come due, so that the delivery looks for them at once.
    pub delivery_bell: Notify,
    /// Whether the sandbox is ready.
    pub health: Health,
}

impl Gateway {
    /// A gateway that is not ready yet.
    #[must_use]
    pub fn new(
        db: Database,
        public_url: String,
        notify_policy: NotifyPolicy,
        merchants: Option<HashSet<MerchantId>>,
        journal: Journal,
    ) -> Self {
        let db = Arc::new(db);
        Self {
            claims: Combiner::new(Arc::clone(&db)),
            new_orders: Combiner::new(Arc::clone(&db)),
            look_ups: Combiner::new(Arc::clone(&db)),
            ended_attempts: Combiner::new(Arc::clone(&db)),
            db,
            public_url,
            notify_policy,
            merchants,
            running: TaskTracker::new(),
            journal,
            activity: Activity::default(),
            without_rules: WithoutRules::default(),
            delivery_bell: Notify::new(),
            health: Health::default(),
        }
    }

    /// Whether a merchant may call, and its buyers may pay.
    #[must_use]
    pub fn lets_in(&self, merchant: MerchantId) -> bool {
        self.merchants.as_ref().is_none_or(|merchants| merchants.contains(&merchant))
    }

    /// Follows the database's clock.
    pub async fn follow_time(&self) -> Result<(), DbError> {
        // The quickest answer tells the most.
        for _ in 0..3 {
            let [asked, database, answered] = self.db.time().await?;
            real_time::follow(asked, database, answered);
        }
        Ok(())
    }

    /// Commits a transaction, and wakes the delivery if events have come due by it.
    async fn commit(&self, tx: Tx<'_>) -> Result<(), DbError> {
        self.after(tx.commit().await?);
        Ok(())
    }

    /// Does what a transaction has left to do for others.
    fn after(&self, committed: Committed) {
        if committed.events_due {
            self.wake_delivery();
        }
    }

    /// Wakes the delivery. By hand only where no transaction knows that events have come due: the clock was moved.
    fn wake_delivery(&self) {
        self.delivery_bell.notify_one();
    }
}

/// Why a use case has no result.
#[derive(Debug)]
pub enum WorkError {
    /// The gateway refuses. A refusal is an outcome: it is stored under the key, and nothing else is kept.
    Refused(Refusal),
    /// The outcome is unknown; nothing is kept.
    Failed(DbError),
}

impl From<DbError> for WorkError {
    fn from(error: DbError) -> Self {
        Self::Failed(error)
    }
}

impl From<Refusal> for WorkError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The order or refund that a write made or found.
#[derive(Debug)]
pub struct Written<T> {
    /// The object, as it is after the write.
    pub object: T,
    /// Whether this write created it; false if an earlier write with its number had.
    pub created: bool,
}

impl<T> Written<T> {
    const fn new(object: T) -> Self {
        Self { object, created: true }
    }

    const fn found(object: T) -> Self {
        Self { object, created: false }
    }
}

/// Emits the event about a change of an order.
async fn emit_order_event<'c>(
    tx: &mut Tx<'c>,
    event_type: EventType,
    order: &LockedOrder<'c>,
    public_url: &str,
    now: time::OffsetDateTime,
) -> Result<(), DbError> {
    let notify_url = order.content.notify_url.as_deref();
    let event = Event::new(event_type, order.merchant, notify_url, &order.view(public_url), now);
    outbox::insert(tx, Some(order), &event.map_err(|_| DbError::Corrupt("order"))?).await
}

/// Emits the event about a change of a refund. Without its own URL, it goes to the URL of its order.
async fn emit_refund_event<'c>(
    tx: &mut Tx<'c>,
    event_type: EventType,
    refund: &Refund,
    order: &LockedOrder<'c>,
    public_url: &str,
    now: time::OffsetDateTime,
) -> Result<(), DbError> {
    let notify_url = refund.notify_url.as_deref().or(order.content.notify_url.as_deref());
    let event = Event::new(event_type, refund.merchant, notify_url, &refund.view(public_url), now);
    outbox::insert(tx, Some(order), &event.map_err(|_| DbError::Corrupt("refund"))?).await
}
