//! Payments: what happens when a buyer enters a card, on the checkout page or through the API
//! (contract, section 5).

use strum::{EnumString, IntoStaticStr, VariantArray};
use time::OffsetDateTime;

use super::orders::find;
use super::{Gateway, WorkError, emit_order_event};
use crate::db::{DbError, Tx, orders};
use crate::domain::id::MerchantId;
use crate::domain::payment::card::{CardOutcome, Decline, TestCard};
use crate::domain::payment::checkout::CheckoutState;
use crate::domain::payment::order::Order;
use crate::domain::refusal::Refusal;
use crate::domain::webhook::event::EventType;

/// What the buyer did when asked to authenticate (3-D Secure).
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Authentication {
    /// Authorised the payment.
    Authorised,
    /// Did not authorise it.
    Failed,
}

/// Attempts to pay an order, and returns it: paid, or still pending with its `failure` set; then the buyer may try
/// again. `authentication` counts only if the card asks for it.
///
/// # Errors
/// A refusal if the order cannot be paid or authentication is missing, or those of the database.
pub async fn pay(
    gateway: &Gateway,
    merchant: MerchantId,
    no: &str,
    card: &TestCard,
    authentication: Option<Authentication>,
) -> Result<Order, WorkError> {
    let mut conn = gateway.db.acquire().await?;
    let mut tx = Tx::begin(&mut conn, merchant).await?;
    let now = tx.now();
    let order = find(&mut tx, merchant, no).await?;
    // Under the lock: of two attempts at once, the second sees the outcome of the first.
    let order = orders::lock(&mut tx, order.trade_no).await?.ok_or(DbError::Corrupt("order"))?;
    if let Some(refusal) = CheckoutState::of(&order, now).why_not_payable() {
        return Err(refusal.into());
    }
    let attempted = match outcome(card, authentication)? {
        Ok(()) => succeed(&mut tx, &order, card, &gateway.public_url, now).await?,
        Err(decline) => fail(&mut tx, &order, decline, &gateway.public_url, now).await?,
    };
    gateway.commit(tx).await?;
    Ok(attempted)
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
    tx: &mut Tx<'_>,
    order: &Order,
    card: &TestCard,
    public_url: &str,
    now: OffsetDateTime,
) -> Result<Order, DbError> {
    let paid = orders::pay(tx, order.trade_no, &card.kept(), now).await?;
    let paid = paid.ok_or(DbError::Corrupt("order status"))?;
    emit_order_event(tx, EventType::PaymentSucceeded, &paid, public_url, now).await?;
    Ok(paid.into_order())
}

async fn fail(
    tx: &mut Tx<'_>,
    order: &Order,
    decline: Decline,
    public_url: &str,
    now: OffsetDateTime,
) -> Result<Order, DbError> {
    let failed = orders::fail_payment(tx, order.trade_no, &decline.into()).await?;
    let failed = failed.ok_or(DbError::Corrupt("order status"))?;
    emit_order_event(tx, EventType::PaymentFailed, &failed, public_url, now).await?;
    Ok(failed.into_order())
}
