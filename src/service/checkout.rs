//! The checkout page's use cases: opening an order by its token, and paying it (contract, section 5).

use std::sync::Arc;

use time::OffsetDateTime;
use tracing::Instrument;

use super::payments::{self, Authentication};
use super::{Gateway, WorkError};
use crate::db::{DbError, merchants, orders};
use crate::domain::card::TestCard;
use crate::domain::checkout::CheckoutState;
use crate::domain::checkout_token::CheckoutToken;
use crate::domain::order::Order;

/// An order on its checkout page.
#[derive(Debug)]
pub struct Checkout {
    /// The order.
    pub order: Order,
    /// The merchant's time.
    pub now: OffsetDateTime,
    /// Whether that time stands still.
    pub frozen: bool,
}

impl Checkout {
    /// Where the order stands for its buyer.
    #[must_use]
    pub fn state(&self) -> CheckoutState {
        CheckoutState::of(&self.order, self.now)
    }
}

/// The order that a token opens; `None` for a token of no order, of a merchant that is not let in, or
/// with another secret, which cannot be told apart.
///
/// # Errors
/// Those of the database.
pub async fn open(gateway: &Gateway, token: &CheckoutToken) -> Result<Option<Checkout>, DbError> {
    if gateway.merchants.as_ref().is_some_and(|merchants| !merchants.contains(&token.merchant)) {
        return Ok(None);
    }
    let mut conn = gateway.db.acquire().await?;
    let order = orders::by_trade_no(&mut conn, token.merchant, token.trade_no).await?;
    let Some(order) = order.filter(|order| token.opens(order)) else { return Ok(None) };
    let (clock, real) = merchants::clock(&mut conn, token.merchant).await?;
    Ok(Some(Checkout { order, now: clock.now(real), frozen: clock.frozen_at.is_some() }))
}

/// Attempts to pay an order as [`payments::pay`] does, in a task of its own: a buyer who closes the page
/// does not leave the attempt half done. `None` where the task panicked.
pub async fn pay(
    gateway: Arc<Gateway>,
    order: &Order,
    card: &'static TestCard,
    authentication: Option<Authentication>,
) -> Option<Result<Order, WorkError>> {
    let (merchant, no) = (order.merchant, order.trade_no.to_string());
    let running = gateway.running.clone();
    let attempt = async move { payments::pay(&gateway, merchant, &no, card, authentication).await };
    running.spawn(attempt.in_current_span()).await.ok()
}
