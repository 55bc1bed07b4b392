//! `/sandbox/clock`, and what follows a merchant's clock: timestamps, keys after 24 hours, orders after
//! two (contract, sections 2, 4 and 7). Refunds that settle are in `payments`.

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::support::client::order;
use crate::support::{Merchant, Process, expect_fields};

const FROZEN: &str = "2026-11-04T08:30:00.000Z";

fn time_of(value: &Value) -> OffsetDateTime {
    OffsetDateTime::parse(value.as_str().unwrap(), &Rfc3339).unwrap()
}

#[tokio::test]
async fn a_clock_shows_real_time_until_it_is_advanced() {
    let merchant = Merchant::new();
    let before = OffsetDateTime::now_utc() - time::Duration::seconds(2);
    let clock = merchant.get("/sandbox/clock").await.expect_data(200);
    assert!((before..before + time::Duration::MINUTE).contains(&time_of(&clock["now"])), "{clock}");
    expect_fields(&clock, &json!({"offset_seconds": 0, "frozen": false}));

    let later = merchant.advance(86_400).await;
    assert_eq!(later["offset_seconds"], json!(86_400));
    assert!(time_of(&later["now"]) - time_of(&clock["now"]) >= time::Duration::DAY);
    assert_eq!(merchant.advance(60).await["offset_seconds"], json!(86_460));
    let created_at = time_of(&merchant.order("LATER", 100).await["created_at"]);
    assert!(created_at >= time_of(&later["now"]) + time::Duration::MINUTE);
    assert_eq!(Merchant::new().get("/sandbox/clock").await.expect_data(200)["offset_seconds"], json!(0));
}

#[tokio::test]
async fn a_frozen_clock_makes_answers_that_can_be_compared() {
    let merchant = Merchant::new();
    let clock = merchant.set_clock(&json!({"now": FROZEN, "frozen": true})).await.expect_data(200);
    expect_fields(&clock, &json!({"now": FROZEN, "frozen": true}));
    let order = merchant.order("FROZEN", 100).await;
    expect_fields(&order, &json!({"created_at": FROZEN, "expires_at": "2026-11-04T10:30:00.000Z"}));
    assert_eq!(merchant.pay("FROZEN").await.expect_data(200)["paid_at"], json!(FROZEN));

    assert_eq!(merchant.advance(90).await["now"], json!("2026-11-04T08:31:30.000Z"));
    assert_eq!(
        merchant.get("/sandbox/clock").await.expect_data(200)["now"],
        json!("2026-11-04T08:31:30.000Z")
    );
    let running = merchant.set_clock(&json!({"frozen": false})).await.expect_data(200);
    expect_fields(&running, &json!({"now": "2026-11-04T08:31:30.000Z", "frozen": false}));
}

#[tokio::test]
async fn a_time_that_no_clock_shows_is_refused() {
    let merchant = Merchant::new();
    for (body, code) in [
        (json!({"now": "yesterday"}), "now_invalid"),
        (json!({"now": 1_762_245_000}), "now_invalid"),
        (json!({"now": "1999-12-31T23:59:59Z"}), "clock_out_of_range"),
        (json!({"frozen": "yes"}), "frozen_invalid"),
    ] {
        merchant.set_clock(&body).await.expect_refused(code);
    }
    for (body, code) in [
        (json!({}), "seconds_missing"),
        (json!({"seconds": -1}), "seconds_invalid"),
        (json!({"seconds": 0.5}), "seconds_invalid"),
        (json!({"seconds": "60"}), "seconds_invalid"),
        (json!({"seconds": 9_223_372_036_854_775_807_i64}), "clock_out_of_range"),
        (json!({"seconds": 4_000_000_000_u64}), "clock_out_of_range"),
    ] {
        merchant.post("/sandbox/clock/advance", &body).send().await.expect_refused(code);
    }
    assert_eq!(merchant.get("/sandbox/clock").await.expect_data(200)["offset_seconds"], json!(0));
}

#[tokio::test]
async fn a_clock_that_is_advanced_to_a_time_twice_shows_it_once() {
    let merchant = Merchant::new();
    merchant.set_clock(&json!({"now": FROZEN, "frozen": true})).await.expect_data(200);
    let to = json!({"to": "2026-11-05T08:30:00Z"});
    for _ in 0..2 {
        let moved = merchant.post("/sandbox/clock/advance", &to).send().await.expect_data(200);
        expect_fields(&moved, &json!({"now": "2026-11-05T08:30:00.000Z", "due_work_done": true}));
    }
}

