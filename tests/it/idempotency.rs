//! The Idempotency-Key: replays, mismatches, what is stored and what is not (contract, section 4).
//! Duplicates that arrive at once are in `races`.

use std::sync::Arc;
use std::time::Duration;

use kukopay_sandbox::db::idempotency_keys::{self as keys, ClaimRequest, Claimed, Completion, KeyState};
use kukopay_sandbox::domain::api_key;
use kukopay_sandbox::domain::id::{MerchantId, RequestId};
use kukopay_sandbox::domain::idempotency::{BoundRequest, IdempotencyKey};
use reqwest::Method;
use serde_json::json;
use sqlx::{Connection, PgConnection};

use crate::support::client::{Held, order, refund};
use crate::support::{Merchant, server, wait_for};

#[tokio::test]
async fn the_same_request_is_replayed_byte_for_byte() {
    let merchant = Merchant::new();
    let body = order("REPLAYED", 2990);
    let first = merchant.post("/v1/orders", &body).key("replayed").send().await;
    let replay = merchant.post("/v1/orders", &body).key("replayed").send().await;
    first.expect_data(201);
    assert!(!first.is_replay());
    replay.expect_replay_of(&first);
}

#[tokio::test]
async fn a_replay_shows_the_first_answer_and_not_the_present_state() {
    let merchant = Merchant::new();
    let body = order("PAID_LATER", 100);
    let first = merchant.post("/v1/orders", &body).key("create").send().await;
    merchant.pay("PAID_LATER").await.expect_data(200);
    let replay = merchant.post("/v1/orders", &body).key("create").send().await;
    replay.expect_replay_of(&first);
    // Without the key, the number finds the order as it is now.
    let found = merchant.post("/v1/orders", &body).send().await.expect_data(200);
    assert_eq!(found["status"], json!("paid"));
}

#[tokio::test]
async fn another_body_is_an_error_that_names_what_changed() {
    let merchant = Merchant::new();
    let mut body = order("CHANGED", 2990);
    body["timestamp"] = json!(1);
    merchant.post("/v1/orders", &body).key("changed").send().await.expect_data(201);
    body["timestamp"] = json!(2);
    let answer = merchant.post("/v1/orders", &body).key("changed").send().await;
    let error = answer.expect_error(400, "idempotency_error", "idempotency_key_reused");
    assert_eq!(error["param"], json!("/timestamp"));
    assert_eq!(error["errors"][0]["message"], json!("It was 1, now it is 2."));
    assert!(error["message"].as_str().unwrap().contains("/timestamp"));
    assert!(!answer.is_replay());
}

#[tokio::test]
async fn other_bytes_of_the_same_json_are_told_as_such() {
    let merchant = Merchant::new();
    let body = order("FORMATTED", 2990);
    merchant.post("/v1/orders", &body).key("formatted").send().await.expect_data(201);
    let pretty = serde_json::to_vec_pretty(&body).unwrap();
    let call = merchant.call(Method::POST, "/v1/orders").header("Content-Type", "application/json");
    let answer = call.key("formatted").bytes(pretty).send().await;
    let error = answer.expect_error(400, "idempotency_error", "idempotency_key_reused");
    assert!(error["message"].as_str().unwrap().contains("same JSON, other bytes"));
    assert_eq!(error.get("errors"), None);
}

#[tokio::test]
async fn another_endpoint_is_an_error_that_names_the_first() {
    let merchant = Merchant::new();
    merchant.post("/v1/orders", &order("ELSEWHERE", 100)).key("elsewhere").send().await.expect_data(201);
    for path in ["/v1/refunds", "/v1/orders/ELSEWHERE/close", "/v1/orders?x=1"] {
        let answer = merchant.post(path, &order("ELSEWHERE", 100)).key("elsewhere").send().await;
        let error = answer.expect_error(400, "idempotency_error", "idempotency_key_reused");
        assert!(error["message"].as_str().unwrap().contains("POST /v1/orders"), "{error}");
    }
}

#[tokio::test]
async fn keys_are_the_merchants_own() {
    let (one, other) = (Merchant::new(), Merchant::new());
    let body = order("BOTH", 100);
    let first = one.post("/v1/orders", &body).key("key").send().await;
    let second = other.post("/v1/orders", &body).key("key").send().await;
    assert_ne!(first.expect_data(201)["trade_no"], second.expect_data(201)["trade_no"]);
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
            merchant.pay("UNPAID").await.expect_data(200);
        }
        let replay = merchant.post(path, body).key(&key).send().await;
        assert_eq!(first.status, *status, "{path}");
        assert!(!first.is_replay(), "{path}");
        replay.expect_replay_of(&first);
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
    created.expect_data(201);
    assert!(!created.is_replay());
}

