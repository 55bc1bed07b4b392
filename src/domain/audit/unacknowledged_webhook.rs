//! `unacknowledged_webhook`: an event that the client's receiver was sent and never answered with a 2xx.
//!
//! Not the client's are deliveries that a fault spoilt, events without a URL to go to, and those that
//! have not been sent yet.

use serde::Deserialize;

use super::finding::{Evidence, Finding, Rule, times};
use crate::domain::code::Code;
use crate::domain::id::EventId;
use crate::domain::webhook::event::EventType;

/// An event that was sent at least once, and whether it was acknowledged.
#[derive(Debug, Clone)]
pub struct SentEvent {
    event_id: EventId,
    pub(super) event_type: EventType,
    /// The order that it is about.
    pub(super) out_trade_no: Option<String>,
    /// The refund that it is about, if it is about one.
    pub(super) out_refund_no: Option<String>,
    pub(super) acknowledged: bool,
    failures: i64,
}

impl SentEvent {
    /// An event by its payload: whether a delivery was answered with a 2xx, and how many were not.
    /// Deliveries that a fault spoilt do not count.
    #[must_use]
    pub fn new(
        event_id: EventId,
        event_type: EventType,
        payload: &str,
        acknowledged: bool,
        failures: i64,
    ) -> Self {
        #[derive(Deserialize)]
        struct Payload {
            data: Data,
        }
        #[derive(Deserialize)]
        struct Data {
            object: Numbers,
        }
        #[derive(Deserialize)]
        struct Numbers {
            out_trade_no: Option<String>,
            out_refund_no: Option<String>,
        }
        let numbers = serde_json::from_str(payload).ok().map(|payload: Payload| payload.data.object);
        let (out_trade_no, out_refund_no) =
            numbers.map_or((None, None), |numbers| (numbers.out_trade_no, numbers.out_refund_no));
        Self { event_id, event_type, out_trade_no, out_refund_no, acknowledged, failures }
    }
}

pub(super) fn findings(events: &[SentEvent]) -> Vec<Finding> {
    events.iter().filter(|event| !event.acknowledged && event.failures > 0).map(finding).collect()
}

fn finding(event: &SentEvent) -> Finding {
    let about = match (&event.out_refund_no, &event.out_trade_no) {
        (Some(number), _) => format!(" of the refund {number}"),
        (None, Some(number)) => format!(" of the order {number}"),
        (None, None) => String::new(),
    };
    let message = format!(
        "The event {}, {}{about}, was delivered {} and never acknowledged.",
        event.event_id,
        event.event_type.code(),
        times(usize::try_from(event.failures).unwrap_or(usize::MAX))
    );
    let evidence = Evidence {
        out_trade_no: event.out_trade_no.clone(),
        out_refund_no: event.out_refund_no.clone(),
        event_id: Some(event.event_id),
        event_type: Some(event.event_type.code()),
        attempts: Some(event.failures),
        ..Evidence::default()
    };
    Finding::new(Rule::UnacknowledgedWebhook, message, evidence)
}
