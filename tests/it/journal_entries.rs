//! What an entry of the journal tells of a call under `/v1`, and what it never keeps (contract, section 7).

use reqwest::Method;
use serde_json::{Value, json};

use crate::journal::entries;
use crate::support::client::{Held, order, raw};
use crate::support::{Merchant, expect_fields, wait_for};

#[tokio::test]
async fn an_entry_has_exactly_these_members() {
    let merchant = Merchant::new();
    let body = order("JOURNAL", 2990);
    let answer = merchant.post("/v1/orders?shop=1", &body).key("journal").send().await;
    let entry = entries(&merchant).await.remove(0);
    let expected = json!({
        "request_id": answer.header("x-request-id"), "at": entry["at"], "method": "POST",
        "path": "/v1/orders?shop=1", "idempotency_key": "journal", "request_headers": entry["request_headers"],
        "request_body": body.to_string(), "outcome": "executed", "fault": null, "status": 201,
        "response_body": String::from_utf8(answer.bytes.clone()).unwrap(), "answered": true,
        "duration_ms": entry["duration_ms"], "client_hung_up": false
    });
    assert_eq!(entry, expected);
    let headers = entry["request_headers"].as_object().unwrap();
    assert_eq!(headers["content-type"], json!("application/json"));
    assert_eq!(headers["x-api-key"], json!("kuko_test_…"));
    let one = merchant.get(&format!("/sandbox/requests/{}", answer.header("x-request-id").unwrap())).await;
    assert_eq!(one.expect_data(200), expected);
    assert!(!String::from_utf8(one.bytes).unwrap().contains(&merchant.api_key));
}

#[tokio::test]
async fn an_entry_that_is_not_there_is_not_found() {
    let merchant = Merchant::new();
    merchant.get("/sandbox/requests/req_none").await.expect_not_found("request_not_found");
}

