//! Events that were sent, and the report as a whole.

use serde_json::json;
use uuid::Uuid;

use super::rules::End::{Lost, Status};
use super::rules::{Journal, ORDER};
use super::whole;
use crate::domain::audit::{SentEvent, Thresholds, Verdict, judge};
use crate::domain::id::EventId;
use crate::domain::webhook::event::EventType;

fn event(acknowledged: bool, failures: i64) -> SentEvent {
    let payload = r#"{"id":"evt_1","data":{"object":{"object":"order","out_trade_no":"A1"}}}"#;
    let id = EventId::from_uuid(Uuid::from_u128(1));
    SentEvent::new(id, EventType::PaymentSucceeded, payload, acknowledged, failures)
}

#[test]
fn an_event_is_to_be_acknowledged_once_it_was_sent() {
    let judged = |event| serde_json::to_value(judge(&[], &[event], Thresholds::default(), whole())).unwrap();
    for fine in [event(true, 0), event(true, 3), event(false, 0)] {
        assert_eq!(judged(fine)["verdict"], json!("pass"));
    }
    let report = judged(event(false, 2));
    let finding = &report["findings"][0];
    assert_eq!(finding["rule"], json!("unacknowledged_webhook"));
    let id = format!("evt_{}1", "0".repeat(31));
    let message = format!(
        "The event {id}, payment.succeeded of the order A1, was delivered twice and never acknowledged."
    );
    assert_eq!((&finding["message"], &finding["request_ids"]), (&json!(message), &json!([])));
    assert_eq!((&finding["event_id"], &finding["attempts"]), (&json!(id), &json!(2)));
}

#[test]
fn an_acknowledged_event_tells_what_came_of_a_write() {
    let mut journal = Journal::new();
    journal.order("k1", ORDER, Lost);
    assert_eq!(
        judge(&journal.calls, &[event(true, 0)], Thresholds::default(), whole()).verdict,
        Verdict::Pass
    );
    assert_eq!(
        judge(&journal.calls, &[event(false, 0)], Thresholds::default(), whole()).verdict,
        Verdict::Fail
    );
}

#[test]
fn a_report_is_bounded_and_counts_the_rest() {
    let mut journal = Journal::new();
    for number in 0..250 {
        journal.order("", &format!(r#"{{"out_trade_no":"A{number}"}}"#), Status(201));
    }
    let report = journal.report();
    assert_eq!((report.operations, report.findings.len()), (250, 100));
    assert!(report.findings[99].message.ends_with("150 more findings of this rule are left out."));
}

#[test]
fn the_order_of_the_rows_does_not_matter() {
    let mut journal = Journal::new();
    for number in ["1", "2", "3"] {
        let body = format!(r#"{{"out_trade_no":"A{number}"}}"#);
        journal.order("", &body, Lost).pause(5).order(number, &body, Status(500)).pause(5);
    }
    let forwards = serde_json::to_string(&journal.report()).unwrap();
    journal.calls.reverse();
    assert_eq!(serde_json::to_string(&journal.report()).unwrap(), forwards);
}
