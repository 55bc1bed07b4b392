//! `shared_key`: one key used for different numbers or endpoints. The second write is refused, or, worse,
//! answered with the first one's response.

use std::collections::{HashMap, HashSet};

use super::finding::{Evidence, Finding, MAX_TEXTS, Rule};
use super::history::{Attempt, History};
use super::key_use::{KeyUse, key_uses};

pub(super) fn findings(history: &History<'_>) -> Vec<Finding> {
    key_uses(history).iter().filter_map(finding).collect()
}

fn finding(key_use: &KeyUse<'_, '_>) -> Option<Finding> {
    let writes = different_writes(key_use);
    if writes.len() < 2 {
        return None;
    }
    let names: Vec<_> = writes.iter().take(MAX_TEXTS).map(|write| write.name()).collect();
    let message = format!(
        "The Idempotency-Key {} was used for {} different writes: {}.",
        key_use.key,
        writes.len(),
        names.join(", then ")
    );
    let evidence = Evidence { idempotency_keys: vec![key_use.key.to_owned()], ..Evidence::default() };
    let finding = Finding::new(Rule::SharedKey, message, evidence);
    Some(finding.shown_by(writes.iter().map(|write| write.call)))
}

/// The first attempt of each write under the key. An attempt without a number may belong to any write on its path.
fn different_writes<'h, 'a>(key_use: &KeyUse<'h, 'a>) -> Vec<&'h Attempt<'a>> {
    let mut numbers: HashMap<&str, HashSet<&str>> = HashMap::new();
    let is_new = |attempt: &&&'h Attempt<'a>| {
        let is_first = !numbers.contains_key(attempt.call.bare_path());
        let known = numbers.entry(attempt.call.bare_path()).or_default();
        let is_first_number = known.is_empty();
        let is_new_number = attempt.number.as_deref().is_some_and(|number| known.insert(number));
        is_first || is_new_number && !is_first_number
    };
    key_use.attempts.iter().filter(is_new).copied().collect()
}

/// Whether two attempts may belong to one write: the same endpoint, and not two different numbers.
pub(super) fn is_same_write(one: &Attempt<'_>, other: &Attempt<'_>) -> bool {
    let numbers = (&one.number, &other.number);
    one.call.bare_path() == other.call.bare_path()
        && !matches!(numbers, (Some(one), Some(other)) if one != other)
}
