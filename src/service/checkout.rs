//! The checkout page's use cases: opening an order by its token, and paying it (contract, section 5).

use std::sync::Arc;

use time::OffsetDateTime;
use tracing::Instrument;

use super::payments::{self, Authentication};
use super::{Gateway, WorkError};
use crate::db::{DbError, merchants, orders};
use crate::domain::payment::card::TestCard;
use crate::domain::payment::checkout::CheckoutState;
use crate::domain::payment::checkout_token::CheckoutToken;
use crate::domain::payment::order::Order;

/// An order on its checkout page.
#[derive(Debug)]
pub struct Checkout {
    /// The order.
    pub order: Order,
    /// The merchant's time.
    pub now: OffsetDateTime,
    /// Whether the merchant's clock is frozen.
    pub frozen: bool,
}

impl Checkout {
    /// Where the order stands for its buyer.
    #[must_use]
    pub fn state(&self) -> CheckoutState {
        CheckoutState::of(&self.order, self.now)
    }
}

/// The order that a token opens. `None` if the order does not exist, its merchant is not let in, or the secret is
/// wrong: the caller cannot tell which.
pub async fn open(gateway: &Gateway, token: &CheckoutToken) -> Result<Option<Checkout>, DbError> {
    if !gateway.lets_in(token.merchant) {
        return Ok(None);
    }
    gateway.activity.note(token.merchant);
    let mut conn = gateway.db.acquire().await?;
    let order = orders::by_trade_no(&mut conn, token.merchant, token.trade_no).await?;
    let Some(order) = order.filter(|order| token.opens(order)) else { return Ok(None) };
    let (clock, real) = merchants::clock(&mut conn, token.merchant).await?;
    Ok(Some(Checkout { order, now: clock.now(real), frozen: clock.frozen_at.is_some() }))
}

/// Attempts to pay an order like [`payments::pay`], in its own task, so that a buyer who closes the page does not
/// leave the attempt half done. `None` if the task panicked.
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
