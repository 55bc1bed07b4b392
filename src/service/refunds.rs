//! Refunds: create, find, settle (contract, section 3). Refunds of one order wait for each other at the lock of its
//! row.

use time::OffsetDateTime;

use super::idempotent::Work;
use super::{WorkError, Written, emit_refund_event};
use crate::db::orders::LockedOrder;
use crate::db::{DbError, PgConnection, Tx, orders, refunds};
use crate::domain::id::{MerchantId, RefundNo, TradeNo};
use crate::domain::payment::order::{Order, OrderStatus};
use crate::domain::payment::refund::{Refund, RefundContent, RefundStatus, RefundedOrder};
use crate::domain::refusal::Refusal;
use crate::domain::webhook::event::EventType;

/// Refunds some or all of an order, or finds the refund that already has its number.
#[derive(Debug)]
pub struct CreateRefund {
    /// What the merchant asks for.
    pub content: RefundContent,
    /// What the addresses of pages start with.
    pub public_url: String,
}

impl Work for CreateRefund {
    type Object = Refund;

    async fn run(self, tx: &mut Tx<'_>, now: OffsetDateTime) -> Result<Written<Self::Object>, WorkError> {
        let Self { content, public_url } = self;
        let open = |order: &Order, content| Refund::open(order, content, now);
        let Placed { refund, new_in } = write_or_find(tx, content, open).await?;
        let Some(order) = new_in else { return Ok(Written::found(refund)) };
        if refund.status == RefundStatus::Succeeded {
            emit_refund_event(tx, EventType::RefundSucceeded, &refund, &order, &public_url, now).await?;
        }
        Ok(Written::new(refund))
    }
}

/// A refund that a number has made.
pub(super) struct Placed<'c> {
    pub(super) refund: Refund,
    /// Its order, if the refund is new; `None` if the number had made it before.
    pub(super) new_in: Option<LockedOrder<'c>>,
}

/// Writes the refund that `open` makes of its order, and counts it there; or finds the one that its number has
/// already made.
///
/// # Errors
/// A refusal where there is no such order, it is not paid or has too little left, or the number has another refund;
/// or those of the database.
pub(super) async fn write_or_find<'c>(
    tx: &mut Tx<'c>,
    content: RefundContent,
    open: impl FnOnce(&Order, RefundContent) -> Refund + Send,
) -> Result<Placed<'c>, WorkError> {
    let merchant = tx.merchant();
    if let Some(first) = refunds::by_out_refund_no(tx, merchant, &content.out_refund_no).await? {
        return same_or_conflict(first, &content);
    }
    let order = lock_order(tx, &content.order).await?;
    if !matches!(order.status, OrderStatus::Paid | OrderStatus::Refunded) {
        return Err(Refusal::OrderNotPaid.into());
    }
    let refund = open(&order, content.clone());
    if !refunds::insert(tx, &order, &refund).await? {
        // Taken meanwhile, by a refund that held the lock or by one of another order.
        let first = refunds::by_out_refund_no(tx, merchant, &content.out_refund_no).await?;
        return same_or_conflict(first.ok_or(DbError::Corrupt("refund number"))?, &content);
    }
    add_to_order(tx, &order, &refund).await?;
    Ok(Placed { refund, new_in: Some(order) })
}

/// Adds a new refund to what is refunded of its order, unless it has failed.
async fn add_to_order<'c>(
    tx: &mut Tx<'c>,
    order: &LockedOrder<'c>,
    refund: &Refund,
) -> Result<(), WorkError> {
    if refund.status != RefundStatus::Failed && !orders::add_refund(tx, order, refund.amount).await? {
        return Err(Refusal::RefundExceedsRemaining(order.refundable(), order.content.currency).into());
    }
    if refund.status == RefundStatus::Succeeded {
        orders::refund_all(tx, order).await?;
    }
    Ok(())
}

/// The order to refund, with its row locked until the end of the transaction.
async fn lock_order<'c>(tx: &mut Tx<'c>, which: &RefundedOrder) -> Result<LockedOrder<'c>, WorkError> {
    let not_found = || Refusal::OrderNotFound(which.as_str().to_owned());
    let trade_no = match which {
        RefundedOrder::TradeNo(text) => text.parse().map_err(|_| not_found())?,
        RefundedOrder::OutTradeNo(number) => {
            let merchant = tx.merchant();
            let order = orders::by_out_trade_no(tx, merchant, number).await?;
            order.ok_or_else(not_found)?.trade_no
        }
    };
    Ok(orders::lock(tx, trade_no).await?.ok_or_else(not_found)?)
}

fn same_or_conflict<'c>(first: Refund, asked: &RefundContent) -> Result<Placed<'c>, WorkError> {
    match first.differences(asked) {
        none if none.is_empty() => Ok(Placed { refund: first, new_in: None }),
        differences => Err(Refusal::OutRefundNoConflict(differences).into()),
    }
}

/// The refund with this number of either kind.
///
/// # Errors
/// [`Refusal::RefundNotFound`], or those of the database.
pub async fn find(conn: &mut PgConnection, merchant: MerchantId, no: &str) -> Result<Refund, WorkError> {
    let refund = refunds::by_any_no(conn, merchant, no).await?;
    refund.ok_or_else(|| Refusal::RefundNotFound(no.to_owned()).into())
}

/// Settles those of these refunds, each with its order, that are still pending, and emits their events.
///
/// # Errors
/// Those of the database, or a refund whose order is missing.
pub(super) async fn settle(
    tx: &mut Tx<'_>,
    due: &[(RefundNo, TradeNo)],
    public_url: &str,
) -> Result<(), DbError> {
    let trade_nos: Vec<_> = due.iter().map(|(_, trade_no)| *trade_no).collect();
    let orders = orders::lock_all(tx, &trade_nos).await?;
    for (refund_no, _) in due {
        let settled = refunds::settle(tx, &orders, *refund_no, &Refund::failure_of_settlement()).await?;
        if let Some((refund, order)) = settled {
            emit_settled(tx, &refund, order, public_url).await?;
        }
    }
    Ok(())
}

async fn emit_settled<'c>(
    tx: &mut Tx<'c>,
    refund: &Refund,
    order: &LockedOrder<'c>,
    public_url: &str,
) -> Result<(), DbError> {
    let event_type = if refund.status == RefundStatus::Failed {
        orders::take_back_refund(tx, order, refund.amount).await?;
        EventType::RefundFailed
    } else {
        orders::refund_all(tx, order).await?;
        EventType::RefundSucceeded
    };
    let at = refund.settlement.map_or(refund.created_at, |settlement| settlement.at);
    emit_refund_event(tx, event_type, refund, order, public_url, at).await
}
