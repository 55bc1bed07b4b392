//! `new_key_per_retry`: one number sent again to the same endpoint under another key. The unique number may prevent a
//! second order, but the client does not get the first answer.
//!
//! There is no finding if the other key begins something new: the earlier key has expired, the earlier attempt was
//! refused for good (`retried_final_error` judges what follows), or a look-up said that it had not happened.
//! `missing_key` judges attempts without a key.

use std::collections::HashMap;

use super::finding::{Evidence, Finding, Rule, some};
use super::history::{Attempt, History, Operation};

pub(super) fn findings(history: &History<'_>) -> Vec<Finding> {
    history.whole_operations().filter_map(|operation| finding(history, operation)).collect()
}

fn finding(history: &History<'_>, operation: &Operation<'_>) -> Option<Finding> {
    let shown = new_keys(history, operation);
    if shown.is_empty() {
        return None;
    }
    let keys = some(shown.iter().filter_map(|attempt| attempt.key()));
    let message = format!(
        "{} was sent again under another Idempotency-Key: {}.",
        operation.name(),
        keys.join(", then ")
    );
    let evidence = Evidence { idempotency_keys: keys, ..Evidence::of_operation(operation) };
    let finding = Finding::new(Rule::NewKeyPerRetry, message, evidence);
    Some(finding.shown_by(shown.iter().map(|attempt| attempt.call)))
}

/// The attempts that were sent under a new key, after the attempt that the first of them repeats.
fn new_keys<'a, 'h>(history: &History<'a>, operation: &'h Operation<'a>) -> Vec<&'h Attempt<'a>> {
    // The first use of each key, as long as it has not expired.
    let mut firsts: HashMap<&str, &Attempt<'_>> = HashMap::new();
    let mut previous: Option<(&str, &Attempt<'_>)> = None;
    let mut shown = Vec::new();
    for attempt in &operation.attempts {
        let Some(key) = attempt.key() else { continue };
        let known = firsts.get(key).is_some_and(|first| !first.key_expired_by(attempt));
        if let (false, Some((its_key, repeated))) = (known, previous) {
            let expired = firsts.get(its_key).is_some_and(|first| first.key_expired_by(attempt));
            if !expired && !is_settled(history, operation, repeated, attempt) {
                shown.extend(shown.is_empty().then_some(repeated));
                shown.push(attempt);
            }
        }
        if !known {
            firsts.insert(key, attempt);
        }
        previous = Some((key, attempt));
    }
    shown
}

/// Whether the client knew, when it sent the next attempt, that the previous one had not happened.
fn is_settled(
    history: &History<'_>,
    operation: &Operation<'_>,
    previous: &Attempt<'_>,
    next: &Attempt<'_>,
) -> bool {
    let between = (previous.call.received_at, next.call.received_at);
    previous.outcome.is_refused() && previous.ended_before(next)
        || history.look_ups.not_found_between(between, operation)
}
