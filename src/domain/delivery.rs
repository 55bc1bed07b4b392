//! Deliveries: where a recorded event stands, what came of each attempt to send it, and how both stand on
//! the wire (contract, section 7). Sending is left to the worker.

use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;

use super::event::EventType;
use super::id::{EventId, TradeNo};
use super::schedule;

/// Where an event stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
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

impl EventStatus {
    const ALL: [Self; 4] = [Self::Pending, Self::Delivered, Self::Failed, Self::NoUrl];

    /// The status's name on the wire and in the database.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::NoUrl => "no_url",
        }
    }

    /// The status of a name.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }
}

/// An event as it is stored. Times are the merchant's.
#[derive(Debug, Clone)]
pub struct StoredEvent {
    /// Its identifier.
    pub event_id: EventId,
    /// What has happened.
    pub event_type: EventType,
    /// When it happened.
    pub created_at: OffsetDateTime,
    /// The order that it belongs to; none for the test callback.
    pub trade_no: Option<TradeNo>,
    /// Where the next attempt would go: the URL of the order or refund, or else the merchant's.
    pub url: Option<String>,
    /// Where it stands.
    pub status: EventStatus,
    /// How many attempts were made.
    pub attempts: i32,
    /// When the next one is due.
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
    #[serde(with = "super::time")]
    pub at: OffsetDateTime,
    /// Where it went.
    pub url: String,
    /// The header `X-KukoPay-Signature` that was sent.
    pub signature: String,
    #[serde(flatten)]
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The status of the receiver's answer; `None` where there was none.
    pub status: Option<u16>,
    /// Why it is no acknowledgement, in plain words; `None` where it is one.
    pub error: Option<String>,
    /// How long it took, in milliseconds of real time.
    pub duration_ms: i64,
    /// The beginning of the answer's body.
    pub response_excerpt: Option<String>,
}

impl Outcome {
    /// That of an attempt which a fault keeps from its receiver.
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

    /// Where the event stands after this outcome, and the pause before the next attempt, where `used`
    /// pauses of the schedule are used up.
    #[must_use]
    pub fn leads_to(&self, used: i32) -> (EventStatus, Option<time::Duration>) {
        if self.is_acknowledged() {
            return (EventStatus::Delivered, None);
        }
        match schedule::pause_after(used) {
            Some(pause) => (EventStatus::Pending, Some(pause)),
            None => (EventStatus::Failed, None),
        }
    }
}

/// An event in a list: the field names and their order.
#[derive(Debug, Serialize)]
pub struct EventSummary<'a> {
    id: EventId,
    #[serde(rename = "type")]
    event_type: &'static str,
    #[serde(with = "super::time")]
    created_at: OffsetDateTime,
    trade_no: Option<TradeNo>,
    url: Option<&'a str>,
    status: EventStatus,
    attempts: i32,
    #[serde(with = "super::time::option")]
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
            event_type: self.event_type.code(),
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
            // Always JSON, since it was written as such; and as it was written, byte for byte.
            payload: serde_json::from_str(&self.payload).ok(),
            deliveries,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_leads_to_the_next_pause_or_to_the_end() {
        let outcome = |error: Option<&str>| Outcome {
            status: None,
            error: error.map(str::to_owned),
            duration_ms: 1,
            response_excerpt: None,
        };
        assert_eq!(outcome(None).leads_to(3), (EventStatus::Delivered, None));
        let refused = outcome(Some("connection refused"));
        assert_eq!(refused.leads_to(1), (EventStatus::Pending, Some(time::Duration::MINUTE)));
        assert_eq!(refused.leads_to(7), (EventStatus::Failed, None));
    }
}