#[tokio::test]
async fn errors_of_the_key_itself_are_not_stored_over_the_first_answer() {
    let merchant = Merchant::new();
    let Held { body, key, first } = merchant.hold(300).await;
    let mut changed = body.clone();
    changed["amount"] = json!(1);
    assert_eq!(merchant.post("/v1/orders", &changed).key(&key).send().await.status, 400);
    let first = first.await.unwrap();
    let replay = merchant.post("/v1/orders", &body).key(&key).send().await;
    replay.expect_replay_of(&first);
}

#[tokio::test]
async fn after_a_5xx_before_the_work_the_retry_runs() {
    let merchant = Merchant::new();
    let body = order("BEFORE", 100);
    let failing = merchant.post("/v1/orders", &body).key("before").header("X-Sandbox-Fault", "error_before");
    failing.send().await.expect_error(500, "api_error", "sandbox_fault");
    merchant.get("/v1/orders/BEFORE").await.expect_error(404, "invalid_request_error", "order_not_found");
    let retry = merchant.post("/v1/orders", &body).key("before").send().await;
    retry.expect_data(201);
    assert!(!retry.is_replay());
}

#[tokio::test]
async fn after_a_5xx_that_committed_the_number_finds_the_object() {
    let merchant = Merchant::new();
    merchant.paid_order("AFTER", 500).await;
    let body = refund("R", "AFTER", 200);
    let failing = merchant.post("/v1/refunds", &body).key("after");
    let failing = failing.header("X-Sandbox-Fault", "error_after;status=503").send().await;
    failing.expect_error(503, "api_connection_error", "sandbox_fault");
    // The fingerprint stays bound: another body is still refused.
    let other = merchant.post("/v1/refunds", &refund("R", "AFTER", 201)).key("after").send().await;
    other.expect_error(400, "idempotency_error", "idempotency_key_reused");
    let retry = merchant.post("/v1/refunds", &body).key("after").send().await;
    retry.expect_data(200);
    assert!(!retry.is_replay());
    assert!(merchant.post("/v1/refunds", &body).key("after").send().await.is_replay());
    let order = merchant.get("/v1/orders/AFTER").await.expect_data(200);
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
async fn malformed_keys_are_refused() {
    let merchant = Merchant::new();
    let body = order("KEYS", 100);
    for key in ["", &"k".repeat(256), "two words", "tab\there", "schlüssel"] {
        let answer = merchant.post("/v1/orders", &body).key(key).send().await;
        answer.expect_error(400, "invalid_request_error", "idempotency_key_invalid");
    }
    let twice = merchant.post("/v1/orders", &body).key("one").key("two").send().await;
    twice.expect_error(400, "invalid_request_error", "idempotency_key_invalid");
    let none = merchant.get("/v1/orders").await.expect_data(200);
    assert_eq!(none["items"], json!([]));
}

#[tokio::test]
async fn reads_ignore_a_key() {
    let merchant = Merchant::new();
    merchant.call(Method::GET, "/v1/orders").key("two words").send().await.expect_data(200);
}

#[tokio::test]
async fn keys_of_every_form_that_clients_use_are_taken() {
    let merchant = Merchant::new();
    let body = order("KEYS", 100);
    for key in ["order_20261104000001", "8f14e45f-ea2a-4c6f-9d3b-1b7c2a55e901", &"~".repeat(255)] {
        let answer = merchant.post("/v1/orders", &body).key(key).send().await;
        assert!(matches!(answer.status, 200 | 201));
    }
}

#[tokio::test]
async fn the_first_request_keeps_its_key_while_it_is_slow() {
    let merchant = Merchant::new();
    // A duplicate has been told so.
    let held = merchant.hold(400).await;
    let replay = wait_for(async || {
        let answer = merchant.post("/v1/orders", &held.body).key(&held.key).send().await;
        if answer.status == 409 { Err("in progress") } else { Ok(answer) }
    })
    .await;
    replay.expect_replay_of(&held.first.await.unwrap());
}

#[tokio::test]
async fn an_answer_that_was_stored_late_is_never_taken_over() {
    let Some(url) = server::database_url() else { return };
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let merchant = api_key::merchant_of(&Merchant::new().api_key).unwrap();
    let key = IdempotencyKey::parse(b"late").unwrap();
    let bound = BoundRequest { method: "POST".into(), path: "/v1/orders".into(), body: b"{}".to_vec() };
    let bound = Arc::new(bound);
    let request = |lease| ClaimRequest {
        key: key.clone(),
        bound: Arc::clone(&bound),
        fingerprint: bound.fingerprint(),
        request_id: RequestId::generate(),
        lease,
    };
    // The holder sleeps past its lease, a retry finds the key free, and the holder wakes first.
    let Claimed::Ours(claim) = claim_one(&mut conn, merchant, request(Duration::ZERO)).await else {
        panic!("a new key")
    };
    let retry = request(Duration::from_secs(12));
    let Claimed::Found(found) = claim_one(&mut conn, merchant, retry.clone()).await else { panic!("in use") };
    assert!(matches!(found.state, KeyState::Free));
    let completion = Completion { key: key.clone(), claim, status: 201, body: "{}".into() };
    assert!(keys::complete(&mut conn, merchant, &completion).await.unwrap());
    assert!(keys::reclaim(&mut conn, merchant, &retry, &found).await.unwrap().is_none());
    let Claimed::Found(found) = claim_one(&mut conn, merchant, retry).await else { panic!("in use") };
    assert!(matches!(found.state, KeyState::Completed { status: 201, .. }));
}

async fn claim_one(conn: &mut PgConnection, merchant: MerchantId, request: ClaimRequest) -> Claimed {
    keys::claim_all(conn, merchant, &[request], 24).await.unwrap().pop().unwrap()
}

#[tokio::test]
async fn another_body_is_explained_without_card_numbers_and_api_keys() {
    let merchant = Merchant::new();
    let body = |card: &str| {
        let mut body = order("PAN", 2990);
        body["card"] = json!(card);
        body
    };
    let post = async |body: &serde_json::Value| merchant.post("/v1/orders", body).key("pan").send().await;
    let first = post(&body("4242424242424242")).await;
    let explained = async |card: &str| {
        let answer = post(&body(card)).await;
        answer.expect_error(400, "idempotency_error", "idempotency_key_reused")
    };
    let error = explained("4000 0000 0000 0002").await;
    assert_eq!(
        error["errors"],
        json!([{"param": "/card", "code": "idempotency_body_changed",
            "message": "It was \"4242********4242\", now it is \"4000 **** **** 0002\"."}])
    );
    let error = explained("kuko_live_SECRET01").await;
    assert_eq!(
        error["errors"][0]["message"],
        json!("It was \"4242********4242\", now it is \"kuko_live_…\".")
    );
    // The masked copies are the same, and yet something differs.
    let error = explained("4242000000004242").await;
    assert!(
        error["message"].as_str().unwrap().contains("a card number or an API key in it differs"),
        "{error}"
    );
    assert_eq!(error.get("errors"), None);
    let audit = merchant.get("/sandbox/audit").await.expect_data(200);
    assert!(audit["findings"].to_string().contains("body_changed"), "{audit}");
    post(&body("4242424242424242")).await.expect_replay_of(&first);
}

#[tokio::test]
async fn an_explanation_is_bounded_however_much_has_changed() {
    let merchant = Merchant::new();
    let name = "n".repeat(32_000);
    let body = |digit: usize| json!({&name: vec![digit; 15_000]});
    let post = async |body| merchant.post("/v1/orders", &body).key("large").send().await;
    post(body(1)).await.expect_refused("out_trade_no_missing");
    let answer = post(body(2)).await;
    let error = answer.expect_error(400, "idempotency_error", "idempotency_key_reused");
    assert_eq!(error["errors"].as_array().unwrap().len(), 20);
    assert_eq!(error["param"], json!(format!("/{}…/0", "n".repeat(60))));
    assert!(error["message"].as_str().unwrap().contains(" and 14980 more."), "{error}");
    assert!(answer.bytes.len() < 10_000, "{}", answer.bytes.len());
}

/// On a database server only, where the test can look into the database.
#[tokio::test]
async fn the_copy_under_a_key_is_masked() {
    let Some(url) = server::database_url() else { return };
    let merchant = Merchant::new();
    let mut body = order("4000000000000002", 100);
    body["card"] = json!("4242424242424242");
    let path = "/v1/orders?k=kuko_live_SECRET01";
    merchant.post(path, &body).key("copy").send().await.expect_data(201);
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let id = api_key::merchant_of(&merchant.api_key).unwrap();
    let copy: (String, Vec<u8>) =
        sqlx::query_as("SELECT path, request_body FROM idempotency_keys WHERE merchant_id = $1")
            .bind(id.uuid())
            .fetch_one(&mut conn)
            .await
            .unwrap();
    body["card"] = json!("4242********4242");
    assert_eq!(copy, ("/v1/orders?k=kuko_live_…".to_owned(), body.to_string().into_bytes()));
}
