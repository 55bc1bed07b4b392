//! Faults of calls: the table of kinds, and the parts of an effect. `http::middleware::faults` obeys an effect; for a
//! write, `service::idempotent` does while it holds the key (contract, section 7).

use std::time::Duration;

use super::kind::{Kind, OfKind};
use super::options::{FaultOption, Takes};

/// A fault of a call.
pub type CallFault = OfKind<CallEffect>;

/// What a fault does to a call. Any combination can be a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEffect {
    /// How far the call gets.
    pub reach: Reach,
    /// How long it waits before it goes on. A write that has claimed a key waits while the key is in progress.
    pub wait: Duration,
    /// Whether the response of a write that runs is stored under its key. If not, the key is free for the retry, as
    /// after any 5xx.
    pub stores: bool,
    /// The error that is answered in place of the call's own response.
    pub error: Option<CallError>,
    /// How much of the answer leaves.
    pub leaves: Leaves,
}

/// How far a call gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The gateway does not read it, nor its key. Without an error to answer, it was lost on its way.
    Nowhere,
    /// Its key is bound to it and released, as after any 5xx; nothing runs. A call without a key gets nowhere.
    Key,
    /// It runs.
    Work,
}

/// An error that a fault answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallError {
    /// A 5xx with this status.
    Server(u16),
    /// A 429 that says when to come back, in seconds.
    RateLimited(u16),
}

/// How much of an answer leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// All of it.
    Whole,
    /// Half of its body; then the connection is closed.
    Half,
    /// The connection is closed without a byte.
    Nothing,
}

/// The effect of no fault. A row of the table names what it changes.
const NO_FAULT: CallEffect =
    CallEffect { reach: Reach::Work, wait: Duration::ZERO, stores: true, error: None, leaves: Leaves::Whole };

const DELAY: Takes = Takes { option: FaultOption::DelayMs, range: 0..=60_000, default: None };
const STATUS: Takes = Takes { option: FaultOption::Status, range: 500..=504, default: Some(500) };
const RETRY_AFTER: Takes = Takes { option: FaultOption::RetryAfter, range: 0..=3_600, default: Some(1) };

/// Every kind of fault of a call, in the order in which messages list them.
pub(super) const KINDS: &[Kind<CallEffect>] = &[
    Kind {
        name: "request_lost",
        takes: &[],
        effect: |_| CallEffect { reach: Reach::Nowhere, leaves: Leaves::Nothing, ..NO_FAULT },
    },
    Kind {
        name: "response_lost",
        takes: &[],
        effect: |_| CallEffect { leaves: Leaves::Nothing, ..NO_FAULT },
    },
    Kind {
        name: "truncated_response",
        takes: &[],
        effect: |_| CallEffect { leaves: Leaves::Half, ..NO_FAULT },
    },
    Kind {
        name: "latency",
        takes: &[DELAY],
        effect: |options| CallEffect { wait: options.delay(), ..NO_FAULT },
    },
    Kind {
        name: "error_before",
        takes: &[STATUS],
        effect: |options| CallEffect {
            reach: Reach::Key,
            error: Some(CallError::Server(options.http_status())),
            ..NO_FAULT
        },
    },
    Kind {
        name: "error_after",
        takes: &[STATUS],
        effect: |options| CallEffect {
            stores: false,
            error: Some(CallError::Server(options.http_status())),
            ..NO_FAULT
        },
    },
    Kind {
        name: "rate_limited",
        takes: &[RETRY_AFTER],
        effect: |options| CallEffect {
            reach: Reach::Nowhere,
            error: Some(CallError::RateLimited(options.retry_after_seconds())),
            ..NO_FAULT
        },
    },
];

impl CallEffect {
    /// The effect of the fault that strikes a call, or of none.
    #[must_use]
    pub fn of(fault: Option<CallFault>) -> Self {
        fault.map_or(NO_FAULT, |fault| fault.effect())
    }

    /// Whether there is an answer, even if it is lost later: the call's own or an error. A lost request has none.
    #[must_use]
    pub const fn is_answered(self) -> bool {
        match self.reach {
            Reach::Work => true,
            Reach::Nowhere | Reach::Key => self.error.is_some(),
        }
    }

    /// Whether the whole answer reaches a client that waits for it.
    #[must_use]
    pub const fn arrives(self) -> bool {
        match self.leaves {
            Leaves::Whole => true,
            Leaves::Half | Leaves::Nothing => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_kind_answers_a_call_that_has_not_run_as_if_it_had() {
        for kind in KINDS {
            let effect = kind.unchecked(kind.example()).effect();
            let lost = effect.reach == Reach::Nowhere && effect.leaves == Leaves::Nothing;
            assert!(effect.is_answered() || lost, "{}", kind.name);
        }
    }
}
