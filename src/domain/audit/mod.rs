//! The audit: is this client safe to retry? It judges what a client did, as the journal remembers it, by
//! the rules of the contract's section 8. Pure functions over calls and events; reading them is left to
//! the service.
//!
//! A finding is for what a client is to blame for, and never for a fault that it met: where the journal
//! cannot tell, there is none. One file per rule:
//!
//! - `missing_key`, `new_key`, `shared_key`: the key, once per operation
//! - `body_changed`: the same bytes on every attempt
//! - `no_backoff`, `final_error`: when to send again, and when not to
//! - `gave_up`: an unknown outcome is found out
//! - `webhooks`: events are acknowledged

mod body_changed;
mod call;
mod final_error;
mod finding;
mod gave_up;
mod history;
mod key_use;
mod look_up;
mod missing_key;
mod names;
mod new_key;
mod no_backoff;
mod outcome;
mod shared_key;
#[cfg(test)]
mod tests;
mod webhooks;

use std::time::Duration;

use serde::Serialize;

pub use call::Call;
pub use finding::{Finding, Rule};
pub use webhooks::SentEvent;

use history::History;

/// How many findings of one rule a report lists; the last one says how many more there are.
const MAX_FINDINGS: usize = 100;

/// Where the audit draws its lines.
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
}

/// Judges a client by its calls, those of one moment in the order in which they came in, and the events
/// that it was told.
#[must_use]
pub fn judge(calls: &[Call], events: &[SentEvent], thresholds: Thresholds) -> Report {
    let history = History::new(calls);
    let by_rule = [
        missing_key::findings(&history),
        new_key::findings(&history),
        shared_key::findings(&history),
        body_changed::findings(&history),
        no_backoff::findings(&history, thresholds.min_backoff),
        final_error::findings(&history),
        gave_up::findings(&history, events),
        webhooks::findings(events),
    ];
    let findings: Vec<_> = by_rule.into_iter().flat_map(bounded).collect();
    Report {
        verdict: if findings.is_empty() { Verdict::Pass } else { Verdict::Fail },
        operations: history.operations.len(),
        findings,
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