#[tokio::test]
async fn a_clock_is_never_advanced_backwards() {
    let merchant = Merchant::new();
    merchant.set_clock(&json!({"now": "2026-11-05T08:30:00Z", "frozen": true})).await.expect_data(200);
    let back = json!({"to": "2026-11-04T00:00:00Z"});
    let moved = merchant.post("/sandbox/clock/advance", &back).send().await.expect_data(200);
    assert_eq!(moved["now"], json!("2026-11-05T08:30:00.000Z"));
}

#[tokio::test]
async fn a_time_that_a_clock_cannot_be_advanced_to_is_refused() {
    let merchant = Merchant::new();
    for (body, code) in [
        (json!({"to": "2026-11-06T00:00:00Z", "seconds": 1}), "to_invalid"),
        (json!({"to": "tomorrow"}), "to_invalid"),
        (json!({"to": "2100-01-01T00:00:00Z"}), "clock_out_of_range"),
    ] {
        merchant.post("/sandbox/clock/advance", &body).send().await.expect_refused(code);
    }
}

#[tokio::test]
async fn a_key_is_kept_for_24_hours_and_then_new() {
    let merchant = Merchant::new();
    let body = order("KEPT", 100);
    let first = merchant.post("/v1/orders", &body).key("kept").send().await;
    merchant.advance(86_340).await;
    let replay = merchant.post("/v1/orders", &body).key("kept").send().await;
    replay.expect_replay_of(&first);

    merchant.advance(60).await;
    let later = merchant.post("/v1/orders", &body).key("kept").send().await;
    assert!(!later.is_replay());
    assert_eq!(later.expect_data(200)["trade_no"], first.expect_data(201)["trade_no"]);
    // What the key holds is the later response now, and its day starts anew.
    assert_eq!(merchant.post("/v1/orders", &body).key("kept").send().await.bytes, later.bytes);
    let other = merchant.post("/v1/orders", &order("OTHER", 100)).key("kept").send().await;
    other.expect_error(400, "idempotency_error", "idempotency_key_reused");
    merchant.advance(86_400).await;
    merchant.post("/v1/orders", &order("OTHER", 100)).key("kept").send().await.expect_data(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_progress_outlasts_its_24_hours() {
    let merchant = Merchant::new();
    let held = merchant.hold(5_000).await;
    merchant.advance(86_400).await;
    let again = merchant.post("/v1/orders", &held.body).key(&held.key).send().await;
    again.expect_error(409, "idempotency_in_progress", "idempotency_in_progress");
    let other = merchant.post("/v1/orders", &order("OTHER", 1)).key(&held.key).send().await;
    other.expect_error(409, "idempotency_in_progress", "idempotency_in_progress");
    held.first.await.unwrap().expect_data(201);
    // Its hours were over before it was answered: the key is new.
    let other = merchant.post("/v1/orders", &order("OTHER", 1)).key(&held.key).send().await;
    other.expect_data(201);
    let replay = merchant.post("/v1/orders", &order("OTHER", 1)).key(&held.key).send().await;
    replay.expect_replay_of(&other);
    let orders = merchant.all("/v1/orders").await;
    let made = |number: &Value| orders.iter().filter(|order| order["out_trade_no"] == *number).count();
    assert_eq!(made(&held.body["out_trade_no"]), 1);
    assert_eq!(made(&json!("OTHER")), 1);
}

#[tokio::test]
async fn an_order_expires_after_two_hours_and_is_closed_at_once() {
    let merchant = Merchant::new();
    merchant.set_clock(&json!({"now": FROZEN, "frozen": true})).await.expect_data(200);
    merchant.order("EXPIRING", 100).await;
    merchant.advance(7_199).await;
    assert_eq!(merchant.get("/v1/orders/EXPIRING").await.expect_data(200)["status"], json!("pending"));
    merchant.advance(1).await;
    let closed = merchant.get("/v1/orders/EXPIRING").await.expect_data(200);
    expect_fields(&closed, &json!({"status": "closed", "closed_at": closed["expires_at"]}));
    merchant.pay("EXPIRING").await.expect_refused("order_closed");
    assert_eq!(merchant.close("EXPIRING").await.expect_data(200), closed);
}

#[tokio::test]
async fn a_clock_outlives_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::on(&directory);
    let merchant = Merchant::at(&process.base_url);
    merchant.set_clock(&json!({"now": FROZEN, "frozen": true})).await.expect_data(200);
    process.kill();
    let process = Process::on(&directory);
    let clock = merchant.moved_to(&process.base_url).get("/sandbox/clock").await.expect_data(200);
    expect_fields(&clock, &json!({"now": FROZEN, "frozen": true}));
}
