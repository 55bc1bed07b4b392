//! What a fault rule does to a delivery: the receiver gets it late, twice, signed wrongly or not at all
//! (contract, section 7). What rules match and count is in `fault_rules`.

use kukopay_sandbox::domain::webhook::signature::{self, SignatureError, TOLERANCE_SECONDS};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::support::receiver::{Hook, Manner, Receiver, with_receiver};
use crate::support::{Merchant, Process, expect_fields};

/// A merchant whose webhooks go to a receiver, whose time passes only when it is told to, and who has this
/// rule.
async fn under(rule: &Value) -> (Merchant, Receiver, Value) {
    let (merchant, receiver) = with_receiver().await;
    let rule = merchant.post("/sandbox/faults", rule).send().await.expect_data(201);
    (merchant, receiver, rule)
}

async fn attempts(merchant: &Merchant, id: &Value, count: u64) -> Vec<Value> {
    let event = merchant.event_when(id, |event| event["attempts"] == count).await;
    event["deliveries"].as_array().unwrap().clone()
}

async fn attempts_at_least(merchant: &Merchant, id: &Value, count: u64) -> Vec<Value> {
    let event = merchant.event_when(id, |event| event["attempts"].as_u64() >= Some(count)).await;
    event["deliveries"].as_array().unwrap().clone()
}

async fn fired(merchant: &Merchant, rule: &Value) -> Value {
    let path = format!("/sandbox/faults/{}", rule["id"].as_str().unwrap());
    merchant.get(&path).await.expect_data(200)["fired"].clone()
}

/// What a receiver finds wrong with a signature.
async fn verify(merchant: &Merchant, hook: &Hook) -> Result<(), SignatureError> {
    let settings = merchant.get("/sandbox/webhook").await.expect_data(200);
    let (secret, header) = (settings["secret"].as_str().unwrap(), hook.header("x-kukopay-signature"));
    let now = OffsetDateTime::now_utc().unix_timestamp();
    signature::verify(header, secret, &hook.body, now, TOLERANCE_SECONDS)
}

#[tokio::test]
async fn a_lost_one_is_sent_again_by_the_schedule() {
    let (merchant, receiver, rule) =
        under(&json!({"kind": "webhook_lost", "event_type": "payment.succeeded"})).await;
    let id = merchant.paid_event("LOST").await;
    let lost = attempts(&merchant, &id, 1).await.remove(0);
    expect_fields(&lost, &json!({"status": null, "response_excerpt": null, "fault": "webhook_lost"}));
    assert!(lost["error"].as_str().unwrap().starts_with("lost"), "{lost}");
    assert!(receiver.hooks().is_empty());
    merchant.advance(14).await;
    assert!(receiver.hooks().is_empty());
    merchant.advance(1).await;
    let hook = receiver.hook("payment.succeeded").await;
    assert_eq!(json!(hook.id()), id);
    let sent = attempts(&merchant, &id, 2).await.remove(1);
    expect_fields(&sent, &json!({"status": 200, "fault": null}));
    merchant.expect_event(&id, "delivered").await;
    assert_eq!(fired(&merchant, &rule).await, json!(1));
}

#[tokio::test]
async fn a_duplicate_comes_twice_with_the_same_id() {
    let (merchant, receiver, _) = under(&json!({"kind": "webhook_duplicate"})).await;
    let id = merchant.paid_event("TWICE").await;
    let hooks = receiver.until(|hooks| hooks.len() == 2).await;
    assert_eq!(json!(hooks[0].id()), id);
    assert_eq!(hooks[0].body, hooks[1].body);
    for hook in &hooks {
        assert_eq!(verify(&merchant, hook).await, Ok(()));
    }
    let both = attempts(&merchant, &id, 2).await;
    for attempt in &both {
        expect_fields(attempt, &json!({"status": 200, "fault": "webhook_duplicate"}));
    }
    merchant.expect_event(&id, "delivered").await;
}

#[tokio::test]
async fn of_a_duplicate_only_the_first_one_decides() {
    let (merchant, receiver, _) = under(&json!({"kind": "webhook_duplicate"})).await;
    receiver.answers_with(500);
    let id = merchant.paid_event("TWICE").await;
    attempts(&merchant, &id, 2).await;
    let event = merchant.expect_event(&id, "pending").await;
    receiver.answers_with(200);
    merchant.advance(15).await;
    merchant.expect_event(&id, "delivered").await;
    assert_eq!(receiver.hooks().len(), 3, "{event}");
}

