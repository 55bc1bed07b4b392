//! `/sandbox/requests`: the journal of calls under `/v1` (contract, section 7).

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use kukopay_sandbox::db::requests::{self, Kept};
use kukopay_sandbox::domain::api_key;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use crate::support::client::{order, raw};
use crate::support::{Merchant, Process, server};

/// The entries, the oldest first.
async fn entries(merchant: &Merchant) -> Vec<Value> {
    let mut entries = merchant.all("/sandbox/requests?limit=100").await;
    entries.reverse();
    entries
}

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
    assert_eq!(one.data(200), expected);
    assert!(!String::from_utf8(one.bytes).unwrap().contains(&merchant.api_key));
    merchant.get("/sandbox/requests/req_none").await.is_not_found("request_not_found");
}

#[tokio::test]
async fn every_outcome_is_told() {
    let merchant = Merchant::new();
    let post = |body: &Value| merchant.post("/v1/orders", body).key("told");
    let body = order("TOLD", 2990);
    post(&body).header("X-Sandbox-Fault", "error_before").send().await;
    post(&body).header("X-Sandbox-Fault", "request_lost").try_send().await.expect_err("lost");
    post(&body).header("X-Sandbox-Fault", "response_lost").try_send().await.expect_err("lost");
    post(&body).send().await.data(201);
    post(&body).header("X-Sandbox-Fault", "truncated_response").try_send().await.expect_err("cut");
    post(&order("TOLD", 1)).send().await;
    post(&body).header("X-Sandbox-Fault", "rate_limited").send().await;
    merchant.get("/v1/orders/TOLD").await.data(200);
    merchant.get("/v1/nothing").await.is_not_found("endpoint_not_found");
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
async fn a_duplicate_and_a_client_that_hangs_up_are_seen() {
    let merchant = Merchant::new();
    let held = merchant.hold(400).await;
    held.first.await.unwrap().data(201);
    let outcomes: Vec<_> = entries(&merchant).await.iter().map(|entry| entry["outcome"].clone()).collect();
    assert!(outcomes.contains(&json!("in_progress")), "{outcomes:?}");

    let call = merchant.post("/v1/orders", &order("HANGS_UP", 1)).key("hangs_up");
    let call = call.header("X-Sandbox-Fault", "latency;delay_ms=600").timeout(Duration::from_millis(100));
    call.try_send().await.expect_err("the client hangs up");
    let entry = loop {
        let page = merchant.get("/sandbox/requests?idempotency_key=hangs_up").await.data(200);
        if let Some(entry) = page["items"].get(0) {
            break entry.clone();
        }
    };
    assert_eq!(
        (&entry["client_hung_up"], &entry["answered"], &entry["outcome"], &entry["status"]),
        (&json!(true), &json!(false), &json!("executed"), &json!(201))
    );
    let retry = merchant.post("/v1/orders", &order("HANGS_UP", 1)).key("hangs_up").send().await;
    assert!(retry.is_replay());
}

#[tokio::test]
async fn filters_choose() {
    let merchant = Merchant::new();
    let order_a = merchant.post("/v1/orders", &order("A", 100)).key("key_a").send().await.data(201);
    merchant.order("B", 100).await;
    merchant.pay("A").await.data(200);
    let refund = json!({"out_refund_no": "R", "out_trade_no": "A", "amount": 40});
    let refund = merchant.post("/v1/refunds", &refund).send().await.data(201);
    merchant.get("/v1/orders?out_trade_no=A").await.data(200);
    merchant.get("/v1/refunds/R").await.data(200);
    merchant.close("A").await.is_refused("order_already_paid");
    for (query, count) in [
        ("", 6),
        ("out_trade_no=A", 5),
        ("out_trade_no=B", 1),
        ("out_trade_no=A&method=POST", 3),
        ("out_refund_no=R", 2),
        ("idempotency_key=key_a", 1),
        ("path=/v1/orders", 3),
        ("path=/v1/orders&method=GET", 1),
        ("path=/v1/*/A/close", 1),
        ("path=/v1/%25", 0),
        ("status=201", 3),
        ("status=400", 1),
        ("outcome=refused", 1),
        ("outcome=executed&out_trade_no=A", 4),
        ("out_trade_no=NONE", 0),
    ] {
        assert_eq!(merchant.all(&format!("/sandbox/requests?{query}")).await.len(), count, "{query}");
    }
    // A call is found by the gateway's numbers too, which only its answer tells.
    for (name, object, count) in [("trade_no", &order_a, 3), ("refund_no", &refund, 2)] {
        let no = object[name].as_str().unwrap();
        let found = merchant.all(&format!("/sandbox/requests?{name}={no}")).await;
        assert_eq!(found.len(), count, "{name}");
        let both =
            merchant.all(&format!("/sandbox/requests?{name}={no}&out_trade_no=A&out_refund_no=R")).await;
        assert_eq!(both.len(), 2, "{name}");
        assert!(merchant.all(&format!("/sandbox/requests?{name}={no}&out_trade_no=B")).await.is_empty());
    }
    merchant.get("/sandbox/requests?outcome=odd").await.is_refused("outcome_invalid");
    merchant.get("/sandbox/requests?status=ok").await.is_refused("status_invalid");
    let page = merchant.get("/sandbox/requests?limit=2").await.data(200);
    let last = page["items"][1]["request_id"].as_str().unwrap();
    let next = merchant.get(&format!("/sandbox/requests?limit=4&starting_after={last}")).await.data(200);
    assert_eq!((&page["has_more"], &next["has_more"]), (&json!(true), &json!(false)));
    assert_eq!(Merchant::new().all("/sandbox/requests").await, Vec::<Value>::new());
}

#[tokio::test]
async fn what_may_be_a_cards_number_is_masked() {
    let merchant = Merchant::new();
    let mut body = order("CARD", 100);
    body["card"] = json!("4242424242424242");
    let call =
        merchant.post("/v1/orders?card=4242424242424242", &body).header("X-Card", "4242-4242-4242-4242");
    call.send().await.data(201);
    let text = merchant.get("/sandbox/requests").await.bytes;
    let text = String::from_utf8(text).unwrap();
    assert!(!text.contains("4242424242424242") && !text.contains("4242-4242-4242"), "{text}");
    assert_eq!(text.matches("4242********4242").count(), 2);
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
        let entry = &merchant.get("/sandbox/requests?limit=1").await.data(200)["items"][0];
        assert_eq!(entry["request_body"], json!(text));
        let response: Value = serde_json::from_str(entry["response_body"].as_str().unwrap()).unwrap();
        assert!(crate::support::client::is_id("trd_", &response["data"]["trade_no"]), "{response}");
    }
}

