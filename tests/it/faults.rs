//! What a fault does to one call, asked for by `X-Sandbox-Fault`: what the client sees, and what has run
//! (contract, section 7). Rules are in `fault_rules`.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::client::{Held, order, refund};
use crate::support::{Answer, Merchant, raw};

/// An order, created under a fault.
async fn create(merchant: &Merchant, no: &str, fault: &str) -> reqwest::Result<Answer> {
    let call = merchant.post("/v1/orders", &order(no, 2990)).key(no);
    call.header("X-Sandbox-Fault", fault).try_send().await
}

/// The same request again, without a fault.
async fn retry(merchant: &Merchant, no: &str) -> Answer {
    merchant.post("/v1/orders", &order(no, 2990)).key(no).send().await
}

async fn count(merchant: &Merchant) -> usize {
    merchant.all("/v1/orders?limit=100").await.len()
}

/// What curl makes of an order under a fault: its exit code, and what it has received of a body.
async fn curl(merchant: &Merchant, no: &str, fault: &str) -> (i32, Vec<u8>) {
    let mut curl = tokio::process::Command::new("curl");
    curl.args(["--silent", "--max-time", "20", &format!("{}/v1/orders", merchant.base_url)]);
    for header in [
        format!("X-Api-Key: {}", merchant.api_key),
        format!("X-Sandbox-Fault: {fault}"),
        format!("Idempotency-Key: {no}"),
        "Content-Type: application/json".to_owned(),
    ] {
        curl.args(["--header", &header]);
    }
    let output =
        curl.args(["--data", &order(no, 2990).to_string()]).stdin(Stdio::null()).output().await.unwrap();
    (output.status.code().unwrap(), output.stdout)
}

#[tokio::test]
async fn a_lost_request_has_not_run() {
    let merchant = Merchant::new();
    let (code, body) = curl(&merchant, "LOST", "request_lost").await;
    assert!([52, 56].contains(&code) && body.is_empty(), "{code}");
    create(&merchant, "LOST", "request_lost").await.expect_err("no answer");
    assert_eq!(count(&merchant).await, 0);
    let retry = retry(&merchant, "LOST").await;
    assert!(!retry.is_replay());
    retry.expect_data(201);
}

#[tokio::test]
async fn a_lost_response_is_replayed_by_the_retry() {
    let merchant = Merchant::new();
    let (code, body) = curl(&merchant, "LOST", "response_lost").await;
    assert!([52, 56].contains(&code) && body.is_empty(), "{code}");
    let first = retry(&merchant, "LOST").await;
    assert!(first.is_replay());
    first.expect_data(201);
    // A replay can be lost as well.
    create(&merchant, "LOST", "response_lost").await.expect_err("no answer");
    retry(&merchant, "LOST").await.expect_replay_of(&first);
    assert_eq!(count(&merchant).await, 1);
}

#[tokio::test]
async fn a_truncated_response_announces_its_length_and_sends_half_of_it() {
    let merchant = Merchant::new();
    let (code, half) = curl(&merchant, "CUT", "truncated_response").await;
    assert_eq!(code, 18);
    let whole = retry(&merchant, "CUT").await;
    assert!(whole.is_replay());
    assert_eq!(half, whole.bytes[..whole.bytes.len() / 2]);
}

#[tokio::test]
async fn a_connection_is_closed_also_when_others_calls_were_on_it() {
    let merchant = Merchant::new();
    merchant.order("BEFORE", 1).await; // the client keeps this connection
    create(&merchant, "LOST", "response_lost").await.expect_err("no answer");
    assert!(retry(&merchant, "LOST").await.is_replay());
    let get =
        merchant.call(reqwest::Method::GET, "/v1/orders/LOST").header("X-Sandbox-Fault", "response_lost");
    get.try_send().await.expect_err("no answer");
}

/// The bytes of a request for an order, under a fault or none.
fn get_order(merchant: &Merchant, fault: Option<&str>) -> String {
    let fault = fault.map(|fault| format!("X-Sandbox-Fault: {fault}\r\n")).unwrap_or_default();
    let head = format!("Host: sandbox\r\nX-Api-Key: {}\r\n{fault}\r\n", merchant.api_key);
    format!("GET /v1/orders/PIPELINED HTTP/1.1\r\n{head}")
}

