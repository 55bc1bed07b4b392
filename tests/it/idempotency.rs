//! The Idempotency-Key: replays, mismatches, what is stored and what is not (contract, section 4).
//! Duplicates that arrive at once are in `races`.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::support::Merchant;
use crate::support::client::{Held, order, refund};

#[tokio::test]
async fn the_same_request_is_replayed_byte_for_byte() {
    let merchant = Merchant::new();
    let body = order("REPLAYED", 2990);
    let first = merchant.post("/v1/orders", &body).key("replayed").send().await;
    let replay = merchant.post("/v1/orders", &body).key("replayed").send().await;
    first.data(201);
    assert!(!first.is_replay() && replay.is_replay());
    assert_eq!((replay.status, &replay.bytes), (201, &first.bytes));
    assert_eq!(replay.header("x-request-id"), first.header("x-request-id"));
}

#[tokio::test]
async fn a_replay_shows_the_first_answer_and_not_the_present_state() {
    let merchant = Merchant::new();
    let body = order("PAID_LATER", 100);
    let first = merchant.post("/v1/orders", &body).key("create").send().await;
    merchant.pay("PAID_LATER").await.data(200);
    let replay = merchant.post("/v1/orders", &body).key("create").send().await;
    assert_eq!(replay.bytes, first.bytes);
    // Without the key, the number finds the order as it is now.
    let found = merchant.post("/v1/orders", &body).send().await.data(200);
    assert_eq!(found["status"], json!("paid"));
}

#[tokio::test]
async fn another_body_is_an_error_that_names_what_changed() {
    let merchant = Merchant::new();
    let mut body = order("CHANGED", 2990);
    body["timestamp"] = json!(1);
    merchant.post("/v1/orders", &body).key("changed").send().await.data(201);
    body["timestamp"] = json!(2);
    let answer = merchant.post("/v1/orders", &body).key("changed").send().await;
    let error = answer.is_error(400, "idempotency_error", "idempotency_key_reused");
    assert_eq!(error["param"], json!("/timestamp"));
    assert_eq!(error["errors"][0]["message"], json!("It was 1, now it is 2."));
    assert!(error["message"].as_str().unwrap().contains("/timestamp"));
    assert!(!answer.is_replay());
}

#[tokio::test]
async fn other_bytes_of_the_same_json_are_told_as_such() {
    let merchant = Merchant::new();
    let body = order("FORMATTED", 2990);
    merchant.post("/v1/orders", &body).key("formatted").send().await.data(201);
    let pretty = serde_json::to_vec_pretty(&body).unwrap();
    let call = merchant.call(Method::POST, "/v1/orders").header("Content-Type", "application/json");
    let answer = call.key("formatted").bytes(pretty).send().await;
    let error = answer.is_error(400, "idempotency_error", "idempotency_key_reused");
    assert!(error["message"].as_str().unwrap().contains("same JSON, other bytes"));
    assert_eq!(error.get("errors"), None);
}

#[tokio::test]
async fn another_endpoint_is_an_error_that_names_the_first() {
    let merchant = Merchant::new();
    merchant.post("/v1/orders", &order("ELSEWHERE", 100)).key("elsewhere").send().await.data(201);
    for path in ["/v1/refunds", "/v1/orders/ELSEWHERE/close", "/v1/orders?x=1"] {
        let answer = merchant.post(path, &order("ELSEWHERE", 100)).key("elsewhere").send().await;
        let error = answer.is_error(400, "idempotency_error", "idempotency_key_reused");
        assert!(error["message"].as_str().unwrap().contains("POST /v1/orders"), "{error}");
    }
}

#[tokio::test]
async fn keys_are_the_merchants_own() {
    let (one, other) = (Merchant::new(), Merchant::new());
    let body = order("BOTH", 100);
    let first = one.post("/v1/orders", &body).key("key").send().await;
    let second = other.post("/v1/orders", &body).key("key").send().await;
    assert_ne!(first.data(201)["trade_no"], second.data(201)["trade_no"]);
    assert!(!second.is_replay());
}

#[tokio::test]
async fn refusals_of_the_endpoint_are_stored() {
    let merchant = Merchant::new();
    merchant.order("UNPAID", 100).await;
    let refusals = [
        ("/v1/orders", order("BAD", 0), 400),
        ("/v1/refunds", refund("R", "UNPAID", 1), 400),
        ("/v1/refunds", refund("R", "NOWHERE", 1), 404),
        ("/v1/orders/NOWHERE/close", json!({}), 404),
        ("/v1/orders", json!([]), 400),
    ];
    for (n, (path, body, status)) in refusals.iter().enumerate() {
        let key = format!("refusal_{n}");
        let first = merchant.post(path, body).key(&key).send().await;
        // By now the same refund would succeed; the answer stays the first.
        if n == 1 {
            merchant.pay("UNPAID").await.data(200);
        }
        let replay = merchant.post(path, body).key(&key).send().await;
        assert_eq!((first.status, first.is_replay()), (*status, false), "{path}");
        assert_eq!((replay.status, replay.is_replay()), (*status, true), "{path}");
        assert_eq!(replay.bytes, first.bytes);
    }
}

