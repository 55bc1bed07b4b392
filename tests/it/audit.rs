//! `GET /sandbox/audit` (contract, section 8): a correct client passes in a storm of faults, each mistake
//! gets its rule and no other.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::client::{order, refund};
use crate::support::receiver::Receiver;
use crate::support::{Merchant, expect_fields};

/// The shortest pause that the audit allows here, so that the tests need not wait long.
const MIN_BACKOFF: Duration = Duration::from_millis(40);
/// How long a client waits for an answer that is slow.
const PATIENCE: Duration = Duration::from_secs(4);

/// A merchant whose client is judged.
pub(crate) struct Client(pub(crate) Merchant);

impl Client {
    pub(crate) fn new() -> Self {
        Self(Merchant::new())
    }

    /// One attempt of a write. The status, if an answer came.
    pub(crate) async fn send(
        &self,
        path: &str,
        key: Option<&str>,
        body: &str,
        fault: Option<&str>,
    ) -> Option<u16> {
        let mut call = self.0.post_bytes(path, body);
        if let Some(key) = key {
            call = call.key(key);
        }
        if let Some(fault) = fault {
            call = call.header("X-Sandbox-Fault", fault);
        }
        call.try_send().await.ok().map(|answer| answer.status)
    }

    /// The same, by a client that hangs up where the answer is slow.
    async fn send_impatiently(&self, path: &str, key: &str, body: &str) -> Option<u16> {
        let answer = tokio::time::timeout(PATIENCE, self.send(path, Some(key), body, None)).await;
        answer.ok().flatten()
    }

    /// An attempt at an order of this number, under a key.
    pub(crate) async fn order(&self, out_trade_no: &str, key: &str, fault: Option<&str>) -> Option<u16> {
        self.send("/v1/orders", Some(key), &order(out_trade_no, 2990).to_string(), fault).await
    }

    pub(crate) async fn pause(&self) {
        tokio::time::sleep(MIN_BACKOFF).await;
    }

    pub(crate) async fn report(&self) -> Value {
        let path = format!("/sandbox/audit?min_backoff_ms={}", MIN_BACKOFF.as_millis());
        self.0.get(&path).await.expect_data(200)
    }

    pub(crate) async fn expect_pass(&self) {
        let report = self.report().await;
        expect_fields(&report, &json!({"verdict": "pass", "findings": [], "journal": {"complete": true}}));
    }

    /// Asserts that there are findings of this rule and of no other, and returns the first.
    pub(crate) async fn expect_finding(&self, rule: &str) -> Value {
        let report = self.report().await;
        assert_eq!(report["verdict"], json!("fail"));
        let findings = report["findings"].as_array().expect("a list");
        let rules: BTreeSet<_> = findings.iter().filter_map(|finding| finding["rule"].as_str()).collect();
        assert_eq!(rules, BTreeSet::from([rule]), "{report:#}");
        findings[0].clone()
    }

    /// Makes the next calls go wrong.
    pub(crate) async fn fault(&self, rule: &Value) -> Value {
        self.0.post("/sandbox/faults", rule).send().await.expect_data(201)
    }

    /// A write as it should be: the same bytes under one key until there is an answer.
    async fn write(&self, path: &str, body: &str) -> u16 {
        let key = Uuid::new_v4().to_string();
        loop {
            match self.send_impatiently(path, &key, body).await {
                None | Some(409 | 429 | 500..) => self.pause().await,
                Some(status) => return status,
            }
        }
    }
}

#[tokio::test]
async fn who_has_done_nothing_passes() {
    let answer = Merchant::new().get("/sandbox/audit").await;
    let report = answer.expect_data(200);
    let journal = json!({"complete": true, "dropped": 0, "through": report["journal"]["through"]});
    assert_eq!(report, json!({"verdict": "pass", "operations": 0, "findings": [], "journal": journal}));
}

#[tokio::test]
async fn a_retry_after_a_lost_answer_passes() {
    let client = Client::new();
    assert_eq!(client.order("A1", "k1", Some("response_lost")).await, None);
    client.pause().await;
    assert_eq!(client.order("A1", "k1", None).await, Some(201));
    let report = client.report().await;
    expect_fields(&report, &json!({"verdict": "pass", "operations": 1, "findings": []}));
}

