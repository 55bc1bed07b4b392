//! Faults: making rules, and finding the one that strikes a call or a delivery (contract, section 7).

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{Gateway, WorkError};
use crate::db::{DbError, PgConnection, Tx, faults, merchants};
use crate::domain::fault::Fault;
use crate::domain::fault::call::CallFault;
use crate::domain::fault::delivery::DeliveryFault;
use crate::domain::fault::occasion::Occasion;
use crate::domain::fault::rule::{FaultRule, RuleContent};
use crate::domain::id::{FaultId, MerchantId};
use crate::domain::refusal::Refusal;

/// How many rules a merchant may have. Each call is matched against all that may still strike.
const MAX_RULES: i64 = 100;

/// How many rules that may strike no more are deleted at once to make space for a new one.
const FORGOTTEN: i64 = 10;

/// How long an instance remembers that a merchant has no rules, because a look-up would cost each call a round
/// trip. The answer to a new rule waits this long, so that the rule then holds on every instance.
const NO_RULES_FOR: Duration = Duration::from_millis(100);

/// How many merchants without rules are remembered.
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

/// Creates a rule. When this returns, it holds on every instance.
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

/// Returns when the committed rules hold on every instance.
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
    let has_capacity = faults::insert(conn, merchant, &rule, MAX_RULES).await?;
    if has_capacity { Ok(rule) } else { Err(Refusal::TooManyFaults(MAX_RULES).into()) }
}

/// The fault that strikes a call, if one does.
pub async fn strike_call(
    gateway: &Gateway,
    merchant: MerchantId,
    occasion: &Occasion,
) -> Result<Option<CallFault>, DbError> {
    if gateway.without_rules.has(merchant) {
        return Ok(None);
    }
    let mut conn = gateway.db.acquire().await?;
    let rules = live(gateway, &mut conn, merchant).await?;
    strike(&mut conn, merchant, &rules, occasion, |fault| match fault {
        Fault::Call(fault) => Some(fault),
        Fault::Delivery(_) => None,
    })
    .await
}

/// The rules about deliveries that may still strike, the oldest first. They are locked until the struck deliveries
/// are committed.
pub(super) async fn lock_for_deliveries(
    gateway: &Gateway,
    tx: &mut Tx<'_>,
) -> Result<Vec<FaultRule>, DbError> {
    let merchant = tx.merchant();
    if gateway.without_rules.has(merchant) {
        return Ok(Vec::new());
    }
    let mut rules = live(gateway, tx, merchant).await?;
    rules.retain(|rule| matches!(rule.content.fault, Fault::Delivery(_)));
    if !rules.is_empty() {
        faults::lock(tx, &rules).await?;
    }
    Ok(rules)
}

/// The fault that strikes a delivery by these rules, if one does. `may_delay` says whether it may postpone. It has
/// struck if the transaction commits.
pub(super) async fn strike_delivery(
    tx: &mut Tx<'_>,
    rules: &[FaultRule],
    occasion: &Occasion,
    may_delay: bool,
) -> Result<Option<DeliveryFault>, DbError> {
    let merchant = tx.merchant();
    strike(tx, merchant, rules, occasion, |fault| match fault {
        Fault::Delivery(fault) if fault.effect().postponed.is_some() && !may_delay => None,
        Fault::Delivery(fault) => Some(fault),
        Fault::Call(_) => None,
    })
    .await
}

async fn live(
    gateway: &Gateway,
    conn: &mut PgConnection,
    merchant: MerchantId,
) -> Result<Vec<FaultRule>, DbError> {
    let asked_at = Instant::now();
    let rules = faults::live(conn, merchant).await?;
    if rules.is_empty() {
        gateway.without_rules.note(merchant, asked_at);
    }
    Ok(rules)
}

async fn strike<F>(
    conn: &mut PgConnection,
    merchant: MerchantId,
    rules: &[FaultRule],
    occasion: &Occasion,
    of_this_kind: impl Fn(Fault) -> Option<F>,
) -> Result<Option<F>, DbError> {
    for rule in rules {
        let Some(fault) = of_this_kind(rule.content.fault) else { continue };
        if rule.content.matcher.matches(occasion) && fires(conn, merchant, rule).await? {
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