#[tokio::test]
async fn what_never_ran_is_not_stored() {
    let merchant = Merchant::new();
    let body = order("NOT_STORED", 100).to_string();
    let post = || merchant.call(Method::POST, "/v1/orders").key("not_stored");
    assert_eq!(post().bytes(body.clone()).send().await.status, 415);
    assert_eq!(
        post().header("Content-Type", "application/json").bytes(vec![b' '; 65537]).send().await.status,
        413
    );
    let unknown = merchant.call(Method::PUT, "/v1/orders").key("not_stored").send().await;
    assert_eq!(unknown.status, 405);
    let created = post().header("Content-Type", "application/json").bytes(body).send().await;
    created.data(201);
    assert!(!created.is_replay());
}

#[tokio::test]
async fn errors_of_the_key_itself_are_not_stored_over_the_first_answer() {
    let merchant = Merchant::new();
    let Held { body, key, first, duplicate } = merchant.hold(300).await;
    assert_eq!(duplicate.0.status, 409);
    let mut changed = body.clone();
    changed["amount"] = json!(1);
    assert_eq!(merchant.post("/v1/orders", &changed).key(&key).send().await.status, 400);
    let first = first.await.unwrap();
    let replay = merchant.post("/v1/orders", &body).key(&key).send().await;
    assert_eq!(replay.bytes, first.bytes);
}

#[tokio::test]
async fn after_a_5xx_before_the_work_the_retry_runs() {
    let merchant = Merchant::new();
    let body = order("BEFORE", 100);
    let failing = merchant.post("/v1/orders", &body).key("before").header("X-Sandbox-Fault", "error_before");
    failing.send().await.is_error(500, "api_error", "sandbox_fault");
    merchant.get("/v1/orders/BEFORE").await.is_error(404, "invalid_request_error", "order_not_found");
    let retry = merchant.post("/v1/orders", &body).key("before").send().await;
    retry.data(201);
    assert!(!retry.is_replay());
}

#[tokio::test]
async fn after_a_5xx_that_committed_the_number_finds_the_object() {
    let merchant = Merchant::new();
    merchant.paid_order("AFTER", 500).await;
    let body = refund("R", "AFTER", 200);
    let failing = merchant.post("/v1/refunds", &body).key("after");
    let failing = failing.header("X-Sandbox-Fault", "error_after;status=503").send().await;
    failing.is_error(503, "api_connection_error", "sandbox_fault");
    // The fingerprint stays bound: another body is still refused.
    let other = merchant.post("/v1/refunds", &refund("R", "AFTER", 201)).key("after").send().await;
    other.is_error(400, "idempotency_error", "idempotency_key_reused");
    let retry = merchant.post("/v1/refunds", &body).key("after").send().await;
    retry.data(200);
    assert!(!retry.is_replay());
    assert!(merchant.post("/v1/refunds", &body).key("after").send().await.is_replay());
    let order = merchant.get("/v1/orders/AFTER").await.data(200);
    assert_eq!(order["amount_refunded"], json!(200));
}

#[tokio::test]
async fn a_replay_writes_nothing_and_keeps_its_warning() {
    let merchant = Merchant::new();
    let mut body = order("TYPO", 100);
    body["notfy_url"] = json!("http://127.0.0.1/");
    for _ in 0..2 {
        let answer = merchant.post("/v1/orders", &body).key("typo").send().await;
        assert_eq!(answer.header("x-sandbox-ignored-fields"), Some("notfy_url"));
    }
}

#[tokio::test]
async fn malformed_keys_are_refused_and_gets_ignore_them() {
    let merchant = Merchant::new();
    let body = order("KEYS", 100);
    for key in ["", &"k".repeat(256), "two words", "tab\there", "schlüssel"] {
        let answer = merchant.post("/v1/orders", &body).key(key).send().await;
        answer.is_error(400, "invalid_request_error", "idempotency_key_invalid");
    }
    let twice = merchant.post("/v1/orders", &body).key("one").key("two").send().await;
    twice.is_error(400, "invalid_request_error", "idempotency_key_invalid");
    let none = merchant.get("/v1/orders").await.data(200);
    assert_eq!(none["items"], json!([]));
    merchant.call(Method::GET, "/v1/orders").key("two words").send().await.data(200);
    for key in ["order_20261104000001", "8f14e45f-ea2a-4c6f-9d3b-1b7c2a55e901", &"~".repeat(255)] {
        let answer = merchant.post("/v1/orders", &body).key(key).send().await;
        assert!(matches!(answer.status, 200 | 201));
    }
}

#[tokio::test]
async fn the_first_request_keeps_its_key_while_it_is_slow() {
    let merchant = Merchant::new();
    let held = merchant.hold(400).await;
    let mut duplicates = 0;
    let replay = loop {
        let answer = merchant.post("/v1/orders", &held.body).key(&held.key).send().await;
        if answer.status != 409 {
            break answer;
        }
        duplicates += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(duplicates > 0);
    assert_eq!(replay.bytes, held.first.await.unwrap().bytes);
}