#[tokio::test]
async fn of_requests_that_come_in_one_piece_only_the_struck_one_is_lost() {
    let merchant = Merchant::new();
    merchant.order("PIPELINED", 1).await;
    let (whole, lost) = (get_order(&merchant, None), get_order(&merchant, Some("response_lost")));
    let answer = raw(&merchant.base_url, format!("{whole}{lost}{whole}").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(serde_json::from_str::<Value>(body).unwrap()["data"]["out_trade_no"], json!("PIPELINED"));
}

#[tokio::test]
async fn a_connection_ends_without_a_byte_or_after_half_of_the_body() {
    let merchant = Merchant::new();
    merchant.order("PIPELINED", 1).await;
    let lost = get_order(&merchant, Some("request_lost"));
    assert_eq!(raw(&merchant.base_url, lost.as_bytes()).await, "");
    let body = merchant.get("/v1/orders/PIPELINED").await.bytes;
    let cut = raw(&merchant.base_url, get_order(&merchant, Some("truncated_response")).as_bytes()).await;
    let (head, half) = cut.split_once("\r\n\r\n").unwrap();
    assert!(head.to_lowercase().contains(&format!("content-length: {}", body.len())), "{head}");
    assert_eq!(half.len(), body.len() / 2);
}

#[tokio::test]
async fn an_error_before_has_not_run_and_an_error_after_has() {
    let merchant = Merchant::new();
    let before = create(&merchant, "BEFORE", "error_before").await.unwrap();
    before.expect_error(500, "api_error", "sandbox_fault");
    assert_eq!(count(&merchant).await, 0);
    retry(&merchant, "BEFORE").await.expect_data(201);

    let after = create(&merchant, "AFTER", "error_after;status=503").await.unwrap();
    after.expect_error(503, "api_connection_error", "sandbox_fault");
    assert_eq!(count(&merchant).await, 2);
    // Nothing was stored, so this runs, and finds the order by its number.
    let second = retry(&merchant, "AFTER").await;
    assert!(!second.is_replay());
    second.expect_data(200);
}

#[tokio::test]
async fn after_an_error_after_the_work_the_key_stays_bound() {
    let merchant = Merchant::new();
    let after = create(&merchant, "AFTER", "error_after").await.unwrap();
    after.expect_error(500, "api_error", "sandbox_fault");
    retry(&merchant, "AFTER").await.expect_data(200);
    let other = merchant.post("/v1/orders", &order("AFTER", 1)).key("AFTER").send().await;
    other.expect_error(400, "idempotency_error", "idempotency_key_reused");
}

#[tokio::test]
async fn a_replay_can_fail_as_well() {
    let merchant = Merchant::new();
    retry(&merchant, "AFTER").await.expect_data(201);
    let replayed = create(&merchant, "AFTER", "error_after").await.unwrap();
    replayed.expect_error(500, "api_error", "sandbox_fault");
}

#[tokio::test]
async fn a_refund_after_an_error_is_found_by_its_number() {
    let merchant = Merchant::new();
    merchant.paid_order("ORDER", 1000).await;
    let call = || merchant.post("/v1/refunds", &refund("R", "ORDER", 400)).key("refund");
    let error = call().header("X-Sandbox-Fault", "error_after").send().await;
    error.expect_error(500, "api_error", "sandbox_fault");
    assert_eq!(call().send().await.expect_data(200)["out_refund_no"], json!("R"));
    assert_eq!(merchant.get("/v1/orders/ORDER").await.expect_data(200)["amount_refunded"], json!(400));
}

#[tokio::test]
async fn rate_limiting_says_when_to_come_back_and_keeps_nothing() {
    let merchant = Merchant::new();
    let limited = create(&merchant, "LIMITED", "rate_limited;retry_after=7").await.unwrap();
    limited.expect_error(429, "rate_limit_error", "rate_limited");
    assert_eq!(limited.header("retry-after"), Some("7"));
    // Nothing has run, so the key is bound to nothing.
    let other = merchant.post("/v1/orders", &order("OTHER", 1)).key("LIMITED").send().await;
    other.expect_data(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn latency_holds_the_key_and_a_duplicate_is_told_at_once() {
    let merchant = Merchant::new();
    merchant.order("WARM_UP", 1).await;
    let started = Instant::now();
    let held = merchant.hold(3000).await;
    held.expect_told_at_once(&merchant).await;
    let Held { body, key, first } = held;
    let first = first.await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(3));
    let replay = merchant.post("/v1/orders", &body).key(&key).send().await;
    replay.expect_replay_of(&first);
}

#[tokio::test]
async fn a_write_without_a_key_may_be_slower_than_the_work_is_given() {
    let merchant = Merchant::new();
    let started = Instant::now();
    let call = merchant.post("/v1/orders", &order("SLOW", 1));
    call.header("X-Sandbox-Fault", "latency;delay_ms=8500").send().await.expect_data(201);
    assert!(started.elapsed() >= Duration::from_millis(8500));
}

#[tokio::test]
async fn reads_go_wrong_too() {
    let merchant = Merchant::new();
    merchant.order("READ", 1).await;
    let get = |fault: &str| {
        merchant.call(reqwest::Method::GET, "/v1/orders/READ").header("X-Sandbox-Fault", fault).try_send()
    };
    get("error_before;status=504").await.unwrap().expect_error(504, "api_connection_error", "sandbox_fault");
    get("rate_limited").await.unwrap().expect_error(429, "rate_limit_error", "rate_limited");
    get("truncated_response").await.expect_err("half an answer");
    let started = Instant::now();
    get("latency;delay_ms=200").await.unwrap().expect_data(200);
    assert!(started.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn what_is_no_fault_is_refused_and_runs_nothing() {
    let merchant = Merchant::new();
    for fault in ["", "crash", "latency", "latency;delay_ms=-1", "response_lost;status=500", "webhook_lost"] {
        let error = create(&merchant, "NONE", fault).await.unwrap().expect_refused("fault_invalid");
        assert!(error["message"].as_str().unwrap().starts_with("The header X-Sandbox-Fault"), "{error}");
    }
    assert_eq!(count(&merchant).await, 0);
}

#[tokio::test]
async fn the_sandboxs_own_calls_never_go_wrong() {
    let merchant = Merchant::new();
    let clock =
        merchant.call(reqwest::Method::GET, "/sandbox/clock").header("X-Sandbox-Fault", "request_lost");
    clock.send().await.expect_data(200);
    merchant
        .post("/sandbox/faults", &json!({"kind": "request_lost", "times": null}))
        .send()
        .await
        .expect_data(201);
    merchant.get("/sandbox/clock").await.expect_data(200);
    assert_eq!(merchant.all("/sandbox/requests").await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_key_stays_bound_after_an_error_before_and_after_no_fault_that_says_nothing_ran() {
    let other = order("OTHER", 1);
    for status in [500, 502, 503, 504] {
        let merchant = Merchant::new();
        merchant.paid_order("PAID", 100).await;
        for (path, body, last) in [
            ("/v1/orders", order("FIRST", 2990), 201),
            ("/v1/refunds", refund("R", "PAID", 100), 201),
            ("/v1/orders/FIRST/close", json!({}), 200),
            ("/v1/orders", json!({"amount": 1}), 400),
        ] {
            let key = format!("{path}{last}");
            let send = |body: &Value| merchant.post(path, body).key(&key);
            let fault = format!("error_before;status={status}");
            // Under the fault, whatever the body, nothing runs and nothing else is told.
            for body in [&body, &other, &body] {
                let failed = send(body).header("X-Sandbox-Fault", &fault).send().await;
                assert_eq!(failed.status, status);
                assert_eq!(failed.json()["code"], json!("sandbox_fault"));
            }
            send(&other).send().await.expect_error(400, "idempotency_error", "idempotency_key_reused");
            let elsewhere = merchant.post("/v1/refunds?again", &body).key(&key).send().await;
            elsewhere.expect_error(400, "idempotency_error", "idempotency_key_reused");
            let first = send(&body).send().await;
            assert_eq!(first.status, last, "{path}");
            assert!(!first.is_replay(), "{path}");
            send(&body).send().await.expect_replay_of(&first);
            // A stored answer outlives the fault.
            assert_eq!(send(&body).header("X-Sandbox-Fault", &fault).send().await.status, status);
            assert!(send(&body).send().await.is_replay());
        }
    }
    let merchant = Merchant::new();
    for (n, fault) in ["request_lost", "rate_limited"].into_iter().enumerate() {
        let key = format!("unbound_{n}");
        let send = |no: &str| merchant.post("/v1/orders", &order(no, 1)).key(&key);
        let _ = send("A").header("X-Sandbox-Fault", fault).try_send().await;
        send(&format!("B{n}")).send().await.expect_data(201);
    }
}

#[tokio::test]
async fn without_a_key_an_error_before_binds_nothing_and_nothing_runs() {
    let merchant = Merchant::new();
    let keyless = merchant.post("/v1/orders", &order("KEYLESS", 1)).header("X-Sandbox-Fault", "error_before");
    assert_eq!(keyless.send().await.status, 500);
    merchant.get("/v1/orders/KEYLESS").await.expect_not_found("order_not_found");
}
