//! The use cases: what a call does to the database, in which transactions. No HTTP here: a handler says
//! how an outcome is rendered, since the rendered response is stored in the transaction of the work.

pub mod audit;
pub mod checkout;
pub mod clock;
pub mod delivery;
pub mod events;
pub mod faults;
pub mod fixtures;
pub mod idempotent;
pub mod journal;
mod key_claim;
pub mod orders;
pub mod payments;
pub mod refunds;
pub mod reset;
pub mod webhooks;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Mutex, Notify};
use tokio_util::task::TaskTracker;

use crate::db::{Database, DbError, PgConnection, events as outbox};
use crate::domain::event::{Event, EventType};
use crate::domain::id::MerchantId;
use crate::domain::order::Order;
use crate::domain::refund::Refund;
use crate::domain::refusal::Refusal;
use crate::domain::view::View;
use crate::domain::web_url::NotifyPolicy;
use faults::WithoutRules;
use journal::Journal;

/// The gateway: what every use case needs.
#[derive(Debug)]
pub struct Gateway {
    /// The database.
    pub db: Database,
    /// What `checkout_url` starts with, without a slash at its end.
    pub public_url: String,
    /// Where webhooks may go.
    pub notify_policy: NotifyPolicy,
    /// The merchants that are let in; `None` lets in every well-formed key.
    pub merchants: Option<HashSet<MerchantId>>,
    /// The work that goes on when its client hangs up; a graceful stop waits for it.
    pub running: TaskTracker,
    /// What the clients do.
    pub journal: Journal,
    without_rules: WithoutRules,
    /// Rung when events may have come due, so that the delivery looks at once.
    pub delivery_bell: Notify,
    catching_up: Mutex<()>,
    ready: AtomicBool,
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
        Self {
            db,
            public_url,
            notify_policy,
            merchants,
            running: TaskTracker::new(),
            journal,
            without_rules: WithoutRules::default(),
            delivery_bell: Notify::new(),
            catching_up: Mutex::new(()),
            ready: AtomicBool::new(false),
        }
    }

    /// Tells the delivery that events have come due. To be called after the commit.
    pub fn wake_delivery(&self) {
        self.delivery_bell.notify_one();
    }

    /// Whether the tables are up to date, so that calls can be served.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Lets calls in.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }
}

/// Why a piece of work came to no result.
#[derive(Debug)]
pub enum WorkError {
    /// The gateway says no. That is an outcome: it is stored under the key, and nothing else is kept.
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
    /// Whether this write made it; false where its number had made it before.
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

/// Writes the event that tells a change of an order.
async fn tell_order(
    tx: &mut PgConnection,
    event_type: EventType,
    order: &Order,
    public_url: &str,
    now: time::OffsetDateTime,
) -> Result<(), DbError> {
    let notify_url = order.content.notify_url.as_deref();
    let of = (order.merchant, order.trade_no);
    let event = Event::new(event_type, of, notify_url, &order.view(public_url), now);
    outbox::insert(tx, &event.map_err(|_| DbError::Corrupt("order"))?).await
}

/// Writes the event that tells a change of a refund. Without a URL of its own, a refund is told where
/// its order is.
async fn tell_refund(
    tx: &mut PgConnection,
    event_type: EventType,
    refund: &Refund,
    order: &Order,
    public_url: &str,
    now: time::OffsetDateTime,
) -> Result<(), DbError> {
    let notify_url = refund.notify_url.as_deref().or(order.content.notify_url.as_deref());
    let of = (refund.merchant, refund.trade_no);
    let event = Event::new(event_type, of, notify_url, &refund.view(public_url), now);
    outbox::insert(tx, &event.map_err(|_| DbError::Corrupt("refund"))?).await
}
