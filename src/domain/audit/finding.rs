//! A finding: the rule, what was seen, and what to do about it in one sentence.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Call;
use super::history::{Attempt, Kind, Operation};
use crate::domain::id::{EventId, RequestId};

/// How many requests a finding names.
const MAX_REQUESTS: usize = 50;

/// How many keys, places or pauses a finding names.
pub(super) const MAX_TEXTS: usize = 20;

/// The rules of the audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// A write without Idempotency-Key.
    MissingKey,
    /// One number sent again to the same endpoint under another key.
    NewKeyPerRetry,
    /// One key used for different numbers or endpoints.
    SharedKey,
    /// A retry whose body differs.
    BodyChanged,
    /// A retry too soon after a 409, a 5xx or a lost answer.
    NoBackoff,
    /// The same request again after a 4xx other than 409 and 429.
    RetriedFinalError,
    /// An unknown outcome that was never found out.
    GaveUp,
    /// An event that was never acknowledged.
    UnacknowledgedWebhook,
}

impl Rule {
    const fn advice(self) -> &'static str {
        match self {
            Self::MissingKey => {
                "Choose one Idempotency-Key for each operation, store it with the order, and send it on every \
                 attempt."
            }
            Self::NewKeyPerRetry => {
                "Choose the Idempotency-Key once for each operation, before the first attempt, and send the same key \
                 on every retry."
            }
            Self::SharedKey => {
                "Give every operation an Idempotency-Key of its own: derive it from the operation and its number, or \
                 make up a UUID for each."
            }
            Self::BodyChanged => {
                "Serialise the body once, before the first attempt, and send exactly these bytes on every retry."
            }
            Self::NoBackoff => {
                "Pause before each retry, longer each time and with some randomness, and at least as long as \
                 Retry-After asks for."
            }
            Self::RetriedFinalError => {
                "Do not repeat a request that got a 4xx other than 409 and 429: mend it, and send it with a new \
                 Idempotency-Key."
            }
            Self::GaveUp => {
                "After an unknown outcome send the same request with the same key again, or look the number up, until \
                 there is an answer."
            }
            Self::UnacknowledgedWebhook => {
                "Answer every event with a 2xx within 10 seconds once its id is stored, also one that you have seen \
                 before."
            }
        }
    }
}

/// Something that a client is to blame for.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// What was seen.
    pub message: String,
    /// The requests that show it, from the earliest on.
    pub request_ids: Vec<RequestId>,
    /// What to do about it.
    pub advice: &'static str,
    /// What else shows it, in members of its own.
    #[serde(flatten)]
    pub evidence: Evidence,
}

/// Evidence besides the requests. Members that a rule does not use are left out.
#[derive(Debug, Default, Serialize)]
#[serde(default)]
pub struct Evidence {
    /// The order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_trade_no: Option<String>,
    /// The refund.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_refund_no: Option<String>,
    /// The keys, in the order of their use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub idempotency_keys: Vec<String>,
    /// The changed places of the body, as JSON pointers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<String>>,
    /// The first values, by place.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub before: Map<String, Value>,
    /// The later values, by place.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub after: Map<String, Value>,
    /// The pauses that were too short, in milliseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps_ms: Vec<u64>,
    /// The statuses that were answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// The event's type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_type: Option<&'static str>,
    /// How many deliveries of the event were not acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i64>,
}

impl Finding {
    /// A finding without requests.
    pub(super) fn new(rule: Rule, message: String, evidence: Evidence) -> Self {
        Self { rule, message, request_ids: Vec::new(), advice: rule.advice(), evidence }
    }

    /// The same, shown by these requests.
    pub(super) fn shown_by<'a>(mut self, calls: impl IntoIterator<Item = &'a Call>) -> Self {
        let mut ids: Vec<_> = calls.into_iter().map(|call| call.request_id).collect();
        let more = ids.len().saturating_sub(MAX_REQUESTS);
        ids.truncate(MAX_REQUESTS);
        if more > 0 {
            self.add(&format!("{more} more requests are left out."));
        }
        self.request_ids = ids;
        self
    }

    /// Says one more thing.
    pub(super) fn add(&mut self, sentence: &str) {
        self.message.push(' ');
        self.message.push_str(sentence);
    }
}

impl Evidence {
    /// The number of what an attempt writes.
    pub(super) fn of(attempt: &Attempt<'_>) -> Self {
        Self::of_number(attempt.kind, attempt.number.clone())
    }

    /// The number of what an operation writes.
    pub(super) fn of_operation(operation: &Operation<'_>) -> Self {
        Self::of_number(operation.kind(), operation.number().map(str::to_owned))
    }

    fn of_number(kind: Kind, number: Option<String>) -> Self {
        match kind {
            Kind::CreateOrder | Kind::CloseOrder => Self { out_trade_no: number, ..Self::default() },
            Kind::CreateRefund => Self { out_refund_no: number, ..Self::default() },
        }
    }
}

/// Milliseconds, rounded down.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The first few of some texts, as evidence.
pub(super) fn some<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    texts.into_iter().take(MAX_TEXTS).map(str::to_owned).collect()
}

/// "once", "twice", "3 times".
pub(super) fn times(count: usize) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    }
}
