//! Fixtures: over `POST /sandbox/fixtures` and from files at start (contract, section 7). What a file may
//! get wrong, and how that is told, is tested beside the reader of files.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::client::order;
use crate::support::process::{command, expect_failure, storage};
use crate::support::{Answer, Merchant, Process, expect_fields};

const EVERY_STATE: &str = include_str!("../../fixtures/scenarios/every_state.json");

async fn load(merchant: &Merchant, fixtures: &Value) -> Answer {
    merchant.post("/sandbox/fixtures", fixtures).send().await
}

#[tokio::test]
async fn objects_are_there_in_their_states() {
    let merchant = Merchant::new();
    let loaded = merchant.post_bytes("/sandbox/fixtures", EVERY_STATE).send().await.expect_data(201);
    expect_fields(&loaded, &json!({"orders": 6, "refunds": 3}));
    for (no, status, refunded) in [
        ("STATE_PENDING", "pending", 0),
        ("STATE_FAILED", "pending", 0),
        ("STATE_CLOSED", "closed", 0),
        ("STATE_PAID", "paid", 0),
        ("STATE_PARTIAL", "paid", 1000),
        ("STATE_REFUNDED", "refunded", 1000),
    ] {
        let order = merchant.get(&format!("/v1/orders/{no}")).await.expect_data(200);
        expect_fields(&order, &json!({"status": status, "amount_refunded": refunded}));
    }
    let paid = merchant.get("/v1/orders/STATE_PAID").await.expect_data(200);
    expect_fields(
        &paid,
        &json!({
            "payment": {"brand": "unionpay"},
            "created_at": "2026-11-04T08:30:00.000Z", "paid_at": "2026-11-04T08:31:07.000Z",
        }),
    );
    let failed = merchant.get("/v1/orders/STATE_FAILED").await.expect_data(200);
    assert_eq!(failed["failure"]["code"], json!("card_declined"));
    let refund = merchant.get("/v1/refunds/STATE_PARTIAL_2").await.expect_data(200);
    expect_fields(&refund, &json!({"status": "failed", "failure": {"code": "expired_or_canceled_card"}}));
}

#[tokio::test]
async fn loading_again_changes_nothing() {
    let merchant = Merchant::new();
    merchant.post_bytes("/sandbox/fixtures", EVERY_STATE).send().await.expect_data(201);
    let before = merchant.all("/v1/orders").await;
    let again = merchant.post_bytes("/sandbox/fixtures", EVERY_STATE).send().await.expect_data(201);
    expect_fields(&again, &json!({"orders": 0, "refunds": 0}));
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
        let error = load(&merchant, &fixtures).await.expect_refused(code);
        assert_eq!(error["param"], json!(param));
        merchant.get("/v1/orders/NEW").await.expect_not_found("order_not_found");
    }
}

/// An order in a status, of which one member is this time.
fn order_of(no: &str, status: &str, member: &str, time: &str) -> Value {
    let mut order = order(no, 100);
    order["status"] = json!(status);
    order[member] = json!(time);
    json!({"orders": [order]})
}

/// The times that an order may bring along.
const TIMES: [(&str, &str); 4] =
    [("pending", "created_at"), ("paid", "created_at"), ("paid", "paid_at"), ("closed", "closed_at")];

#[tokio::test]
async fn times_beyond_the_clocks_range_are_refused() {
    let merchant = Merchant::new();
    let beyond = [
        "9999-12-31T23:59:59.999Z",
        "9999-12-31T00:00:00-23:59",
        "2100-01-01T00:00:00Z",
        "1999-12-31T23:59:59Z",
    ];
    for time in beyond {
        for (status, member) in TIMES {
            let answer = load(&merchant, &order_of("BEYOND", status, member, time)).await;
            let error = answer.expect_refused(&format!("{member}_invalid"));
            assert_eq!(error["param"], json!(format!("/orders/0/{member}")));
        }
        let refund = json!({"out_refund_no": "R", "out_trade_no": "A", "amount": 1, "created_at": time});
        let error = load(&merchant, &json!({"refunds": [refund]})).await.expect_refused("created_at_invalid");
        assert_eq!(error["param"], json!("/refunds/0/created_at"));
    }
}