#[tokio::test]
async fn a_delayed_one_comes_when_its_time_has_passed_and_keeps_the_order() {
    // Without an end: what was held back once is not held back for ever.
    let rule = json!({"kind": "webhook_delay", "delay_ms": 600_000, "event_type": "payment.succeeded", "times": null});
    let (merchant, receiver, rule) = under(&rule).await;
    let id = merchant.paid_event("LATE").await;
    let held = merchant.event_when(&id, |event| event["next_attempt_at"] != event["created_at"]).await;
    expect_fields(&held, &json!({"status": "pending", "attempts": 0}));
    let refund = json!({"out_refund_no": "R", "out_trade_no": "LATE", "amount": 1});
    merchant.post("/v1/refunds", &refund).send().await.expect_data(201);
    merchant.paid_order("OTHER", 1).await;
    merchant.advance(599).await;
    assert!(receiver.hooks().is_empty());
    merchant.advance(1).await;
    receiver.hook("refund.succeeded").await;
    let of_late = receiver
        .hooks()
        .into_iter()
        .filter(|hook| hook.event()["data"]["object"]["out_trade_no"] == json!("LATE"));
    let types: Vec<_> = of_late.map(|hook| hook.event()["type"].clone()).collect();
    assert_eq!(types, ["payment.succeeded", "refund.succeeded"]);
    merchant.expect_event(&id, "delivered").await;
    assert_eq!(fired(&merchant, &rule).await, json!(2));
}

#[tokio::test]
async fn a_bad_signature_and_a_stale_timestamp_are_what_a_receiver_must_refuse() {
    for (kind, expected) in [
        ("webhook_bad_signature", Err(SignatureError::NoMatch)),
        ("webhook_stale_timestamp", Err(SignatureError::Stale(600))),
    ] {
        let (merchant, receiver, _) = under(&json!({"kind": kind, "out_trade_no": "WRONG"})).await;
        receiver.answers_with(400);
        let id = merchant.paid_event("WRONG").await;
        assert_eq!(attempts(&merchant, &id, 1).await[0]["fault"], json!(kind));
        let wrong = receiver.hooks().remove(0);
        let found = match verify(&merchant, &wrong).await {
            Err(SignatureError::Stale(seconds)) if (600..660).contains(&seconds) => {
                Err(SignatureError::Stale(600))
            }
            other => other,
        };
        assert_eq!(found, expected, "{kind}");
        receiver.answers_with(200);
        merchant.advance(15).await;
        let right = receiver.until(|hooks| hooks.len() == 2).await.remove(1);
        assert_eq!(verify(&merchant, &right).await, Ok(()), "{kind}");
        assert_eq!(right.id(), wrong.id());
        merchant.expect_event(&id, "delivered").await;
    }
}

#[tokio::test]
async fn what_is_not_meant_arrives_as_ever() {
    let (merchant, receiver, rule) =
        under(&json!({"kind": "webhook_lost", "event_type": "order.closed", "times": null})).await;
    merchant
        .post("/sandbox/faults", &json!({"kind": "webhook_lost", "out_trade_no": "OTHER"}))
        .send()
        .await
        .expect_data(201);
    merchant
        .post("/sandbox/faults", &json!({"kind": "webhook_lost", "out_refund_no": "R"}))
        .send()
        .await
        .expect_data(201);
    let id = merchant.paid_event("MINE").await;
    merchant.expect_event(&id, "delivered").await;
    assert_eq!(receiver.hooks().len(), 1);
    assert_eq!(fired(&merchant, &rule).await, json!(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_was_cut_off_is_made_again_under_its_fault_which_counts_once() {
    let directory = tempfile::tempdir().unwrap();
    for kind in ["webhook_bad_signature", "webhook_duplicate"] {
        let receiver = Receiver::start().await;
        receiver.answers(Manner::Hang);
        let process = Process::on(&directory);
        let merchant = Merchant::at(&process.base_url);
        merchant.set_webhook(&json!({"url": receiver.url("/")})).await.expect_data(200);
        merchant.set_clock(&json!({"frozen": true})).await.expect_data(200);
        let rule = json!({"kind": kind, "out_trade_no": "CUT_OFF"});
        let rule = merchant.post("/sandbox/faults", &rule).send().await.expect_data(201);
        let id = merchant.paid_event("CUT_OFF").await;
        receiver.until(|hooks| !hooks.is_empty()).await;
        process.kill();
        receiver.answers_with(200);
        let process = Process::on(&directory);
        let merchant = merchant.moved_to(&process.base_url);
        let first = attempts_at_least(&merchant, &id, 1).await.remove(0);
        assert_eq!(first["fault"], json!(kind));
        assert_eq!(fired(&merchant, &rule).await, json!(1));
        let again = receiver.hooks().into_iter().next_back();
        if kind == "webhook_bad_signature" {
            assert_eq!(verify(&merchant, &again.unwrap()).await, Err(SignatureError::NoMatch));
        }
    }
}
