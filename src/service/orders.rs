//! Orders: create, close, find, list, expire (contract, section 2).

use time::OffsetDateTime;

use super::combine::Ask;
use super::idempotent::{NoReply, Work};
use super::{Gateway, WorkError, Written, emit_order_event};
use crate::db::idempotency_keys::Completion;
use crate::db::new_orders::CompletedOrder;
use crate::db::{DbError, PgConnection, Tx, new_orders, orders};
use crate::domain::id::{MerchantId, TradeNo};
use crate::domain::payment::order::{Order, OrderContent, OrderStatus};
use crate::domain::refusal::Refusal;
use crate::domain::webhook::event::EventType;

/// Creates an order, or finds the one that already has its number.
#[derive(Debug)]
pub struct CreateOrder {
    /// Whose order it is.
    pub merchant: MerchantId,
    /// What the merchant asks for.
    pub content: OrderContent,
}

impl Work for CreateOrder {
    type Object = Order;

    fn draft(&self, now: OffsetDateTime) -> Option<Order> {
        Some(Order::open(self.merchant, self.content.clone(), now))
    }

    async fn write_at_once(gateway: &Gateway, order: Order, completion: Completion) -> Result<bool, NoReply> {
        Ok(gateway.new_orders.ask(order.merchant, CompletedOrder { order, completion }).await?)
    }

    async fn run(self, tx: &mut Tx<'_>, now: OffsetDateTime) -> Result<Written<Self::Object>, WorkError> {
        write_or_find(tx, Order::open(self.merchant, self.content, now)).await
    }
}

/// Writes a new order, or finds the one that its number has already made.
///
/// # Errors
/// [`Refusal::OutTradeNoConflict`] where that one has other content, or those of the database.
pub(super) async fn write_or_find(tx: &mut Tx<'_>, order: Order) -> Result<Written<Order>, WorkError> {
    if new_orders::insert(tx, &order).await? {
        return Ok(Written::new(order));
    }
    let asked = order.content;
    let first = orders::by_out_trade_no(tx, order.merchant, &asked.out_trade_no).await?;
    let first = first.ok_or(DbError::Corrupt("order number"))?;
    match first.content.differences(&asked) {
        none if none.is_empty() => Ok(Written::found(first)),
        differences => Err(Refusal::OutTradeNoConflict(differences).into()),
    }
}

/// Many orders are written at once.
impl Ask for CompletedOrder {
    /// Whether it was written.
    type Outcome = bool;

    async fn ask_all(
        conn: &mut PgConnection,
        merchant: MerchantId,
        batch: &[Self],
    ) -> Result<Vec<bool>, DbError> {
        new_orders::insert_completing(conn, merchant, batch).await
    }
}

/// Closes a pending order.
#[derive(Debug)]
pub struct CloseOrder {
    /// Whose order it is.
    pub merchant: MerchantId,
    /// Either of its numbers.
    pub no: String,
    /// What the checkout page's address starts with.
    pub public_url: String,
}

impl Work for CloseOrder {
    type Object = Order;

    async fn run(self, tx: &mut Tx<'_>, now: OffsetDateTime) -> Result<Written<Self::Object>, WorkError> {
        let order = find(tx, self.merchant, &self.no).await?;
        if let Some(closed) = orders::close(tx, order.trade_no, now).await? {
            emit_order_event(tx, EventType::OrderClosed, &closed, &self.public_url, now).await?;
            return Ok(Written::found(closed.into_order()));
        }
        // It is not pending any more, perhaps since a moment ago: its present state decides.
        let order = find(tx, self.merchant, &self.no).await?;
        match order.status {
            OrderStatus::Paid | OrderStatus::Refunded => Err(Refusal::OrderAlreadyPaid.into()),
            OrderStatus::Closed | OrderStatus::Pending => Ok(Written::found(order)),
        }
    }
}

/// The order with this number of either kind.
///
/// # Errors
/// [`Refusal::OrderNotFound`], or those of the database.
pub async fn find(conn: &mut PgConnection, merchant: MerchantId, no: &str) -> Result<Order, WorkError> {
    let order = orders::by_any_no(conn, merchant, no).await?;
    order.ok_or_else(|| Refusal::OrderNotFound(no.to_owned()).into())
}

/// A look-up by a number of either kind.
#[derive(Debug)]
pub(super) struct LookUp(String);

/// Many orders are looked up at once.
impl Ask for LookUp {
    type Outcome = Option<Order>;

    async fn ask_all(
        conn: &mut PgConnection,
        merchant: MerchantId,
        batch: &[Self],
    ) -> Result<Vec<Option<Order>>, DbError> {
        let nos: Vec<_> = batch.iter().map(|LookUp(no)| no.as_str()).collect();
        orders::by_any_nos(conn, merchant, &nos).await
    }
}

/// The order with this number of either kind, outside a transaction.
///
/// # Errors
/// [`Refusal::OrderNotFound`], or those of the database.
pub async fn look_up(gateway: &Gateway, merchant: MerchantId, no: String) -> Result<Order, WorkError> {
    let order = gateway.look_ups.ask(merchant, LookUp(no.clone())).await?;
    order.ok_or_else(|| Refusal::OrderNotFound(no).into())
}

/// Closes those of these orders that have expired and are still pending, and emits their events.
pub(super) async fn expire(tx: &mut Tx<'_>, due: &[TradeNo], public_url: &str) -> Result<(), DbError> {
    for order in orders::expire(tx, due).await? {
        emit_order_event(tx, EventType::OrderClosed, &order, public_url, order.expires_at).await?;
    }
    Ok(())
}
