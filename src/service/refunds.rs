//! Refunds: create and find (contract, section 3). Any number of refunds of one order line up at the
//! lock of its row.

use time::OffsetDateTime;

use super::idempotent::Work;
use super::{WorkError, Written, tell_refund};
use crate::db::{DbError, PgConnection, orders, refunds};
use crate::domain::event::EventType;
use crate::domain::id::MerchantId;
use crate::domain::order::{Order, OrderStatus};
use crate::domain::refund::{Refund, RefundContent, RefundedOrder};
use crate::domain::refusal::Refusal;

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
        let refund = Refund::succeeded(&order, content.clone(), now);
        if !refunds::insert(tx, &refund).await? {
            // Taken since we looked, by somebody who held the lock or by a refund of another order.
            let first = refunds::by_out_refund_no(tx, merchant, &content.out_refund_no).await?;
            return same_or_conflict(first.ok_or(DbError::Corrupt("refund number"))?, &content);
        }
        if !orders::add_refund(tx, merchant, order.trade_no, content.amount).await? {
            return Err(Refusal::RefundExceedsRemaining(order.refundable(), order.content.currency).into());
        }
        tell_refund(tx, EventType::RefundSucceeded, &refund, &order, &public_url, now).await?;
        Ok(Written::new(refund))
    }
}

async fn lock_order(
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
