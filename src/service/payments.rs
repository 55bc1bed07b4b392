//! Payments: what happens when a buyer enters a card, on the checkout page or through the API
//! (contract, section 5).

use time::OffsetDateTime;

use super::orders::find;
use super::{Gateway, WorkError, tell_order};
use crate::db::{Connection, DbError, PgConnection, merchants, orders};
use crate::domain::card::{CardOutcome, Decline, TestCard};
use crate::domain::event::EventType;
use crate::domain::id::MerchantId;
use crate::domain::order::{Order, OrderStatus};
use crate::domain::refusal::Refusal;

/// What the buyer did when asked to authenticate (3-D Secure).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    /// Authorised the payment.
    Authorised,
    /// Failed to.
    Failed,
}

impl Authentication {
    /// What a name on the wire means.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        match code {
            "authorised" => Some(Self::Authorised),
            "failed" => Some(Self::Failed),
            _ => None,
        }
    }
}

/// Attempts to pay an order, and tells what came of it. The order comes back paid, or still pending with
/// its `failure` set: then the buyer may try again. `authentication` is looked at only where the card
/// asks for it.
///
/// # Errors
/// A refusal where the order is not to be paid or authentication is missing, or those of the database.
pub async fn pay(
    gateway: &Gateway,
    merchant: MerchantId,
    no: &str,
    card: &TestCard,
    authentication: Option<Authentication>,
) -> Result<Order, WorkError> {
    let mut conn = gateway.db.acquire().await?;
    let now = merchants::open(&mut conn, merchant).await?;
    let order = find(&mut conn, merchant, no).await?;
    let mut tx = conn.begin().await.map_err(DbError::from)?;
    // Under the lock: of two attempts at once, the second sees what the first has done.
    let order = orders::lock(&mut tx, merchant, order.trade_no).await?.ok_or(DbError::Corrupt("order"))?;
    if let Some(refusal) = why_not_payable(&order, now) {
        return Err(refusal.into());
    }
    let attempted = match outcome(card, authentication)? {
        Ok(()) => succeed(&mut tx, &order, card, &gateway.public_url, now).await?,
        Err(decline) => fail(&mut tx, &order, decline, &gateway.public_url, now).await?,
    };
    tx.commit().await.map_err(DbError::from)?;
    gateway.wake_delivery();
    Ok(attempted)
}

fn why_not_payable(order: &Order, now: OffsetDateTime) -> Option<Refusal> {
    match order.status {
        OrderStatus::Paid | OrderStatus::Refunded => Some(Refusal::OrderAlreadyPaid),
        OrderStatus::Closed => Some(Refusal::OrderClosed),
        // It has expired, and is about to be closed.
        OrderStatus::Pending if order.expires_at <= now => Some(Refusal::OrderClosed),
        OrderStatus::Pending => None,
    }
}

fn outcome(card: &TestCard, authentication: Option<Authentication>) -> Result<Result<(), Decline>, Refusal> {
    Ok(match (card.outcome, authentication) {
        (CardOutcome::Paid, _) | (CardOutcome::Authentication, Some(Authentication::Authorised)) => Ok(()),
        (CardOutcome::Declined(decline), _) => Err(decline),
        (CardOutcome::Authentication, Some(Authentication::Failed)) => Err(Decline::AuthenticationFailed),
        (CardOutcome::Authentication, None) => return Err(Refusal::AuthenticationRequired),
    })
}

async fn succeed(
    tx: &mut PgConnection,
    order: &Order,
    card: &TestCard,
    public_url: &str,
    now: OffsetDateTime,
) -> Result<Order, DbError> {
    let paid = orders::pay(tx, order.merchant, order.trade_no, &card.kept(), now).await?;
    let paid = paid.ok_or(DbError::Corrupt("order status"))?;
    tell_order(tx, EventType::PaymentSucceeded, &paid, public_url, now).await?;
    Ok(paid)
}

async fn fail(
    tx: &mut PgConnection,
    order: &Order,
    decline: Decline,
    public_url: &str,
    now: OffsetDateTime,
) -> Result<Order, DbError> {
    let failed = orders::fail_payment(tx, order.merchant, order.trade_no, &decline.into()).await?;
    let failed = failed.ok_or(DbError::Corrupt("order status"))?;
    tell_order(tx, EventType::PaymentFailed, &failed, public_url, now).await?;
    Ok(failed)
}