#[tokio::test]
async fn a_correct_client_passes_in_a_storm_of_faults_and_makes_each_order_once() {
    let client = Client::new();
    let kinds = [
        "request_lost",
        "response_lost",
        "truncated_response",
        "error_before",
        "error_after",
        "rate_limited",
    ];
    for (seed, kind) in kinds.iter().enumerate() {
        let rule = json!({"kind": kind, "path": "/v1/*", "times": null, "probability": 0.1, "seed": seed});
        client.fault(&rule).await;
    }
    // Longer than the client waits.
    let slow =
        json!({"kind": "latency", "method": "POST", "path": "/v1/orders", "delay_ms": 5000, "times": 3});
    client.fault(&slow).await;
    let numbers: Vec<_> = (0..12).map(|number| format!("STORM_{number}")).collect();
    join_all(numbers.iter().map(async |number| {
        assert!(matches!(client.write("/v1/orders", &order(number, 2990).to_string()).await, 200 | 201));
        client.0.pay(number).await.expect_data(200);
        let refund = refund(&format!("R_{number}"), number, 1000).to_string();
        assert!(matches!(client.write("/v1/refunds", &refund).await, 200 | 201));
        // Wrong at first, then mended under a new key.
        assert_eq!(client.write("/v1/orders", &order(&format!("X_{number}"), 0).to_string()).await, 400);
        assert!(matches!(
            client.write("/v1/orders", &order(&format!("X_{number}"), 1).to_string()).await,
            200 | 201
        ));
        assert_eq!(client.write(&format!("/v1/orders/X_{number}/close"), "").await, 200);
    }))
    .await;
    client.expect_pass().await;
    assert_eq!(client.report().await["operations"], json!(12 * 4));
    client.0.call(reqwest::Method::DELETE, "/sandbox/faults").send().await.expect_data(200);
    assert_eq!(client.0.all("/v1/orders?limit=100").await.len(), 24);
    assert_eq!(client.0.all("/v1/refunds?limit=100").await.len(), 12);
}

#[tokio::test]
async fn a_write_without_a_key_is_found() {
    let client = Client::new();
    let body = order("A1", 2990).to_string();
    assert_eq!(client.send("/v1/orders", None, &body, Some("response_lost")).await, None);
    client.pause().await;
    assert_eq!(client.send("/v1/orders", None, &body, None).await, Some(200));
    let finding = client.expect_finding("missing_key").await;
    assert_eq!(finding["request_ids"].as_array().unwrap().len(), 2);
    assert_eq!(finding["out_trade_no"], json!("A1"));
}

#[tokio::test]
async fn a_new_key_for_each_attempt_is_found_though_the_number_saved_the_order() {
    let client = Client::new();
    assert_eq!(client.order("A1", "k1", Some("response_lost")).await, None);
    client.pause().await;
    assert_eq!(client.order("A1", "k2", None).await, Some(200));
    let finding = client.expect_finding("new_key_per_retry").await;
    assert_eq!(finding["idempotency_keys"], json!(["k1", "k2"]));
    for member in ["message", "advice"] {
        assert!(finding[member].as_str().is_some_and(|text| text.ends_with('.')), "{finding}");
    }
}

#[tokio::test]
async fn a_new_key_after_a_day_is_none_for_a_retry() {
    let client = Client::new();
    assert_eq!(client.order("A1", "k1", None).await, Some(201));
    client.0.advance(24 * 60 * 60).await;
    assert_eq!(client.order("A1", "k2", None).await, Some(200));
    client.expect_pass().await;
}

#[tokio::test]
async fn one_key_for_two_orders_is_found() {
    let client = Client::new();
    assert_eq!(client.order("A1", "k1", None).await, Some(201));
    assert_eq!(client.order("A2", "k1", None).await, Some(400));
    client.expect_finding("shared_key").await;
}

#[tokio::test]
async fn a_timestamp_in_the_body_is_found_by_its_name() {
    let client = Client::new();
    let body = |timestamp: u32| {
        let mut body = order("A1", 2990);
        body["timestamp"] = json!(timestamp);
        body.to_string()
    };
    assert_eq!(client.send("/v1/orders", Some("k1"), &body(10), Some("response_lost")).await, None);
    client.pause().await;
    assert_eq!(client.send("/v1/orders", Some("k1"), &body(11), None).await, Some(400));
    let finding = client.expect_finding("body_changed").await;
    assert_eq!(finding["changed"], json!(["/timestamp"]));
    assert_eq!(finding["before"], json!({"/timestamp": 10}));
    assert_eq!(finding["after"], json!({"/timestamp": 11}));
}

