//! `missing_key`: a write without Idempotency-Key. Its retry cannot be told from a second operation. The number
//! protects only creating.

use super::finding::{Evidence, Finding, Rule, times};
use super::history::{History, Operation};

pub(super) fn findings(history: &History<'_>) -> Vec<Finding> {
    history.operations.iter().filter_map(finding).collect()
}

fn finding(operation: &Operation<'_>) -> Option<Finding> {
    // A malformed key is refused and cannot be read.
    let without = operation.attempts.iter().filter(|it| it.key().is_none() && !it.outcome.is_malformed_key());
    let without: Vec<_> = without.map(|attempt| attempt.call).collect();
    if without.is_empty() {
        return None;
    }
    let message = format!("{} was sent {} without Idempotency-Key.", operation.name(), times(without.len()));
    Some(Finding::new(Rule::MissingKey, message, Evidence::of_operation(operation)).shown_by(without))
}
