//! Due work by the merchants' clocks: closing expired orders, settling refunds, deleting expired keys, and going on
//! with emptying a merchant after an interruption.
//!
//! One query finds the merchants that have work due. Everything else happens within one merchant, in its own
//! transactions, so that a merchant's backlog, lock or bad row costs no other merchant time.

use std::future::Future;

use time::Duration;
use uuid::Uuid;

use super::{Gateway, orders, refunds, reset};
use crate::db::merchants::{self, Alone};
use crate::db::{DbError, Tx, idempotency_keys, orders as order_table, refunds as refund_table, stuck};
use crate::domain::code::Code;
use crate::domain::id::{MerchantId, RefundNo, TradeNo};
use crate::domain::idempotency::KEPT_HOURS;
use crate::domain::stuck::StuckKind;

/// How many merchants with due events are found at once.
const MERCHANTS: i64 = 64;
/// How many orders or refunds one transaction handles, and how many keys one statement deletes.
const BATCH: i64 = 100;
const KEYS: i64 = 500;
/// How many batches of one merchant are done before another merchant has its turn.
const TURN: usize = 4;
/// For how long a merchant is reserved for this instance. A turn takes less; a merchant whose turn has failed waits
/// this long.
const LEASE: Duration = Duration::seconds(10);
/// After what pause a merchant is looked at again if due work could not be done yet, such as a key whose holder still
/// runs.
const PAUSE: Duration = Duration::milliseconds(250);

/// Does all due work.
///
/// # Errors
/// Those of the database if it is away.
pub async fn run_once(gateway: &Gateway) -> Result<(), DbError> {
    loop {
        let due = merchants::due(&mut *gateway.db.acquire().await?, MERCHANTS).await?;
        if due.is_empty() {
            return Ok(());
        }
        for merchant in due {
            match take_turn(gateway, merchant).await {
                Ok(()) => {}
                Err(error @ DbError::Unavailable(_)) if !error.is_lock_timeout() => return Err(error),
                Err(error) => tracing::warn!(%error, "what is due of a merchant waits"),
            }
        }
    }
}

async fn take_turn(gateway: &Gateway, merchant: MerchantId) -> Result<(), DbError> {
    if !merchants::lease(&mut *gateway.db.acquire().await?, merchant, LEASE).await? {
        return Ok(());
    }
    for _ in 0..TURN {
        if !work_off_some(gateway, merchant).await? {
            return raise(gateway, merchant).await;
        }
    }
    merchants::requeue(&mut *gateway.db.acquire().await?, merchant).await
}

/// Does all due work of a merchant, even if a worker does so, too.
pub async fn catch_up(gateway: &Gateway, merchant: MerchantId) -> Result<(), DbError> {
    while work_off_some(gateway, merchant).await? {}
    raise(gateway, merchant).await
}

async fn raise(gateway: &Gateway, merchant: MerchantId) -> Result<(), DbError> {
    let mut conn = gateway.db.acquire().await?;
    let mut alone = Alone::begin(&mut conn, merchant).await?;
    alone.raise_due(KEPT_HOURS, PAUSE).await?;
    alone.commit().await
}

/// Does a batch of each kind. Returns whether anything was done, so that more may be due.
async fn work_off_some(gateway: &Gateway, merchant: MerchantId) -> Result<bool, DbError> {
    let mut conn = gateway.db.acquire().await?;
    let now = match merchants::now(&mut conn, merchant).await? {
        Some((false, now)) => now,
        Some((true, _)) => {
            drop(conn);
            return reset::go_on(gateway, merchant).await.map(|()| true);
        }
        None => return Ok(false),
    };
    let due_orders = order_table::due(&mut conn, merchant, now, BATCH).await?;
    let due_refunds = refund_table::due(&mut conn, merchant, now, BATCH).await?;
    let swept = idempotency_keys::sweep(&mut conn, merchant, KEPT_HOURS, KEYS).await?;
    drop(conn);
    let some = !due_orders.is_empty() || !due_refunds.is_empty();
    work_off(gateway, merchant, &due_orders).await?;
    work_off(gateway, merchant, &due_refunds).await?;
    Ok(some || swept > 0)
}

/// A kind of work that comes due, and how it is done.
trait Due: Sync + Sized {
    const KIND: StuckKind;

    fn id(&self) -> Uuid;

    /// Does those that are still due.
    fn work_off(
        tx: &mut Tx<'_>,
        due: &[Self],
        public_url: &str,
    ) -> impl Future<Output = Result<(), DbError>> + Send;
}

/// An order that has expired.
impl Due for TradeNo {
    const KIND: StuckKind = StuckKind::Order;

    fn id(&self) -> Uuid {
        self.uuid()
    }

    async fn work_off(tx: &mut Tx<'_>, due: &[Self], public_url: &str) -> Result<(), DbError> {
        orders::expire(tx, due, public_url).await
    }
}

/// A refund that settles, and its order.
impl Due for (RefundNo, TradeNo) {
    const KIND: StuckKind = StuckKind::Refund;

    fn id(&self) -> Uuid {
        self.0.uuid()
    }

    async fn work_off(tx: &mut Tx<'_>, due: &[Self], public_url: &str) -> Result<(), DbError> {
        refunds::settle(tx, due, public_url).await
    }
}

/// Does items in one transaction; if that fails, each in its own transaction. An item that fails alone is set
/// aside, so that it stops nothing else.
async fn work_off<D: Due>(gateway: &Gateway, merchant: MerchantId, due: &[D]) -> Result<(), DbError> {
    if due.is_empty() || try_to_work_off(gateway, merchant, due).await?.is_ok() {
        return Ok(());
    }
    for one in due.chunks(1) {
        if let Err(cause) = try_to_work_off(gateway, merchant, one).await? {
            set_aside(gateway, merchant, D::KIND, one[0].id(), &cause).await?;
        }
    }
    Ok(())
}

/// The inner error is about the items, the outer one about the database.
async fn try_to_work_off<D: Due>(
    gateway: &Gateway,
    merchant: MerchantId,
    due: &[D],
) -> Result<Result<(), DbError>, DbError> {
    let mut conn = gateway.db.acquire().await?;
    let mut tx = Tx::begin_impatient(&mut conn, merchant).await?;
    match D::work_off(&mut tx, due, &gateway.public_url).await {
        Ok(()) => gateway.commit(tx).await.map(Ok),
        Err(passing @ (DbError::Unavailable(_) | DbError::Emptying)) => Err(passing),
        Err(cause) => {
            tx.rollback().await?;
            Ok(Err(cause))
        }
    }
}

/// Sets failed work aside, and logs that once.
pub(super) async fn set_aside(
    gateway: &Gateway,
    merchant: MerchantId,
    kind: StuckKind,
    id: Uuid,
    cause: &DbError,
) -> Result<(), DbError> {
    let mut conn = gateway.db.acquire().await?;
    let mut tx = Tx::begin_impatient(&mut conn, merchant).await?;
    if stuck::insert(&mut tx, kind, id, &cause.to_string()).await? {
        tracing::error!(kind = kind.code(), %id, %cause, "set aside: it cannot be worked off");
    }
    gateway.commit(tx).await
}
