//! Faults: making rules, and finding the one that strikes a call or a delivery (contract, section 7).

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{Gateway, WorkError};
use crate::db::{DbError, PgConnection, faults, merchants};
use crate::domain::fault::{CallFault, DeliveryFault, Fault};
use crate::domain::fault_rule::{FaultRule, RuleContent};
use crate::domain::id::{FaultId, MerchantId};
use crate::domain::occasion::Occasion;
use crate::domain::refusal::Refusal;

/// How many rules a merchant may have: all that may still strike are looked at for each call.
const MAX_RULES: i64 = 100;

/// How many of those that may strike no more are forgotten at once, when there is no room for a new one.
const FORGOTTEN: i64 = 10;

/// How long a merchant that was found to have no rules is not asked about again: the look-up would cost
/// each call a round trip. A new rule is answered only when this time is over, so that by then it holds on
/// every instance.
const NO_RULES_FOR: Duration = Duration::from_millis(100);

/// How many merchants are remembered to have no rules.
const REMEMBERED: usize = 10_000;

/// The merchants that were found to have no rules, and when.
#[derive(Debug, Default)]
pub struct WithoutRules(Mutex<HashMap<MerchantId, Instant>>);

impl WithoutRules {
    fn has(&self, merchant: MerchantId) -> bool {
        let Ok(found) = self.0.lock() else { return false };
        found.get(&merchant).is_some_and(|at| at.elapsed() < NO_RULES_FOR)
    }

    fn note(&self, merchant: MerchantId, asked_at: Instant) {
        let Ok(mut found) = self.0.lock() else { return };
        if found.len() >= REMEMBERED {
            found.retain(|_, at| at.elapsed() < NO_RULES_FOR);
        }
        if found.len() < REMEMBERED {
            found.insert(merchant, asked_at);
        }
    }
}

/// Makes a rule, which holds on every instance when this returns.
///
/// # Errors
/// A refusal where there are too many, or those of the database.
pub async fn create(
    gateway: &Gateway,
    merchant: MerchantId,
    content: RuleContent,
) -> Result<FaultRule, WorkError> {
    let mut conn = gateway.db.acquire().await?;
    let rule = insert(&mut conn, merchant, content).await?;
    drop(conn);
    until_they_hold().await;
    Ok(rule)
}

/// Writes a rule, unless the merchant has one that is the same, whatever it has struck. Returns whether it is
/// new; then it holds after the transaction, and [`until_they_hold`].
///
/// # Errors
/// A refusal where there are too many, or those of the database.
pub(super) async fn insert_unless_there(
    conn: &mut PgConnection,
    merchant: MerchantId,
    content: RuleContent,
) -> Result<bool, WorkError> {
    let rules = faults::list(conn, merchant, None, MAX_RULES).await?;
    if rules.iter().any(|rule| rule.content == content) {
        return Ok(false);
    }
    insert(conn, merchant, content).await?;
    Ok(true)
}

/// Returns when rules that are committed hold on every instance.
pub(super) async fn until_they_hold() {
    tokio::time::sleep(NO_RULES_FOR).await;
}

async fn insert(
    conn: &mut PgConnection,
    merchant: MerchantId,
    content: RuleContent,
) -> Result<FaultRule, WorkError> {
    let created_at = merchants::open(conn, merchant).await?;
    let rule = FaultRule { fault_id: FaultId::generate(), content, fired: 0, created_at };
    if faults::insert(conn, merchant, &rule, MAX_RULES).await? {
        return Ok(rule);
    }
    faults::forget(conn, merchant, FORGOTTEN).await?;
    let has_room = faults::insert(conn, merchant, &rule, MAX_RULES).await?;
    if has_room { Ok(rule) } else { Err(Refusal::TooManyFaults(MAX_RULES).into()) }
}

/// The fault that strikes a call, if one does.
///
/// # Errors
/// Those of the database.
pub async fn strike_call(
    gateway: &Gateway,
    merchant: MerchantId,
    occasion: &Occasion,
) -> Result<Option<CallFault>, DbError> {
    strike(gateway, merchant, occasion, |fault| match fault {
        Fault::Call(fault) => Some(fault),
        Fault::Delivery(_) => None,
    })
    .await
}

/// The fault that strikes a delivery, if one does; `may_delay` says whether it can be one that holds back.
///
/// # Errors
/// Those of the database.
pub async fn strike_delivery(
    gateway: &Gateway,
    merchant: MerchantId,
    occasion: &Occasion,
    may_delay: bool,
) -> Result<Option<DeliveryFault>, DbError> {
    strike(gateway, merchant, occasion, |fault| match fault {
        Fault::Delivery(DeliveryFault::Delay(_)) if !may_delay => None,
        Fault::Delivery(fault) => Some(fault),
        Fault::Call(_) => None,
    })
    .await
}

async fn strike<F>(
    gateway: &Gateway,
    merchant: MerchantId,
    occasion: &Occasion,
    of_this_kind: impl Fn(Fault) -> Option<F>,
) -> Result<Option<F>, DbError> {
    if gateway.without_rules.has(merchant) {
        return Ok(None);
    }
    let asked_at = Instant::now();
    let mut conn = gateway.db.acquire().await?;
    let rules = faults::live(&mut conn, merchant).await?;
    if rules.is_empty() {
        gateway.without_rules.note(merchant, asked_at);
    }
    for rule in rules {
        let Some(fault) = of_this_kind(rule.content.fault) else { continue };
        if rule.content.matcher.matches(occasion) && fires(&mut conn, merchant, &rule).await? {
            return Ok(Some(fault));
        }
    }
    Ok(None)
}

async fn fires(conn: &mut PgConnection, merchant: MerchantId, rule: &FaultRule) -> Result<bool, DbError> {
    if rule.content.probability.is_some() {
        let drawn = faults::draw(conn, merchant, rule.fault_id).await?;
        if !drawn.is_some_and(|n| rule.content.strikes(n)) {
            return Ok(false);
        }
    }
    faults::fire(conn, merchant, rule.fault_id).await
}

/// A rule by its id.
///
/// # Errors
/// [`Refusal::FaultNotFound`], or those of the database.
pub async fn find(conn: &mut PgConnection, merchant: MerchantId, id: &str) -> Result<FaultRule, WorkError> {
    let not_found = || Refusal::FaultNotFound(id.to_owned());
    let fault_id = id.parse().map_err(|_| not_found())?;
    Ok(faults::find(conn, merchant, fault_id).await?.ok_or_else(not_found)?)
}

/// Deletes a rule, and returns it as it was.
///
/// # Errors
/// [`Refusal::FaultNotFound`], or those of the database.
pub async fn delete(conn: &mut PgConnection, merchant: MerchantId, id: &str) -> Result<FaultRule, WorkError> {
    let rule = find(conn, merchant, id).await?;
    faults::delete(conn, merchant, Some(rule.fault_id)).await?;
    Ok(rule)
}
