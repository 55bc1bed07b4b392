//! Fixtures: over `POST /sandbox/fixtures` and from files at start (contract, section 7). What a file may
//! get wrong, and how that is told, is tested beside the reader of files.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::client::order;
use crate::support::process::{command, failure, storage};
use crate::support::{Answer, Merchant, Process};

const EVERY_STATE: &str = include_str!("../../fixtures/scenarios/every_state.json");

async fn load(merchant: &Merchant, fixtures: &Value) -> Answer {
    merchant.post("/sandbox/fixtures", fixtures).send().await
}

#[tokio::test]
async fn objects_are_there_in_their_states() {
    let merchant = Merchant::new();
    let loaded = merchant.post_bytes("/sandbox/fixtures", EVERY_STATE).send().await.data(201);
    assert_eq!((&loaded["orders"], &loaded["refunds"]), (&json!(6), &json!(3)));
    for (no, status, refunded) in [
        ("STATE_PENDING", "pending", 0),
        ("STATE_FAILED", "pending", 0),
        ("STATE_CLOSED", "closed", 0),
        ("STATE_PAID", "paid", 0),
        ("STATE_PARTIAL", "paid", 1000),
        ("STATE_REFUNDED", "refunded", 1000),
    ] {
        let order = merchant.get(&format!("/v1/orders/{no}")).await.data(200);
        assert_eq!((&order["status"], &order["amount_refunded"]), (&json!(status), &json!(refunded)), "{no}");
    }
    let paid = merchant.get("/v1/orders/STATE_PAID").await.data(200);
    assert_eq!(
        (&paid["payment"]["brand"], &paid["created_at"], &paid["paid_at"]),
        (&json!("unionpay"), &json!("2026-11-04T08:30:00.000Z"), &json!("2026-11-04T08:31:07.000Z"))
    );
    let failed = merchant.get("/v1/orders/STATE_FAILED").await.data(200);
    assert_eq!(failed["failure"]["code"], json!("card_declined"));
    let refund = merchant.get("/v1/refunds/STATE_PARTIAL_2").await.data(200);
    assert_eq!(
        (&refund["status"], &refund["failure"]["code"]),
        (&json!("failed"), &json!("expired_or_canceled_card"))
    );
}

#[tokio::test]
async fn loading_again_changes_nothing() {
    let merchant = Merchant::new();
    merchant.post_bytes("/sandbox/fixtures", EVERY_STATE).send().await.data(201);
    let before = merchant.all("/v1/orders").await;
    let again = merchant.post_bytes("/sandbox/fixtures", EVERY_STATE).send().await.data(201);
    assert_eq!((&again["orders"], &again["refunds"]), (&json!(0), &json!(0)));
    assert_eq!(merchant.all("/v1/orders").await, before);
}

#[tokio::test]
async fn fixtures_are_loaded_all_or_none() {
    let merchant = Merchant::new();
    merchant.order("TAKEN", 100).await;
    let paid = |no: &str, amount: i64| {
        let mut paid = order(no, amount);
        paid["status"] = json!("paid");
        paid
    };
    let refund = |no: &str, of: &str| json!({"out_refund_no": no, "out_trade_no": of, "amount": 60});
    for (fixtures, code, param) in [
        (
            json!({"orders": [paid("NEW", 100), paid("TAKEN", 200)]}),
            "out_trade_no_conflict",
            "/orders/1/amount",
        ),
        (
            json!({"orders": [paid("NEW", 100)], "refunds": [refund("R", "MISSING")]}),
            "order_not_found",
            "/refunds/0/out_trade_no",
        ),
        (
            json!({"orders": [paid("NEW", 100)], "refunds": [refund("R1", "NEW"), refund("R2", "NEW")]}),
            "refund_exceeds_remaining",
            "/refunds/1/amount",
        ),
        (json!({"refunds": [refund("R", "TAKEN")]}), "order_not_paid", "/refunds/0/out_trade_no"),
        (
            json!({"orders": [paid("NEW", 100), paid("A B", 1)]}),
            "out_trade_no_invalid",
            "/orders/1/out_trade_no",
        ),
        (json!({"order": []}), "field_unknown", "/order"),
    ] {
        let error = load(&merchant, &fixtures).await.is_refused(code);
        assert_eq!(error["param"], json!(param));
        merchant.get("/v1/orders/NEW").await.is_not_found("order_not_found");
    }
}