#[tokio::test]
async fn times_are_those_of_the_merchant_before_the_clock_was_moved() {
    let merchant = Merchant::new();
    merchant.set_clock(&json!({"now": "2026-11-04T08:30:00Z", "frozen": true})).await.data(200);
    merchant.order("EARLY", 100).await;
    merchant.advance(3600).await;
    merchant.order("LATE", 100).await;
    let times: Vec<_> = entries(&merchant).await.iter().map(|entry| entry["at"].clone()).collect();
    assert_eq!(times, ["2026-11-04T08:30:00.000Z", "2026-11-04T09:30:00.000Z"]);
}

/// Another instance cannot ask for what is not written yet.
#[tokio::test(flavor = "multi_thread")]
async fn another_instance_has_an_entry_in_a_moment() {
    let Some(url) = server::database_url() else { return };
    let process = Process::start(&["--database-url", &url]);
    let there = Merchant::at(&process.base_url);
    let here = there.moved_to(server::base_url());
    there.order("WARM_UP", 1).await;
    here.all("/sandbox/requests").await;
    there.order("THERE", 1).await;
    let answered = Instant::now();
    while here.all("/sandbox/requests?out_trade_no=THERE").await.is_empty() {
        assert!(answered.elapsed() < Duration::from_secs(5), "nothing came");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_is_bounded_and_outlives_a_stop() {
    let directory = tempfile::tempdir().unwrap();
    let storage = crate::support::process::storage(&directory);
    let arguments = [&storage[0], &storage[1], "--journal-size", "50"];
    let process = Process::start(&arguments);
    let merchant = Merchant::at(&process.base_url);
    for _ in 0..10 {
        let paths: Vec<_> = (0..20).map(|n| format!("/v1/orders/N{n}")).collect();
        join_all(paths.iter().map(|path| merchant.get(path))).await;
    }
    let count = async |merchant: &Merchant| {
        let page = merchant.get("/sandbox/requests?limit=100").await.data(200);
        page["items"].as_array().unwrap().len()
    };
    assert_eq!(count(&merchant).await, 50);
    merchant.order("LAST", 1).await;
    assert_eq!(count(&merchant).await, 50);
    assert!(process.terminate().success());
    let process = Process::start(&arguments);
    let merchant = merchant.moved_to(&process.base_url);
    let newest = merchant.get("/sandbox/requests?limit=1").await.data(200);
    assert!(newest["items"][0]["request_body"].as_str().unwrap().contains("LAST"), "{newest}");
    drop(process);

    let process = Process::start(&[&storage[0], &storage[1], "--journal-size", "7"]);
    let merchant = merchant.moved_to(&process.base_url);
    assert_eq!(count(&merchant).await, 7);
    drop(process);

    let process = Process::start(&[&storage[0], &storage[1], "--journal-size", "0"]);
    let merchant = Merchant::at(&process.base_url);
    merchant.order("UNSEEN", 1).await;
    assert_eq!(count(&merchant).await, 0);
}

/// On a database server only, where the test can look into the database.
#[tokio::test]
async fn of_long_bodies_fewer_are_kept() {
    let Some(url) = server::database_url() else { return };
    let merchant = Merchant::new();
    for n in 0..10 {
        merchant.order(&format!("N{n}"), 1).await;
    }
    let bodies: Vec<_> = entries(&merchant).await;
    let length = |entry: &Value| {
        entry["request_body"].as_str().unwrap().len() + entry["response_body"].as_str().unwrap().len()
    };
    let newest_three: usize = bodies[7..].iter().map(length).sum();
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let id = api_key::merchant_of(&merchant.api_key).unwrap();
    let kept = Kept { entries: 100, bytes: i64::try_from(newest_three).unwrap() };
    assert_eq!(requests::trim(&mut conn, id, kept, 5).await.unwrap(), 5);
    assert_eq!(requests::trim(&mut conn, id, kept, 5).await.unwrap(), 2);
    assert_eq!(entries(&merchant).await, bodies[7..]);
}

#[tokio::test]
async fn what_is_no_text_is_journaled_all_the_same() {
    let merchant = Merchant::new();
    merchant.post_bytes("/v1/orders", [b"{\"a\":\"\0".as_slice(), &[0xff]].concat()).send().await;
    let entry = entries(&merchant).await.remove(0);
    assert_eq!(entry["request_body"], json!("{\"a\":\"\u{fffd}\u{fffd}"));
    let head = format!(
        "GET /v1/orders/%00 HTTP/1.1\r\nHost: a\r\nX-Api-Key: {}\r\nX-Odd: \u{e9}\r\nConnection: close\r\n\r\n",
        merchant.api_key
    );
    assert!(raw(&merchant.base_url, head.as_bytes()).await.starts_with("HTTP/1.1 404"));
    assert_eq!(entries(&merchant).await[1]["path"], json!("/v1/orders/%00"));
}