#[tokio::test]
async fn times_at_the_ends_of_the_clocks_range_are_loaded_and_what_is_due_is_done() {
    let merchant = Merchant::new();
    for (n, time) in ["2000-01-01T00:00:00.000Z", "2099-12-31T23:59:59.999Z"].into_iter().enumerate() {
        for (status, member) in TIMES {
            let no = format!("TIME_{n}_{status}_{member}");
            load(&merchant, &order_of(&no, status, member, time)).await.expect_data(201);
            assert_eq!(
                merchant.get(&format!("/v1/orders/{no}")).await.expect_data(200)["created_at"],
                json!(time)
            );
        }
        let of = format!("TIME_{n}_paid_paid_at");
        let refund = json!({"out_refund_no": format!("R{n}"), "out_trade_no": of, "amount": 1, "created_at": time, "status": "pending"});
        load(&merchant, &json!({"refunds": [refund]})).await.expect_data(201);
    }
    // Whatever the clock shows, what is due is worked off.
    merchant.set_clock(&json!({"now": "2099-12-31T23:59:59.999Z", "frozen": true})).await.expect_data(200);
    merchant.order("LAST", 100).await;
    assert_eq!(merchant.get("/v1/refunds/R0").await.expect_data(200)["status"], json!("succeeded"));
    assert_eq!(
        merchant.get("/v1/orders/TIME_0_pending_created_at").await.expect_data(200)["status"],
        json!("closed")
    );
    let last = merchant.get("/v1/orders/LAST").await.expect_data(200);
    assert_eq!(last["expires_at"], json!("2100-01-01T01:59:59.999Z"));
}

#[tokio::test]
async fn pending_refunds_of_a_fixture_settle() {
    let merchant = Merchant::new();
    merchant.set_clock(&json!({"frozen": true})).await.expect_data(200);
    let mut paid = order("SETTLING", 100);
    paid["status"] = json!("paid");
    let refund = json!({"out_refund_no": "R", "out_trade_no": "SETTLING", "amount": 60, "status": "pending"});
    load(&merchant, &json!({"orders": [paid], "refunds": [refund]})).await.expect_data(201);
    assert_eq!(merchant.get("/v1/refunds/R").await.expect_data(200)["status"], json!("pending"));
    merchant.advance(5).await;
    assert_eq!(merchant.get("/v1/refunds/R").await.expect_data(200)["status"], json!("succeeded"));
}

#[tokio::test]
async fn fault_rules_are_loaded_once_though_they_have_struck_and_strike_in_their_order() {
    let merchant = Merchant::new();
    let rules = json!([
        {"kind": "error_before", "status": 501},
        {"kind": "error_before", "status": 502, "path": "/v1/orders"},
        {"kind": "latency", "delay_ms": 0, "times": null, "probability": 0.5}
    ]);
    assert_eq!(load(&merchant, &json!({"faults": rules})).await.expect_data(201)["faults"], json!(3));
    assert_eq!(load(&merchant, &json!({"faults": rules})).await.expect_data(201)["faults"], json!(0));
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
    assert_eq!(load(&merchant, &json!({"faults": rules})).await.expect_data(201)["faults"], json!(0));
}

#[tokio::test]
async fn fault_rules_that_make_no_sense_are_refused_by_their_place() {
    let merchant = Merchant::new();
    let rule = json!({"kind": "error_before"});
    for (faults, param) in [
        (json!([{"kind": "crash"}]), "/faults/0/kind"),
        (json!([rule, {"kind": "latency"}]), "/faults/1/delay_ms"),
        (json!([{"kind": "latency", "delay_ms": 1, "tmies": 2}]), "/faults/0/tmies"),
        (json!({}), "/faults"),
    ] {
        let error = load(&merchant, &json!({"faults": faults})).await.json();
        assert_eq!(error["param"], json!(param), "{error}");
    }
    assert_eq!(merchant.all("/sandbox/faults").await.len(), 0);
}

#[tokio::test]
async fn more_fault_rules_than_a_merchant_may_have_are_refused_all() {
    let merchant = Merchant::new();
    let many: Vec<_> =
        (0..101).map(|n| json!({"kind": "request_lost", "out_trade_no": format!("N{n}")})).collect();
    load(&merchant, &json!({"faults": many})).await.expect_refused("too_many_faults");
    assert_eq!(merchant.all("/sandbox/faults").await.len(), 0);
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
        let order = merchant.get("/v1/orders/FROM_YAML").await.expect_data(200);
        expect_fields(&order, &json!({"status": "paid", "subject": "年度"}));
        assert_eq!(merchant.all("/v1/orders").await.len(), 7);
        process.kill();
    }

    let conflicting = yaml.replace("amount: 5", "amount: 6");
    write("c.yaml", &format!("api_key: {}\n{conflicting}", merchant.api_key));
    let text = expect_failure(command(&arguments)).await;
    assert!(text.contains("c.yaml:3: /orders/0/amount: amount was 5 at first, now it is 6."), "{text}");
}

#[test]
fn the_scenarios_that_come_along_can_be_read() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/scenarios");
    let policy = kukopay_sandbox::domain::webhook::web_url::NotifyPolicy::Anywhere;
    let files = kukopay_sandbox::fixture_files::read(&directory, policy).unwrap();
    assert_eq!(files.len(), 3);
}