#[tokio::test]
async fn a_retry_without_a_pause_is_found() {
    for fault in ["error_before", "error_after", "response_lost", "truncated_response"] {
        let client = Client::new();
        client.order("A1", "k1", Some(fault)).await;
        let answer = client.order("A1", "k1", None).await;
        assert!(matches!(answer, Some(200 | 201)), "{answer:?}");
        let path = "/sandbox/audit?min_backoff_ms=60000";
        let report = client.0.get(path).await.expect_data(200);
        assert_eq!(report["findings"][0]["rule"], json!("no_backoff"), "{fault}");
        assert_eq!(report["findings"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_duplicate_that_waits_for_its_409_to_pass_is_fine() {
    let client = Client::new();
    let held = client.0.hold(1000).await;
    held.first.await.expect("an answer");
    client.pause().await;
    let again = client.0.post("/v1/orders", &held.body).key(&held.key).send().await;
    assert!(again.is_replay());
    client.expect_pass().await;
}

#[tokio::test]
async fn a_final_error_that_is_retried_is_found() {
    let client = Client::new();
    let wrong = order("A1", 0).to_string();
    for key in ["k1", "k1", "k2"] {
        assert_eq!(client.send("/v1/orders", Some(key), &wrong, None).await, Some(400));
        client.pause().await;
    }
    let finding = client.expect_finding("retried_final_error").await;
    assert_eq!(finding["status"], json!(400));
    assert_eq!(finding["request_ids"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn an_event_is_found_as_long_as_no_delivery_of_it_is_acknowledged() {
    let (client, receiver) = (Client::new(), Receiver::start().await);
    client.0.set_webhook(&json!({"url": receiver.url("/")})).await.expect_data(200);
    receiver.answers_with(500);
    assert_eq!(client.order("A1", "k1", None).await, Some(201));
    client.0.pay("A1").await.expect_data(200);
    let event = client.0.newest_event().await;
    client.0.event_when(&event, |event| event["attempts"].as_i64() >= Some(1)).await;
    let finding = client.expect_finding("unacknowledged_webhook").await;
    expect_fields(&finding, &json!({"event_id": event, "out_trade_no": "A1", "request_ids": []}));

    receiver.answers_with(200);
    client.0.advance(15).await;
    client.0.event_when(&event, |event| event["status"] == json!("delivered")).await;
    client.expect_pass().await;
}

#[tokio::test]
async fn what_a_fault_spoilt_on_a_delivery_is_not_the_receivers() {
    for kind in ["webhook_lost", "webhook_bad_signature", "webhook_stale_timestamp"] {
        let (client, receiver) = (Client::new(), Receiver::start().await);
        client.0.set_webhook(&json!({"url": receiver.url("/")})).await.expect_data(200);
        client.0.set_clock(&json!({"frozen": true})).await.expect_data(200);
        client.fault(&json!({"kind": kind})).await;
        // As a correct receiver answers what it cannot verify.
        receiver.answers_with(400);
        assert_eq!(client.order("A1", "k1", None).await, Some(201));
        client.0.pay("A1").await.expect_data(200);
        let event = client.0.newest_event().await;
        client.0.event_when(&event, |event| event["attempts"] == json!(1)).await;
        client.expect_pass().await;
        // What nothing spoilt is the receiver's.
        client.0.advance(15).await;
        client.0.event_when(&event, |event| event["attempts"] == json!(2)).await;
        let finding = client.expect_finding("unacknowledged_webhook").await;
        expect_fields(&finding, &json!({"event_id": event, "attempts": 1}));
    }
}

#[tokio::test]
async fn a_bad_threshold_is_refused_by_name() {
    for bad in ["x", "-1", "1.5", "3600001"] {
        let answer = Merchant::new().get(&format!("/sandbox/audit?min_backoff_ms={bad}")).await;
        assert_eq!(answer.expect_refused("min_backoff_ms_invalid")["param"], json!("min_backoff_ms"));
    }
}
