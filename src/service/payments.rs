//! Payments: what happens when a buyer enters a card (contract, section 5).

use super::orders::find;
use super::{Gateway, WorkError, tell_order};
use crate::db::{Connection, DbError, PgConnection, merchants, orders as table};
use crate::domain::card::Card;
use crate::domain::event::EventType;
use crate::domain::id::MerchantId;
use crate::domain::order::{Order, OrderStatus};
use crate::domain::refusal::Refusal;

/// Pays an order, and tells it.
///
/// # Errors
/// A refusal where the order is not to be paid, or those of the database.
pub async fn pay(gateway: &Gateway, merchant: MerchantId, no: &str, card: &Card) -> Result<Order, WorkError> {
    let mut conn = gateway.db.acquire().await?;
    let now = merchants::open(&mut conn, merchant).await?;
    let order = find(&mut conn, merchant, no).await?;
    let mut tx = conn.begin().await.map_err(DbError::from)?;
    let Some(paid) = table::pay(&mut tx, merchant, order.trade_no, card, now).await? else {
        tx.rollback().await.map_err(DbError::from)?;
        return Err(why_not_payable(&mut conn, merchant, no).await?.into());
    };
    tell_order(&mut tx, EventType::PaymentSucceeded, &paid, &gateway.public_url, now).await?;
    tx.commit().await.map_err(DbError::from)?;
    Ok(paid)
}

async fn why_not_payable(
    conn: &mut PgConnection,
    merchant: MerchantId,
    no: &str,
) -> Result<Refusal, WorkError> {
    Ok(match find(conn, merchant, no).await?.status {
        OrderStatus::Paid | OrderStatus::Refunded => Refusal::OrderAlreadyPaid,
        // A pending order that could not be paid has expired, and is about to be closed.
        OrderStatus::Closed | OrderStatus::Pending => Refusal::OrderClosed,
    })
}
