//! Each rule by hand.

use std::time::Duration;

use serde_json::{Value, json};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{broken, call, request, rule_names, whole};
use crate::domain::audit::{Call, Reach, Report, Thresholds, Verdict, judge};
use crate::domain::id::RequestId;
use crate::domain::journal::answer::Answer;

pub(super) const ORDER: &str = r#"{"out_trade_no":"A1","amount":2990}"#;

pub(super) const TRADE_NO: &str = "trd_00000000000000000000000000000001";

/// A journal, written call by call.
pub(super) struct Journal {
    pub(super) calls: Vec<Call>,
    pub(super) real: OffsetDateTime,
    ahead: Duration,
}

/// How a call ends.
#[derive(Clone, Copy)]
pub(super) enum End {
    Status(u16),
    Code(u16, &'static str),
    Lost,
    HungUp,
    /// The client hung up before all of its body had come.
    Broken,
}
use End::{Broken, Code, HungUp, Lost, Status};

impl Journal {
    pub(super) fn new() -> Self {
        Self { calls: Vec::new(), real: call().received_at, ahead: Duration::ZERO }
    }

    pub(super) fn call(&mut self, line: &str, key: Option<&str>, body: &str, end: End) -> &mut Self {
        let (method, path) = line.split_once(' ').unwrap();
        let (status, code) = match end {
            Status(status) => (Some(status), "none"),
            Code(status, code) => (Some(status), code),
            Lost | HungUp | Broken => (Some(201), "none"),
        };
        let id = u128::try_from(self.calls.len()).unwrap() + 1;
        self.calls.push(Call {
            request_id: RequestId::from_uuid(Uuid::from_u128(id)),
            at: self.real + self.ahead,
            received_at: self.real,
            idempotency_key: key.map(str::to_owned),
            status,
            code: Some(code.to_owned()),
            answered: matches!(end, Status(_) | Code(..)),
            client_hung_up: matches!(end, HungUp),
            ..request(method, path, body)
        });
        if matches!(end, Broken) {
            let whole = self.calls.pop().unwrap();
            self.calls.push(broken(whole));
        }
        self.real += call().duration;
        self
    }

    /// A write of an order, under a key unless that is empty.
    pub(super) fn order(&mut self, key: &str, body: &str, end: End) -> &mut Self {
        self.call("POST /v1/orders", Some(key).filter(|key| !key.is_empty()), body, end)
    }

    pub(super) fn get(&mut self, path: &str, status: u16, answer: &Value) -> &mut Self {
        self.call(&format!("GET {path}"), None, "", Status(status));
        let answer = Answer::read(answer.to_string().as_bytes());
        let call = self.calls.last_mut().unwrap();
        (call.code, call.answer_nos) = (answer.code, answer.numbers);
        self
    }

    pub(super) fn pause(&mut self, milliseconds: u64) -> &mut Self {
        self.real += Duration::from_millis(milliseconds);
        self
    }

    /// The last call takes so long, and the next one comes in meanwhile.
    fn held(&mut self, milliseconds: u64) -> &mut Self {
        self.calls.last_mut().unwrap().duration = Duration::from_millis(milliseconds);
        self
    }

    fn advance(&mut self, hours: u64) -> &mut Self {
        self.ahead += Duration::from_hours(hours);
        self
    }

    pub(super) fn report(&self) -> Report {
        self.judged(whole())
    }

    pub(super) fn judged(&self, reach: Reach) -> Report {
        judge(&self.calls, &[], Thresholds::default(), reach)
    }

    #[track_caller]
    pub(super) fn passes(&self) {
        let report = self.report();
        assert_eq!(report.verdict, Verdict::Pass, "{:#?}", report.findings);
    }

