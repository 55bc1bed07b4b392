//! The audit: is this client safe to retry? It judges what a client did, as the journal remembers it, by
//! the rules of the contract's section 8. Pure functions over calls and events; reading them is left to
//! the service.
//!
//! A finding blames the client for its own mistake, never for a fault that struck it. If the journal leaves room for
//! doubt, there is no finding. One file per rule:
//!
//! - `missing_key`, `new_key_per_retry`, `shared_key`: the key, once per operation
//! - `body_changed`: the same bytes on every attempt
//! - `no_backoff`, `retried_final_error`: when to send again, and when not to
//! - `gave_up`: an unknown outcome is found out
//! - `unacknowledged_webhook`: events are acknowledged

mod body_changed;
mod call;
mod finding;
mod gave_up;
mod history;
mod key_use;
mod look_up;
mod missing_key;
mod names;
mod new_key_per_retry;
mod no_backoff;
mod outcome;
mod reach;
mod retried_final_error;
mod shared_key;
#[cfg(test)]
mod tests;
mod unacknowledged_webhook;

use std::time::Duration;

use serde::Serialize;

pub use call::{Call, endpoints};
pub use finding::{Finding, Rule};
pub use reach::Reach;
pub use unacknowledged_webhook::SentEvent;

use history::History;

/// How many findings of one rule a report lists; the last one says how many more there are.
const MAX_FINDINGS: usize = 100;

/// The limits that the audit applies.
#[derive(Debug, Clone, Copy)]
pub struct Thresholds {
    /// The shortest pause between a failed attempt and the next one.
    pub min_backoff: Duration,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { min_backoff: Duration::from_millis(500) }
    }
}

/// Whether a client is safe to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing was found.
    Pass,
    /// Something was found.
    Fail,
}

/// What the audit says.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether there are findings.
    pub verdict: Verdict,
    /// How many writes there were, each with all of its attempts.
    pub operations: usize,
    /// What was found, rule by rule in the order of the contract, each from the earliest on.
    pub findings: Vec<Finding>,
    /// How far the judged journal reaches, and what may be missing.
    pub journal: Reach,
}

/// Judges a client by its calls, as far as the journal holds them, and by the events that were sent to it.
#[must_use]
pub fn judge(calls: &[Call], events: &[SentEvent], thresholds: Thresholds, reach: Reach) -> Report {
    let history = History::new(calls, &reach);
    let by_rule = [
        missing_key::findings(&history),
        new_key_per_retry::findings(&history),
        shared_key::findings(&history),
        body_changed::findings(&history),
        no_backoff::findings(&history, thresholds.min_backoff),
        retried_final_error::findings(&history),
        gave_up::findings(&history, events),
        unacknowledged_webhook::findings(events),
    ];
    let findings: Vec<_> = by_rule.into_iter().flat_map(bounded).collect();
    Report {
        verdict: if findings.is_empty() { Verdict::Pass } else { Verdict::Fail },
        operations: history.operations.len(),
        findings,
        journal: reach,
    }
}

fn bounded(mut findings: Vec<Finding>) -> Vec<Finding> {
    let more = findings.len().saturating_sub(MAX_FINDINGS);
    findings.truncate(MAX_FINDINGS);
    if let (1.., Some(last)) = (more, findings.last_mut()) {
        last.add(&format!("{more} more findings of this rule are left out."));
    }
    findings
}
