//! Deliveries: the status of a recorded event, the outcome of each attempt to send it, and both on the wire
//! (contract, section 7). Sending is left to the worker.

use serde::Serialize;
use serde_json::value::RawValue;
use strum::{EnumString, IntoStaticStr, VariantArray};
use time::OffsetDateTime;

use crate::domain::id::{EventId, TradeNo};
use crate::domain::webhook::schedule;

/// The status of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray, Serialize)]
#[strum(serialize_all = "snake_case")]
#[serde(into = "&'static str")]
pub enum EventStatus {
    /// It waits for its next attempt.
    Pending,
    /// Its receiver has acknowledged it.
    Delivered,
    /// The schedule is used up.
    Failed,
    /// There was no URL to send it to.
    NoUrl,
}

/// An event as it is stored. Times are the merchant's.
#[derive(Debug, Clone)]
pub struct StoredEvent {
    /// Its identifier.
    pub event_id: EventId,
    /// Its type as it is stored, so that an event of an unknown type can be shown, too.
    pub event_type: String,
    /// When it happened.
    pub created_at: OffsetDateTime,
    /// The order that it belongs to; none for the test callback.
    pub trade_no: Option<TradeNo>,
    /// Where the next attempt would go: the URL of the order or refund, or else the merchant's.
    pub url: Option<String>,
    /// Its status.
    pub status: EventStatus,
    /// How many attempts were made.
    pub attempts: i32,
    /// When the next attempt is due.
    pub next_attempt_at: Option<OffsetDateTime>,
    /// The body that is signed and sent.
    pub payload: String,
}

/// An attempt that has ended.
#[derive(Debug, Clone, Serialize)]
pub struct Delivery {
    /// Which attempt of its event it was, from 1 on.
    pub attempt: i32,
    /// When it began, in the merchant's time.
    #[serde(with = "crate::domain::time::rfc3339")]
    pub at: OffsetDateTime,
    /// Where it went.
    pub url: String,
    /// The header `X-KukoPay-Signature` that was sent.
    pub signature: String,
    #[serde(flatten)]
    /// Its outcome.
    pub outcome: AttemptOutcome,
    /// The kind of the fault that struck it.
    pub fault: Option<String>,
}

/// The outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttemptOutcome {
    /// The status of the receiver's answer; `None` if there was none.
    pub status: Option<u16>,
    /// Why it is not an acknowledgement, in plain words; `None` if it is one.
    pub error: Option<String>,
    /// How long it took, in milliseconds of real time.
    pub duration_ms: i64,
    /// The beginning of the answer's body.
    pub response_excerpt: Option<String>,
}

impl AttemptOutcome {
    /// The outcome of an attempt that a fault did not let reach its receiver.
    #[must_use]
    pub fn lost() -> Self {
        Self {
            status: None,
            error: Some("lost, as a fault asked for: nothing was sent, and no answer came".to_owned()),
            duration_ms: 0,
            response_excerpt: None,
        }
    }

    /// Whether the receiver has acknowledged the event.
    #[must_use]
    pub const fn is_acknowledged(&self) -> bool {
        self.error.is_none()
    }

    /// The event's status after this outcome at `now`, if `used` pauses of the schedule are used up.
    #[must_use]
    pub fn leads_to(&self, used: i32, now: OffsetDateTime) -> Standing {
        if self.is_acknowledged() {
            return Standing { status: EventStatus::Delivered, next_attempt_at: None };
        }
        let pause = schedule::pause_after(used);
        let status = if pause.is_some() { EventStatus::Pending } else { EventStatus::Failed };
        Standing { status, next_attempt_at: pause.map(|pause| now + pause) }
    }
}

/// The status of an event after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Pending, delivered or failed.
    pub status: EventStatus,
    /// When a pending event is sent again, in the merchant's time.
    pub next_attempt_at: Option<OffsetDateTime>,
}

/// An event in a list: the field names and their order.
#[derive(Debug, Serialize)]
pub struct EventSummary<'a> {
    id: EventId,
    #[serde(rename = "type")]
    event_type: &'a str,
    #[serde(with = "crate::domain::time::rfc3339")]
    created_at: OffsetDateTime,
    trade_no: Option<TradeNo>,
    url: Option<&'a str>,
    status: EventStatus,
    attempts: i32,
    #[serde(with = "crate::domain::time::rfc3339::option")]
    next_attempt_at: Option<OffsetDateTime>,
}

/// An event with its payload and every attempt.
#[derive(Debug, Serialize)]
pub struct EventDetail<'a> {
    #[serde(flatten)]
    summary: EventSummary<'a>,
    payload: Option<&'a RawValue>,
    deliveries: &'a [Delivery],
}

impl StoredEvent {
    /// The event as an item of a list.
    #[must_use]
    pub fn summary(&self) -> EventSummary<'_> {
        EventSummary {
            id: self.event_id,
            event_type: &self.event_type,
            created_at: self.created_at,
            trade_no: self.trade_no,
            url: self.url.as_deref(),
            status: self.status,
            attempts: self.attempts,
            next_attempt_at: self.next_attempt_at,
        }
    }

    /// The event with its payload as it is sent, and with its attempts.
    #[must_use]
    pub fn detail<'a>(&'a self, deliveries: &'a [Delivery]) -> EventDetail<'a> {
        EventDetail {
            summary: self.summary(),
            // It was written as JSON, and is returned byte for byte.
            payload: serde_json::from_str(&self.payload).ok(),
            deliveries,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn an_outcome_leads_to_the_next_pause_or_to_the_end() {
        let outcome = |error: Option<&str>| AttemptOutcome {
            status: None,
            error: error.map(str::to_owned),
            duration_ms: 1,
            response_excerpt: None,
        };
        let now = datetime!(2026-11-04 08:30 UTC);
        let standing = |status, next_attempt_at| Standing { status, next_attempt_at };
        assert_eq!(outcome(None).leads_to(3, now), standing(EventStatus::Delivered, None));
        let refused = outcome(Some("connection refused"));
        let in_a_minute = Some(datetime!(2026-11-04 08:31 UTC));
        assert_eq!(refused.leads_to(1, now), standing(EventStatus::Pending, in_a_minute));
        assert_eq!(refused.leads_to(7, now), standing(EventStatus::Failed, None));
    }
}
