//! Loads fixtures: all of them, or none (contract, section 7). Loading emits no events, because nothing happened.

use serde::Serialize;
use time::OffsetDateTime;

use super::orders::write_or_find;
use super::refunds;
use super::{Gateway, WorkError, faults};
use crate::db::{DbError, Tx, merchants, orders};
use crate::domain::fixtures::{self, FixtureOrder, FixtureRefund, Fixtures, OrderState};
use crate::domain::id::MerchantId;
use crate::domain::json::fields::FieldError;
use crate::domain::payment::order::{Failure, Order};
use crate::domain::payment::refund::Refund;
use crate::domain::refusal::Refusal;

/// How much was loaded. Objects that were already there with the same content are not counted.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Loaded {
    /// Orders.
    pub orders: u64,
    /// Refunds.
    pub refunds: u64,
    /// Merchants whose webhook settings were given.
    pub webhook: u64,
    /// Fault rules.
    pub faults: u64,
}

/// The fixtures that could not be loaded. Then nothing was loaded.
#[derive(Debug)]
pub struct NotLoaded {
    /// Their index among those that were to be loaded together.
    pub index: usize,
    /// A refusal that names the place by its JSON pointer, or an error of the database.
    pub error: WorkError,
}

/// Loads fixtures, each into its merchant. An object that is already there with the same content stays as it is, so
/// that loading twice changes nothing.
///
/// # Errors
/// See [`NotLoaded`].
pub async fn load(gateway: &Gateway, all: Vec<(MerchantId, Fixtures)>) -> Result<Loaded, NotLoaded> {
    let failed = |error: DbError| NotLoaded { index: 0, error: error.into() };
    let mut conn = gateway.db.acquire().await.map_err(failed)?;
    let mut loaded = Loaded::default();
    let Some((first, _)) = all.first() else { return Ok(loaded) };
    let mut tx = Tx::begin(&mut conn, *first).await.map_err(failed)?;
    for (index, (merchant, fixtures)) in all.into_iter().enumerate() {
        let into = load_into(&mut tx, merchant, fixtures, &mut loaded).await;
        into.map_err(|error| NotLoaded { index, error })?;
    }
    gateway.commit(tx).await.map_err(failed)?;
    drop(conn);
    if loaded.faults > 0 {
        faults::until_they_hold().await;
    }
    Ok(loaded)
}

async fn load_into(
    tx: &mut Tx<'_>,
    merchant: MerchantId,
    fixtures: Fixtures,
    loaded: &mut Loaded,
) -> Result<(), WorkError> {
    tx.turn_to(merchant).await?;
    let now = tx.now();
    for (index, order) in fixtures.orders.into_iter().enumerate() {
        let made = load_order(tx, merchant, order, now).await;
        loaded.orders += u64::from(placed(made, "orders", index)?);
    }
    for (index, refund) in fixtures.refunds.into_iter().enumerate() {
        let made = load_refund(tx, refund, now).await;
        loaded.refunds += u64::from(placed(made, "refunds", index)?);
    }
    if let Some(change) = &fixtures.webhook {
        merchants::set_webhook(tx, merchant, change).await?;
        loaded.webhook += 1;
    }
    for (index, rule) in fixtures.faults.into_iter().enumerate() {
        let made = faults::insert_unless_there(tx, merchant, rule).await;
        loaded.faults += u64::from(placed(made, "faults", index)?);
    }
    Ok(())
}

/// Names the place of a refusal.
fn placed<T>(result: Result<T, WorkError>, list: &str, index: usize) -> Result<T, WorkError> {
    result.map_err(|error| match error {
        WorkError::Refused(refusal) => {
            let place = format!("/{list}/{index}");
            let mut errors = refusal.errors();
            if errors.is_empty() {
                let (code, message) = (refusal.code().to_owned(), refusal.message());
                let param = if list == "faults" { "kind" } else { "out_trade_no" };
                errors.push(FieldError { param: param.to_owned(), code, message });
            }
            Refusal::Fields(errors.into_iter().map(|error| fixtures::at(&place, error)).collect()).into()
        }
        failed @ WorkError::Failed(_) => failed,
    })
}

/// Returns whether the order is new.
async fn load_order(
    tx: &mut Tx<'_>,
    merchant: MerchantId,
    fixture: FixtureOrder,
    now: OffsetDateTime,
) -> Result<bool, WorkError> {
    let created_at = fixture.created(now);
    let written = write_or_find(tx, Order::open(merchant, fixture.content, created_at)).await?;
    if !written.created {
        return Ok(false);
    }
    let trade_no = written.object.trade_no;
    let reached = match fixture.state {
        OrderState::Pending(None) => return Ok(true),
        OrderState::Pending(Some(decline)) => {
            orders::fail_payment(tx, trade_no, &Failure::from(decline)).await?
        }
        OrderState::Paid(card, at) => {
            orders::pay(tx, trade_no, &card.kept(), at.unwrap_or(created_at)).await?
        }
        OrderState::Closed(at) => orders::close(tx, trade_no, at.unwrap_or(created_at)).await?,
    };
    Ok(reached.map(|_| true).ok_or(DbError::Corrupt("order status"))?)
}

/// Returns whether the refund is new.
async fn load_refund(
    tx: &mut Tx<'_>,
    fixture: FixtureRefund,
    now: OffsetDateTime,
) -> Result<bool, WorkError> {
    let FixtureRefund { content, status, created_at } = fixture;
    let at = created_at.unwrap_or(now);
    let open = |order: &Order, content| Refund::in_status(order, content, status, at);
    let placed = refunds::write_or_find(tx, content, open).await?;
    Ok(placed.new_in.is_some())
}
