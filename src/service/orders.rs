//! Orders: create, close, find, list, expire (contract, section 2).

use time::OffsetDateTime;

use super::idempotent::Work;
use super::{Gateway, WorkError, Written, tell_order};
use crate::db::idempotency_keys::Completion;
use crate::db::{Connection, DbError, PgConnection, orders};
use crate::domain::event::EventType;
use crate::domain::id::MerchantId;
use crate::domain::order::{Order, OrderContent, OrderStatus};
use crate::domain::refusal::Refusal;

/// How many orders one transaction of the expiry closes.
const EXPIRY_BATCH: i64 = 100;

/// Creates an order, or finds the one that its number has already made.
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

    async fn write_at_once(
        conn: &mut PgConnection,
        draft: &Order,
        completion: &Completion<'_>,
    ) -> Result<bool, DbError> {
        orders::insert_completing(conn, draft, completion).await
    }

    async fn run(
        self,
        tx: &mut PgConnection,
        now: OffsetDateTime,
    ) -> Result<Written<Self::Object>, WorkError> {
        let order = Order::open(self.merchant, self.content, now);
        if orders::insert(tx, &order).await? {
            return Ok(Written::new(order));
        }
        let asked = order.content;
        let first = orders::by_out_trade_no(tx, self.merchant, &asked.out_trade_no)
            .await?
            .ok_or(DbError::Corrupt("order number"))?;
        match first.content.differences(&asked) {
            none if none.is_empty() => Ok(Written::found(first)),
            differences => Err(Refusal::OutTradeNoConflict(differences).into()),
        }
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

    const TELLS: bool = true;

    async fn run(
        self,
        tx: &mut PgConnection,
        now: OffsetDateTime,
    ) -> Result<Written<Self::Object>, WorkError> {
        let order = find(tx, self.merchant, &self.no).await?;
        if let Some(closed) = orders::close(tx, self.merchant, order.trade_no, now).await? {
            tell_order(tx, EventType::OrderClosed, &closed, &self.public_url, now).await?;
            return Ok(Written::found(closed));
        }
        // Not pending any more, perhaps only since a moment ago: what it is now decides.
        let order = find(tx, self.merchant, &self.no).await?;
        match order.status {
            OrderStatus::Paid | OrderStatus::Refunded => Err(Refusal::OrderAlreadyPaid.into()),
            OrderStatus::Closed | OrderStatus::Pending => Ok(Written::found(order)),
        }
    }
}

/// The order that a number means.
///
/// # Errors
/// [`Refusal::OrderNotFound`], or those of the database.
pub async fn find(conn: &mut PgConnection, merchant: MerchantId, no: &str) -> Result<Order, WorkError> {
    let order = orders::by_any_no(conn, merchant, no).await?;
    order.ok_or_else(|| Refusal::OrderNotFound(no.to_owned()).into())
}

/// Closes the orders whose time is over, and tells it. Returns how many; fewer than a batch means that
/// nothing else is due.
///
/// # Errors
/// Those of the database.
pub async fn expire_due(gateway: &Gateway) -> Result<bool, DbError> {
    let mut conn = gateway.db.acquire().await?;
    let mut tx = conn.begin().await?;
    let closed = orders::expire(&mut tx, EXPIRY_BATCH).await?;
    for order in &closed {
        tell_order(&mut tx, EventType::OrderClosed, order, &gateway.public_url, order.expires_at).await?;
    }
    tx.commit().await?;
    if !closed.is_empty() {
        gateway.wake_delivery();
    }
    Ok(i64::try_from(closed.len()) == Ok(EXPIRY_BATCH))
}