#[tokio::test]
async fn every_outcome_is_told() {
    let merchant = Merchant::new();
    let post = |body: &Value| merchant.post("/v1/orders", body).key("told");
    let body = order("TOLD", 2990);
    post(&body).header("X-Sandbox-Fault", "error_before").send().await;
    post(&body).header("X-Sandbox-Fault", "request_lost").try_send().await.expect_err("lost");
    post(&body).header("X-Sandbox-Fault", "response_lost").try_send().await.expect_err("lost");
    post(&body).send().await.expect_data(201);
    post(&body).header("X-Sandbox-Fault", "truncated_response").try_send().await.expect_err("cut");
    post(&order("TOLD", 1)).send().await;
    post(&body).header("X-Sandbox-Fault", "rate_limited").send().await;
    merchant.get("/v1/orders/TOLD").await.expect_data(200);
    merchant.get("/v1/nothing").await.expect_not_found("endpoint_not_found");
    merchant.call(Method::DELETE, "/v1/orders").send().await;
    merchant.call(Method::POST, "/v1/orders").bytes("a=1").send().await;
    merchant.post_bytes("/v1/orders", "x".repeat(70_000)).send().await;
    merchant.anonymous(Method::GET, "/v1/orders").send().await;

    let told: Vec<_> = entries(&merchant)
        .await
        .iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            (text("outcome"), text("fault"), entry["status"].as_u64(), entry["answered"].as_bool().unwrap())
        })
        .collect();
    let expected = [
        ("error", "error_before", Some(500), true),
        ("error", "request_lost", None, false),
        ("executed", "response_lost", Some(201), false),
        ("replayed", "", Some(201), true),
        ("replayed", "truncated_response", Some(201), false),
        ("refused", "", Some(400), true),
        ("refused", "rate_limited", Some(429), true),
        ("executed", "", Some(200), true),
        ("refused", "", Some(404), true),
        ("refused", "", Some(405), true),
        ("refused", "", Some(415), true),
        ("refused", "", Some(413), true),
    ];
    let expected = expected
        .map(|(outcome, fault, status, answered)| (outcome.to_owned(), fault.to_owned(), status, answered));
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_is_seen() {
    let merchant = Merchant::new();
    let held = merchant.hold(400).await;
    held.first.await.unwrap().expect_data(201);
    let outcomes: Vec<_> = entries(&merchant).await.iter().map(|entry| entry["outcome"].clone()).collect();
    assert!(outcomes.contains(&json!("in_progress")), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_is_seen() {
    let merchant = Merchant::new();
    let Held { body, key, first } = merchant.hold(3000).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled(), "it was not answered yet");
    let executed = format!("/sandbox/requests?idempotency_key={key}&outcome=executed");
    let entry = wait_for(async || merchant.all(&executed).await.pop().ok_or("at work")).await;
    expect_fields(
        &entry,
        &json!({"client_hung_up": true, "answered": false, "outcome": "executed", "status": 201}),
    );
    assert!(merchant.post("/v1/orders", &body).key(&key).send().await.is_replay());
}

#[tokio::test]
async fn neither_card_numbers_nor_api_keys_are_kept_wherever_they_stand() {
    let merchant = Merchant::new();
    let card = "4242424242424242";
    let texts = [
        format!("a{card}"),
        format!("卡号{card}"),
        format!("\n{card} 12/26"),
        format!("{card} {card}"),
        "4242.4242.4242.4242".to_owned(),
        "4242\n4242\n4242\n4242".to_owned(),
        "４２４２４２４２４２４２４２４２".to_owned(),
        format!("see {}, or kuko_live_SECRET01", merchant.api_key),
    ];
    for (n, text) in texts.iter().enumerate() {
        let mut body = order(&format!("N{n}"), 100);
        (body["subject"], body["metadata"]) = (json!(text.replace('\n', " ")), json!({"note": text}));
        let call = merchant.post("/v1/orders", &body).key(&format!("key-{n}"));
        let sent = call.header("X-Note", &text.replace('\n', " ")).send().await;
        assert_eq!(sent.expect_data(201)["metadata"]["note"], json!(text), "the answer has it as sent");
    }
    for query in [
        "pan=4242424242424242",
        "pan=4242%204242%204242%204242",
        "pan=4242+4242+4242+4242",
        "k=kuko_live_SECRET01",
    ] {
        merchant.get(&format!("/v1/orders?{query}")).await.expect_data(200);
    }
    let call = merchant.post("/v1/orders", &order("CARD_AS_KEY", 100));
    call.key(card).header("Referer", "http://127.0.0.1/?k=kuko_live_SECRET01").send().await.expect_data(201);

    let entries = entries(&merchant).await;
    let kept = serde_json::to_string(&entries).unwrap();
    let digits: String = kept.chars().filter(|c| !matches!(c, ' ' | '.' | '+' | '-')).collect();
    for secret in [card, "42424242\\n", "４２４２４２４２４", "SECRET01", &merchant.api_key] {
        assert!(!kept.contains(secret) && !digits.contains(secret), "{secret} is in {kept}");
    }
    assert!(kept.contains("kuko_live_…") && kept.contains("4242********4242"), "{kept}");
    let by_key = merchant.all(&format!("/sandbox/requests?idempotency_key={card}")).await;
    assert_eq!(by_key[0]["idempotency_key"], json!("4242********4242"));
}

#[tokio::test]
async fn other_numbers_stay_as_they_are() {
    let merchant = Merchant::new();
    // A number may be all digits, and have the check digit of a card's.
    let mut body = order("4000000000000002", 100);
    let texts = (0..30).map(|n| {
        body["timestamp"] = json!(1_764_553_200_000_u64 + n);
        body.to_string()
    });
    for text in texts.collect::<Vec<_>>() {
        merchant.post_bytes("/v1/orders", text.clone()).send().await;
        let entry = &merchant.get("/sandbox/requests?limit=1").await.expect_data(200)["items"][0];
        assert_eq!(entry["request_body"], json!(text));
        let response: Value = serde_json::from_str(entry["response_body"].as_str().unwrap()).unwrap();
        assert!(crate::support::client::is_id("trd_", &response["data"]["trade_no"]), "{response}");
    }
}

#[tokio::test]
async fn times_are_those_of_the_merchant_before_the_clock_was_moved() {
    let merchant = Merchant::new();
    merchant.set_clock(&json!({"now": "2026-11-04T08:30:00Z", "frozen": true})).await.expect_data(200);
    merchant.order("EARLY", 100).await;
    merchant.advance(3600).await;
    merchant.order("LATE", 100).await;
    let times: Vec<_> = entries(&merchant).await.iter().map(|entry| entry["at"].clone()).collect();
    assert_eq!(times, ["2026-11-04T08:30:00.000Z", "2026-11-04T09:30:00.000Z"]);
}

#[tokio::test]
async fn of_many_headers_an_entry_keeps_some() {
    let merchant = Merchant::new();
    let mut call = merchant.call(Method::GET, "/v1/orders");
    for n in 0..85 {
        call = call.header(&format!("X-Long-{n}"), &"x".repeat(1000));
    }
    call.send().await.expect_data(200);
    let entry = entries(&merchant).await.remove(0);
    assert!(entry["request_headers"].to_string().len() < 10 * 1024);
    assert_eq!(entry["request_headers"]["x-api-key"], json!("kuko_test_…"));
}

#[tokio::test]
async fn a_body_that_is_no_text_is_journaled_all_the_same() {
    let merchant = Merchant::new();
    merchant.post_bytes("/v1/orders", [b"{\"a\":\"\0".as_slice(), &[0xff]].concat()).send().await;
    let entry = entries(&merchant).await.remove(0);
    assert_eq!(entry["request_body"], json!("{\"a\":\"\u{fffd}\u{fffd}"));
}

#[tokio::test]
async fn a_path_and_a_header_that_are_no_text_are_journaled_all_the_same() {
    let merchant = Merchant::new();
    let head = format!(
        "GET /v1/orders/%00 HTTP/1.1\r\nHost: a\r\nX-Api-Key: {}\r\nX-Odd: \u{e9}\r\nConnection: close\r\n\r\n",
        merchant.api_key
    );
    assert!(raw(&merchant.base_url, head.as_bytes()).await.starts_with("HTTP/1.1 404"));
    assert_eq!(entries(&merchant).await[0]["path"], json!("/v1/orders/%00"));
}
