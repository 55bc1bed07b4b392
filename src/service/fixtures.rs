//! Loads fixtures: all of them, or none (contract, section 7). What is loaded has not happened, so it
//! writes no events.

use serde::Serialize;
use time::OffsetDateTime;

use super::refunds::lock_order;
use super::{Gateway, WorkError, faults};
use crate::db::{Connection, DbError, PgConnection, merchants, orders, refunds};
use crate::domain::fields::FieldError;
use crate::domain::fixtures::{self, FixtureOrder, FixtureRefund, Fixtures, OrderState};
use crate::domain::id::MerchantId;
use crate::domain::order::{Failure, Order, OrderStatus};
use crate::domain::refund::{Refund, RefundContent, RefundStatus};
use crate::domain::refusal::Refusal;

/// How much was loaded. What was there already, with the same content, is not counted.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Loaded {
    /// Orders.
    pub orders: u64,
    /// Refunds.
    pub refunds: u64,
    /// Merchants whose webhook settings were given.
    pub webhook: u64,
    /// Fault rules.
    pub faults: u64,
}

/// Fixtures that were not loaded, and so nothing else was.
#[derive(Debug)]
pub struct NotLoaded {
    /// Which, of those that were to be loaded together.
    pub index: usize,
    /// A refusal that names the place by its JSON pointer, or an error of the database.
    pub error: WorkError,
}

/// Loads fixtures, each into its merchant. A number that has the same content already is left as it is,
/// so that loading twice changes nothing.
///
/// # Errors
/// See [`NotLoaded`].
pub async fn load(gateway: &Gateway, all: Vec<(MerchantId, Fixtures)>) -> Result<Loaded, NotLoaded> {
    let failed = |error: DbError| NotLoaded { index: 0, error: error.into() };
    let mut conn = gateway.db.acquire().await.map_err(failed)?;
    let mut tx = conn.begin().await.map_err(|error| failed(error.into()))?;
    let mut loaded = Loaded::default();
    for (index, (merchant, fixtures)) in all.into_iter().enumerate() {
        let into = load_into(&mut tx, merchant, fixtures, &mut loaded).await;
        into.map_err(|error| NotLoaded { index, error })?;
    }
    tx.commit().await.map_err(|error| failed(error.into()))?;
    drop(conn);
    if loaded.faults > 0 {
        faults::until_they_hold().await;
    }
    Ok(loaded)
}

async fn load_into(
    tx: &mut PgConnection,
    merchant: MerchantId,
    fixtures: Fixtures,
    loaded: &mut Loaded,
) -> Result<(), WorkError> {
    let now = merchants::open(tx, merchant).await?;
    for (index, order) in fixtures.orders.into_iter().enumerate() {
        let made = load_order(tx, merchant, order, now).await;
        loaded.orders += u64::from(placed(made, "orders", index)?);
    }
    for (index, refund) in fixtures.refunds.into_iter().enumerate() {
        let made = load_refund(tx, merchant, refund, now).await;
        loaded.refunds += u64::from(placed(made, "refunds", index)?);
    }
    if let Some(change) = &fixtures.webhook {
        merchants::set_webhook(tx, merchant, change).await?;
        loaded.webhook += 1;
    }
    for (index, rule) in fixtures.faults.into_iter().enumerate() {
        let made = faults::insert_unless_there(tx, merchant, rule).await;
        loaded.faults += u64::from(placed(made, "faults", index)?);
    }
    Ok(())
}

/// Names the place of a refusal.
fn placed<T>(result: Result<T, WorkError>, list: &str, index: usize) -> Result<T, WorkError> {
    result.map_err(|error| match error {
        WorkError::Refused(refusal) => {
            let place = format!("/{list}/{index}");
            let mut errors = refusal.errors();
            if errors.is_empty() {
                let (code, message) = (refusal.code().to_owned(), refusal.message());
                let param = if list == "faults" { "kind" } else { "out_trade_no" };
                errors.push(FieldError { param: param.to_owned(), code, message });
            }
            Refusal::Fields(errors.into_iter().map(|error| fixtures::at(&place, error)).collect()).into()
        }
        failed @ WorkError::Failed(_) => failed,
    })
}

/// Returns whether the order is new.
async fn load_order(
    tx: &mut PgConnection,
    merchant: MerchantId,
    fixture: FixtureOrder,
    now: OffsetDateTime,
) -> Result<bool, WorkError> {
    let created_at = fixture.created(now);
    let order = Order::open(merchant, fixture.content, created_at);
    if !orders::insert(tx, &order).await? {
        let asked = order.content;
        let first = orders::by_out_trade_no(tx, merchant, &asked.out_trade_no).await?;
        let differences = first.ok_or(DbError::Corrupt("order number"))?.content.differences(&asked);
        let same = differences.is_empty();
        return if same { Ok(false) } else { Err(Refusal::OutTradeNoConflict(differences).into()) };
    }
    let reached = match fixture.state {
        OrderState::Pending(None) => return Ok(true),
        OrderState::Pending(Some(decline)) => {
            orders::fail_payment(tx, merchant, order.trade_no, &Failure::from(decline)).await?
        }
        OrderState::Paid(card, at) => {
            orders::pay(tx, merchant, order.trade_no, &card.kept(), at.unwrap_or(created_at)).await?
        }
        OrderState::Closed(at) => {
            orders::close(tx, merchant, order.trade_no, at.unwrap_or(created_at)).await?
        }
    };
    Ok(reached.map(|_| true).ok_or(DbError::Corrupt("order status"))?)
}

/// Returns whether the refund is new.
async fn load_refund(
    tx: &mut PgConnection,
    merchant: MerchantId,
    fixture: FixtureRefund,
    now: OffsetDateTime,
) -> Result<bool, WorkError> {
    let FixtureRefund { content, status, created_at } = fixture;
    if let Some(first) = refunds::by_out_refund_no(tx, merchant, &content.out_refund_no).await? {
        same_refund(&first, &content)?;
        return Ok(false);
    }
    let order = lock_order(tx, merchant, &content.order).await?;
    if !matches!(order.status, OrderStatus::Paid | OrderStatus::Refunded) {
        return Err(Refusal::OrderNotPaid.into());
    }
    let refund = Refund::in_status(&order, content.clone(), status, created_at.unwrap_or(now));
    if !refunds::insert(tx, &refund).await? {
        // Taken since we looked, by a call that came meanwhile.
        let first = refunds::by_out_refund_no(tx, merchant, &content.out_refund_no).await?;
        same_refund(&first.ok_or(DbError::Corrupt("refund number"))?, &content)?;
        return Ok(false);
    }
    if status != RefundStatus::Failed
        && !orders::add_refund(tx, merchant, order.trade_no, refund.amount).await?
    {
        return Err(Refusal::RefundExceedsRemaining(order.refundable(), order.content.currency).into());
    }
    orders::refund_all(tx, merchant, order.trade_no).await?;
    Ok(true)
}

fn same_refund(first: &Refund, asked: &RefundContent) -> Result<(), Refusal> {
    let differences = first.differences(asked);
    if differences.is_empty() { Ok(()) } else { Err(Refusal::OutRefundNoConflict(differences)) }
}