#[tokio::test]
async fn pending_refunds_of_a_fixture_settle() {
    let merchant = Merchant::new();
    merchant.set_clock(&json!({"frozen": true})).await.data(200);
    let mut paid = order("SETTLING", 100);
    paid["status"] = json!("paid");
    let refund = json!({"out_refund_no": "R", "out_trade_no": "SETTLING", "amount": 60, "status": "pending"});
    load(&merchant, &json!({"orders": [paid], "refunds": [refund]})).await.data(201);
    assert_eq!(merchant.get("/v1/refunds/R").await.data(200)["status"], json!("pending"));
    merchant.advance(5).await;
    assert_eq!(merchant.get("/v1/refunds/R").await.data(200)["status"], json!("succeeded"));
}

#[tokio::test]
async fn fault_rules_are_loaded_once_and_strike_in_their_order() {
    let merchant = Merchant::new();
    let rules = json!([
        {"kind": "error_before", "status": 501},
        {"kind": "error_before", "status": 502, "path": "/v1/orders"},
        {"kind": "latency", "delay_ms": 0, "times": null, "probability": 0.5}
    ]);
    assert_eq!(load(&merchant, &json!({"faults": rules})).await.data(201)["faults"], json!(3));
    assert_eq!(load(&merchant, &json!({"faults": rules})).await.data(201)["faults"], json!(0));
    let statuses = [
        merchant.get("/v1/orders").await.status,
        merchant.get("/v1/orders").await.status,
        merchant.get("/v1/orders").await.status,
    ];
    assert_eq!(statuses, [501, 502, 200]);
    let fired: Vec<_> =
        merchant.all("/sandbox/faults").await.iter().map(|rule| rule["fired"].clone()).collect();
    assert_eq!(fired[1..], [json!(1), json!(1)]);
    // What has struck is not made anew.
    assert_eq!(load(&merchant, &json!({"faults": rules})).await.data(201)["faults"], json!(0));

    for (faults, param) in [
        (json!([{"kind": "crash"}]), "/faults/0/kind"),
        (json!([rules[0], {"kind": "latency"}]), "/faults/1/delay_ms"),
        (json!([{"kind": "latency", "delay_ms": 1, "tmies": 2}]), "/faults/0/tmies"),
        (json!({}), "/faults"),
    ] {
        let error = load(&merchant, &json!({"faults": faults})).await.json();
        assert_eq!(error["param"], json!(param), "{error}");
    }
    let many: Vec<_> =
        (0..101).map(|n| json!({"kind": "request_lost", "out_trade_no": format!("N{n}")})).collect();
    let error = load(&merchant, &json!({"faults": many})).await.is_refused("too_many_faults");
    assert_eq!(merchant.all("/sandbox/faults").await.len(), 3, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_files_is_loaded_at_start_and_again_at_the_next() {
    let (data, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let merchant = Merchant::at("");
    let write = |name: &str, text: &str| std::fs::write(files.path().join(name), text).unwrap();
    let yaml =
        "orders:\n- {out_trade_no: FROM_YAML, amount: 5, currency: USD, subject: 年度, status: paid}\n";
    write("a.yaml", &format!("api_key: {}\n{yaml}", merchant.api_key));
    let mut json: Value = serde_json::from_str(EVERY_STATE).unwrap();
    json["api_key"] = json!(merchant.api_key);
    write("b.json", &json.to_string());
    let storage = storage(&data);
    let arguments = [&storage[0], &storage[1], "--fixtures", files.path().to_str().unwrap()];
    for _ in 0..2 {
        let process = Process::start(&arguments);
        let merchant = merchant.moved_to(&process.base_url);
        let order = merchant.get("/v1/orders/FROM_YAML").await.data(200);
        assert_eq!((&order["status"], &order["subject"]), (&json!("paid"), &json!("年度")));
        assert_eq!(merchant.all("/v1/orders").await.len(), 7);
        process.kill();
    }

    let conflicting = yaml.replace("amount: 5", "amount: 6");
    write("c.yaml", &format!("api_key: {}\n{conflicting}", merchant.api_key));
    let text = failure(command(&arguments)).await;
    assert!(text.contains("c.yaml:3: /orders/0/amount: amount was 5 at first, now it is 6."), "{text}");
}

#[test]
fn the_scenarios_that_come_along_can_be_read() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/scenarios");
    let policy = kukopay_sandbox::domain::web_url::NotifyPolicy::Anywhere;
    let files = kukopay_sandbox::fixture_files::read(&directory, policy).unwrap();
    assert_eq!(files.len(), 3);
}