    /// Asserts that there is one finding, and returns it as JSON, with the requests by their places.
    #[track_caller]
    pub(super) fn finding(&self, rule: &str) -> Value {
        let report = self.report();
        assert_eq!(
            (report.findings.len(), rule_names(&report)),
            (1, [rule.to_owned()].into()),
            "{report:#?}"
        );
        let mut finding = serde_json::to_value(&report.findings[0]).unwrap();
        for id in finding["request_ids"].as_array_mut().unwrap() {
            *id = json!(usize::from_str_radix(&id.as_str().unwrap()["req_".len()..], 16).unwrap());
        }
        finding
    }
}

#[test]
fn a_retry_under_the_same_key_passes() {
    let mut journal = Journal::new();
    journal.order("k1", ORDER, Lost).pause(500).order("k1", ORDER, Status(201)).passes();
    assert_eq!(journal.report().operations, 1);
    assert_eq!(
        serde_json::to_value(journal.report()).unwrap(),
        json!({"verdict": "pass", "operations": 1, "findings": [],
            "journal": {"complete": true, "dropped": 0, "through": "2026-11-04T08:30:00.000Z"}})
    );
}

#[test]
fn a_missing_key_is_one_finding_for_all_attempts() {
    let mut journal = Journal::new();
    journal.order("", ORDER, Lost).pause(500).order("", ORDER, Status(201)).pause(500);
    let finding = journal.order("k1", ORDER, Status(200)).finding("missing_key");
    assert_eq!(finding["request_ids"], json!([1, 2]));
    assert_eq!(finding["out_trade_no"], json!("A1"));
    let message = "POST /v1/orders for out_trade_no A1 was sent twice without Idempotency-Key.";
    assert_eq!(finding["message"], json!(message));
    assert!(finding["advice"].as_str().unwrap().ends_with('.'));
}

#[test]
fn a_malformed_key_is_refused_and_not_missing() {
    let mut journal = Journal::new();
    journal.order("", ORDER, Code(400, "idempotency_key_invalid")).order("k1", ORDER, Status(201)).passes();
}

#[test]
fn a_close_without_a_key_is_a_write_without_a_key() {
    let mut journal = Journal::new();
    let finding = journal.call("POST /v1/orders/A1/close", None, "", Status(200)).finding("missing_key");
    assert_eq!(finding["message"], json!("POST /v1/orders/A1/close was sent once without Idempotency-Key."));
}

#[test]
fn a_new_key_for_a_retry_is_found_whatever_the_first_came_to() {
    for first in [Lost, Status(500), Status(201), HungUp, Status(429)] {
        let mut journal = Journal::new();
        journal.order("k1", ORDER, first).pause(500);
        let finding = journal.order("k2", ORDER, Status(200)).finding("new_key_per_retry");
        assert_eq!(finding["request_ids"], json!([1, 2]));
        assert_eq!(finding["idempotency_keys"], json!(["k1", "k2"]));
    }
}

#[test]
fn a_new_key_may_begin_something_new() {
    let corrected = r#"{"out_trade_no":"A1","amount":2991}"#;
    let refused = Code(400, "amount_invalid");
    Journal::new().order("k1", ORDER, refused).order("k2", corrected, Status(201)).passes();
    Journal::new().order("k1", ORDER, Status(201)).advance(24).order("k2", ORDER, Status(200)).passes();
    Journal::new().order("k1", ORDER, Status(201)).advance(24).order("k1", corrected, Status(201)).passes();
    let not_found = json!({"code": "order_not_found"});
    Journal::new()
        .order("k1", ORDER, Status(500))
        .get("/v1/orders/A1", 404, &not_found)
        .pause(500)
        .order("k2", ORDER, Status(201))
        .passes();
    let mut journal = Journal::new();
    journal.order("k1", ORDER, Status(201)).advance(23).order("k2", ORDER, Status(200));
    journal.finding("new_key_per_retry");
}

#[test]
fn a_shared_key_is_found_across_numbers_and_endpoints() {
    let other = r#"{"out_trade_no":"A2","amount":2990}"#;
    let refused = Code(400, "idempotency_key_reused");
    let finding = Journal::new()
        .order("k1", ORDER, Status(201))
        .order("k1", other, refused)
        .call("POST /v1/orders/A1/close", Some("k1"), "", refused)
        .finding("shared_key");
    assert_eq!(finding["request_ids"], json!([1, 2, 3]));
    assert_eq!(finding["idempotency_keys"], json!(["k1"]));
    assert_eq!(
        finding["message"],
        json!(
            "The Idempotency-Key k1 was used for 3 different writes: POST /v1/orders for out_trade_no A1, then \
             POST /v1/orders for out_trade_no A2, then POST /v1/orders/A1/close."
        )
    );
    Journal::new().order("k1", ORDER, Status(201)).advance(24).order("k1", other, Status(201)).passes();
}

#[test]
fn a_changed_body_is_found_with_its_fields() {
    let at = |time: u32| format!(r#"{{"out_trade_no":"A1","amount":2990,"timestamp":{time}}}"#);
    let refused = Code(400, "idempotency_key_reused");
    let mut journal = Journal::new();
    let finding = journal.order("k1", &at(10), Lost).pause(500).order("k1", &at(11), refused);
    let finding = finding.finding("body_changed");
    assert_eq!(finding["request_ids"], json!([1, 2]));
    assert_eq!(finding["changed"], json!(["/timestamp"]));
    assert_eq!(
        (&finding["before"], &finding["after"]),
        (&json!({"/timestamp": 10}), &json!({"/timestamp": 11}))
    );
    assert_eq!(
        finding["message"],
        json!(
            "POST /v1/orders for out_trade_no A1 was sent again under the Idempotency-Key k1 with another body: \
             /timestamp was 10, then 11."
        )
    );
}

#[test]
fn a_body_in_other_bytes_or_corrected_under_its_key_has_changed() {
    let refused = Code(400, "idempotency_key_reused");
    let spaced = r#"{ "out_trade_no":"A1","amount":2990 }"#;
    let mut journal = Journal::new();
    journal.order("k1", ORDER, Status(201)).order("k1", spaced, refused);
    let finding = journal.finding("body_changed");
    assert!(finding["message"].as_str().unwrap().contains("the same JSON, other bytes"));
    assert_eq!(finding["changed"], json!([]));

    let malformed = r#"{"out_trade_no":"A1","amount":2990"#;
    let mut journal = Journal::new();
    journal.order("k1", malformed, Code(400, "body_malformed")).order("k1", ORDER, refused);
    journal.finding("body_changed");

    // Nothing was bound to the key, or the first body had not arrived whole.
    Journal::new()
        .order("k1", "too large", Code(413, "body_too_large"))
        .order("k1", ORDER, Status(201))
        .passes();
    Journal::new().order("k1", ORDER, Broken).order("k1", ORDER, Status(201)).passes();
}

#[test]
fn a_retry_too_soon_is_found_with_the_pause() {
    for failed in [Lost, Status(503), Status(409)] {
        let mut journal = Journal::new();
        journal.order("k1", ORDER, failed).pause(12).order("k1", ORDER, Status(500)).pause(300);
        let finding = journal.order("k1", ORDER, Status(201)).finding("no_backoff");
        assert_eq!(finding["gaps_ms"], json!([12, 300]));
        assert_eq!(finding["request_ids"], json!([1, 2, 3]));
        let strict = Thresholds { min_backoff: Duration::from_millis(10) };
        assert_eq!(judge(&journal.calls, &[], strict, whole()).verdict, Verdict::Pass);
    }
    Journal::new().order("k1", ORDER, Status(429)).order("k1", ORDER, Status(201)).passes();
}

#[test]
fn attempts_side_by_side_pause_each_for_itself() {
    // A double click: the second is refused, and repeated after the first is done.
    let mut journal = Journal::new();
    journal.order("k1", ORDER, Status(201)).held(3000).pause(45).order("k1", ORDER, Status(409)).pause(2950);
    journal.order("k1", ORDER, Status(201)).passes();
    // A retry right after the 409.
    let mut journal = Journal::new();
    journal.order("k1", ORDER, Status(201)).held(3000).pause(45).order("k1", ORDER, Status(409)).pause(20);
    let finding = journal.order("k1", ORDER, Status(409)).finding("no_backoff");
    assert_eq!((&finding["gaps_ms"], &finding["request_ids"]), (&json!([20]), &json!([2, 3])));
    // Two that fail side by side, and each is repeated.
    let mut journal = Journal::new();
    journal.order("k1", ORDER, Status(500)).held(20).pause(5).order("k1", ORDER, Status(500)).pause(495);
    journal.order("k1", ORDER, Status(500)).pause(10).order("k1", ORDER, Status(201)).passes();
    // A client that does not wait as long as the answer takes: when it hung up is not known.
    let mut journal = Journal::new();
    journal.order("k1", ORDER, HungUp).held(3000).pause(95).order("k1", ORDER, Status(201)).passes();
}

#[test]
fn a_final_error_is_not_to_be_retried_whatever_the_key() {
    let refused = Code(400, "amount_invalid");
    for key in ["k1", "k2"] {
        let mut journal = Journal::new();
        journal.order("k1", ORDER, refused).pause(500).order(key, ORDER, refused);
        let finding = journal.finding("retried_final_error");
        assert_eq!((&finding["request_ids"], &finding["status"]), (&json!([1, 2]), &json!(400)));
        let message = "POST /v1/orders for out_trade_no A1 got the final answer 400 amount_invalid, and the same \
                       request was sent again.";
        assert_eq!(finding["message"], json!(message));
    }
    // What changed was not in the body: the state of the order, or a header.
    Journal::new().order("k1", ORDER, Code(400, "order_not_paid")).order("k2", ORDER, Status(201)).passes();
    let unannounced = Code(415, "content_type_not_json");
    Journal::new().order("k1", ORDER, unannounced).order("k1", ORDER, Status(201)).passes();
}

#[test]
fn giving_up_is_found_unless_the_client_asked_or_was_told() {
    for last in [Lost, HungUp, Status(500), Status(409)] {
        let mut journal = Journal::new();
        let finding = journal.order("k1", ORDER, last).finding("gave_up");
        assert_eq!((&finding["request_ids"], &finding["out_trade_no"]), (&json!([1]), &json!("A1")));
    }
    let order = json!({"data": {"trade_no": TRADE_NO, "out_trade_no": "A1"}});
    let orders =
        json!({"data": {"items": [{"trade_no": TRADE_NO, "out_trade_no": "A1"}], "has_more": false}});
    let none = json!({"data": {"items": [], "has_more": false}});
    for (path, status, answer) in [
        ("/v1/orders/A1", 200, &order),
        ("/v1/orders/A1", 404, &json!({"code": "order_not_found"})),
        ("/v1/orders/trd_00000000000000000000000000000001", 200, &order),
        ("/v1/orders?out_trade_no=A1", 200, &none),
        ("/v1/orders?limit=5", 200, &orders),
    ] {
        Journal::new().order("k1", ORDER, Lost).get(path, status, answer).passes();
    }
    let mut journal = Journal::new();
    journal.order("k1", ORDER, Lost).get("/v1/orders/A1", 500, &json!({})).get(
        "/v1/orders/A2",
        200,
        &json!({}),
    );
    journal.call("GET /v1/orders/A1", None, "", Lost).finding("gave_up");
    let mut journal = Journal::new();
    journal.get("/v1/orders/A1", 404, &json!({})).order("k1", ORDER, Lost).finding("gave_up");
    // Nothing ran by the last one, and the one before is still unknown.
    let mut journal = Journal::new();
    journal.order("k1", ORDER, Lost).pause(500).order("k1", ORDER, Status(429)).finding("gave_up");
    Journal::new().order("k1", ORDER, Status(429)).passes();
}

#[test]
fn a_refund_is_looked_up_by_its_number_or_through_its_order() {
    let body = format!(r#"{{"out_refund_no":"R1","trade_no":"{TRADE_NO}","amount":5}}"#);
    let order = json!({"data": {"trade_no": TRADE_NO, "out_trade_no": "A1"}});
    let after = |path: &str| {
        let mut journal = Journal::new();
        journal.get("/v1/orders/A1", 200, &order).call("POST /v1/refunds", Some("r1"), &body, Lost);
        journal.get(path, 200, &json!({"data": {"items": []}}));
        journal
    };
    for path in [
        "/v1/refunds/R1",
        "/v1/refunds?out_trade_no=A1",
        "/v1/refunds?out_trade_no=trd_00000000000000000000000000000001",
        "/v1/orders/A1",
    ] {
        after(path).passes();
    }
    let finding = after("/v1/refunds/R2").finding("gave_up");
    assert_eq!(finding["out_refund_no"], json!("R1"));
}

#[test]
fn a_second_attempt_beside_a_success_gives_nothing_up() {
    let mut journal = Journal::new();
    journal.order("k1", ORDER, Status(201)).held(100).pause(45).order("k1", ORDER, Status(409)).passes();
}
