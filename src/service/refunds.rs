//! Refunds: create, find, settle (contract, section 3). Any number of refunds of one order line up at the
//! lock of its row.

use time::OffsetDateTime;

use super::idempotent::Work;
use super::{Gateway, WorkError, Written, tell_refund};
use crate::db::{Connection, DbError, PgConnection, orders, refunds};
use crate::domain::event::EventType;
use crate::domain::id::MerchantId;
use crate::domain::order::{Order, OrderStatus};
use crate::domain::refund::{Refund, RefundContent, RefundStatus, RefundedOrder};
use crate::domain::refusal::Refusal;

/// How many refunds one transaction settles.
const SETTLEMENT_BATCH: i64 = 100;

/// Refunds some or all of an order, or finds the refund that its number has already made.
#[derive(Debug)]
pub struct CreateRefund {
    /// Whose refund it is.
    pub merchant: MerchantId,
    /// What the merchant asks for.
    pub content: RefundContent,
    /// What the addresses of pages start with.
    pub public_url: String,
}

impl Work for CreateRefund {
    type Object = Refund;

    const TELLS: bool = true;

    async fn run(
        self,
        tx: &mut PgConnection,
        now: OffsetDateTime,
    ) -> Result<Written<Self::Object>, WorkError> {
        let Self { merchant, content, public_url } = self;
        if let Some(first) = refunds::by_out_refund_no(tx, merchant, &content.out_refund_no).await? {
            return same_or_conflict(first, &content);
        }
        let order = lock_order(tx, merchant, &content.order).await?;
        if !matches!(order.status, OrderStatus::Paid | OrderStatus::Refunded) {
            return Err(Refusal::OrderNotPaid.into());
        }
        let refund = Refund::open(&order, content.clone(), now);
        if !refunds::insert(tx, &refund).await? {
            // Taken since we looked, by somebody who held the lock or by a refund of another order.
            let first = refunds::by_out_refund_no(tx, merchant, &content.out_refund_no).await?;
            return same_or_conflict(first.ok_or(DbError::Corrupt("refund number"))?, &content);
        }
        if !orders::add_refund(tx, merchant, order.trade_no, content.amount).await? {
            return Err(Refusal::RefundExceedsRemaining(order.refundable(), order.content.currency).into());
        }
        if refund.status == RefundStatus::Succeeded {
            orders::refund_all(tx, merchant, order.trade_no).await?;
            tell_refund(tx, EventType::RefundSucceeded, &refund, &order, &public_url, now).await?;
        }
        Ok(Written::new(refund))
    }
}

/// The order that is to be refunded, its row locked until the end of the transaction.
pub(super) async fn lock_order(
    tx: &mut PgConnection,
    merchant: MerchantId,
    which: &RefundedOrder,
) -> Result<Order, WorkError> {
    let not_found = || Refusal::OrderNotFound(which.as_str().to_owned());
    let trade_no = match which {
        RefundedOrder::TradeNo(text) => text.parse().map_err(|_| not_found())?,
        RefundedOrder::OutTradeNo(number) => {
            orders::by_out_trade_no(tx, merchant, number).await?.ok_or_else(not_found)?.trade_no
        }
    };
    Ok(orders::lock(tx, merchant, trade_no).await?.ok_or_else(not_found)?)
}

fn same_or_conflict(first: Refund, asked: &RefundContent) -> Result<Written<Refund>, WorkError> {
    match first.differences(asked) {
        none if none.is_empty() => Ok(Written::found(first)),
        differences => Err(Refusal::OutRefundNoConflict(differences).into()),
    }
}

/// The refund that a number means.
///
/// # Errors
/// [`Refusal::RefundNotFound`], or those of the database.
pub async fn find(conn: &mut PgConnection, merchant: MerchantId, no: &str) -> Result<Refund, WorkError> {
    let refund = refunds::by_any_no(conn, merchant, no).await?;
    refund.ok_or_else(|| Refusal::RefundNotFound(no.to_owned()).into())
}

/// Ends the pending refunds whose time has come, and tells it. Returns whether more may be due.
///
/// # Errors
/// Those of the database.
pub async fn settle_due(gateway: &Gateway) -> Result<bool, DbError> {
    let mut conn = gateway.db.acquire().await?;
    let mut tx = conn.begin().await?;
    let mut settled = refunds::settle(&mut tx, SETTLEMENT_BATCH, &Refund::failure_of_settlement()).await?;
    // Two instances that lock the rows of orders in the same order do not wait for each other in a circle.
    settled.sort_by_key(|refund| (refund.merchant.uuid(), refund.trade_no));
    for refund in &settled {
        tell_settled(&mut tx, refund, &gateway.public_url).await?;
    }
    tx.commit().await?;
    if !settled.is_empty() {
        gateway.wake_delivery();
    }
    Ok(i64::try_from(settled.len()) == Ok(SETTLEMENT_BATCH))
}

async fn tell_settled(tx: &mut PgConnection, refund: &Refund, public_url: &str) -> Result<(), DbError> {
    let (merchant, trade_no) = (refund.merchant, refund.trade_no);
    let event_type = if refund.status == RefundStatus::Failed {
        orders::take_back_refund(tx, merchant, trade_no, refund.amount).await?;
        EventType::RefundFailed
    } else {
        orders::refund_all(tx, merchant, trade_no).await?;
        EventType::RefundSucceeded
    };
    let order = orders::lock(tx, merchant, trade_no).await?.ok_or(DbError::Corrupt("order"))?;
    let at = refund.settlement.map_or(refund.created_at, |settlement| settlement.at);
    tell_refund(tx, event_type, refund, &order, public_url, at).await
}
