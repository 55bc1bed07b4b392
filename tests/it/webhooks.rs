//! Webhooks as an honest receiver meets them: what is sent and signed, in which order, the settings and the
//! look at events (contract, sections 6 and 7). What goes wrong on the way is in `webhook_failures`.

use kukopay_sandbox::domain::webhook::signature;
use reqwest::Method;
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::support::client::{is_id, order, refund};
use crate::support::receiver::{Hook, Receiver};
use crate::support::{Answer, Merchant, expect_fields};

/// What clients tolerate (contract, section 6).
const TOLERANCE: i64 = signature::TOLERANCE_SECONDS;

#[track_caller]
fn verify(hook: &Hook, secret: &str) -> bool {
    let now = OffsetDateTime::now_utc().unix_timestamp();
    signature::verify(hook.header("x-kukopay-signature"), secret, &hook.body, now, TOLERANCE).is_ok()
}

async fn post(merchant: &Merchant, path: &str) -> Answer {
    merchant.call(Method::POST, path).send().await
}

fn types(hooks: &[Hook]) -> Vec<String> {
    hooks.iter().map(|hook| hook.event()["type"].as_str().unwrap().to_owned()).collect()
}

/// A paid order with text of every sort, and the webhook that tells it.
async fn paid(merchant: &Merchant, receiver: &Receiver) -> (Value, Hook) {
    let mut body = order("SHOP_1", 2990);
    body["notify_url"] = json!(receiver.url("/hook?shop=1"));
    body["subject"] = json!("年度訂閲 🎉 \"é\"");
    body["metadata"] = json!({"b": "2", "a": "1"});
    merchant.post("/v1/orders", &body).send().await.expect_data(201);
    let paid = merchant.pay("SHOP_1").await.expect_data(200);
    (paid, receiver.hook("payment.succeeded").await)
}

#[tokio::test]
async fn a_payment_is_told_with_the_order_as_it_is() {
    let (merchant, receiver) = (Merchant::new(), Receiver::start().await);
    let (paid, hook) = paid(&merchant, &receiver).await;
    assert_eq!(hook.path, "/hook?shop=1");
    assert_eq!(hook.header("content-type"), "application/json");
    assert!(hook.header("user-agent").starts_with("kukopay-sandbox/"));
    let event = hook.event();
    assert_eq!(hook.header("x-kukopay-event-id"), event["id"]);
    assert!(is_id("evt_", &event["id"]), "{event}");
    assert_eq!(event["data"]["object"], paid);
    assert_eq!(event["data"]["object"], merchant.get("/v1/orders/SHOP_1").await.expect_data(200));
    expect_fields(&event, &json!({"object": "event", "livemode": false}));
    assert_eq!(event.get("test"), None);
    let created = event["created"].as_i64().unwrap();
    assert!((OffsetDateTime::now_utc().unix_timestamp() - created).abs() < 60);
    let expected =
        format!(r#"{{"id":{},"object":"event","type":"payment.succeeded","created":"#, event["id"]);
    assert!(hook.body.starts_with(expected.as_bytes()));
}

#[tokio::test]
async fn a_webhook_is_signed_over_its_bytes() {
    let (merchant, receiver) = (Merchant::new(), Receiver::start().await);
    let (_, hook) = paid(&merchant, &receiver).await;
    let secret = settings(&merchant).await["secret"].as_str().unwrap().to_owned();
    assert!(verify(&hook, &secret));
    let other_bytes = Hook { body: hook.event().to_string().into_bytes(), ..hook.clone() };
    assert!(!verify(&other_bytes, &secret), "a verifier that serialises again gets other bytes");
}

#[tokio::test]
async fn an_event_shows_what_was_sent_and_how_it_was_answered() {
    let (merchant, receiver) = (Merchant::new(), Receiver::start().await);
    let (_, hook) = paid(&merchant, &receiver).await;
    let event = hook.event();
    let delivered = merchant.expect_event(&event["id"], "delivered").await;
    assert_eq!(delivered["payload"], event);
    assert_eq!(delivered["next_attempt_at"], Value::Null);
    let attempt = &delivered["deliveries"][0];
    let sent = json!({
        "attempt": 1, "url": receiver.url("/hook?shop=1"), "signature": hook.header("x-kukopay-signature"),
        "status": 200, "error": null, "response_excerpt": "ok",
    });
    expect_fields(attempt, &sent);
    assert!(attempt["duration_ms"].is_u64() && attempt["at"].is_string());
}

#[tokio::test]
async fn every_change_of_an_order_is_told_in_order() {
    let (merchant, receiver) = (Merchant::new(), Receiver::start().await);
    set(&merchant, &json!({"url": receiver.url("/")})).await.expect_data(200);
    merchant.order("A", 100).await;
    merchant.pay_with("A", &json!({"card": "4000000000000002"})).await.expect_data(200);
    merchant.pay("A").await.expect_data(200);
    merchant.post("/v1/refunds", &refund("R1", "A", 40)).send().await.expect_data(201);
    merchant.post("/v1/refunds", &refund("R2", "A", 60)).send().await.expect_data(201);
    let hooks = receiver.until(|hooks| distinct(hooks).len() == 4).await;
    let expected = ["payment.failed", "payment.succeeded", "refund.succeeded", "refund.succeeded"];
    assert_eq!(types(&distinct(&hooks)), expected);
    let refund = &distinct(&hooks)[3].event()["data"]["object"];
    assert_eq!(*refund, merchant.get("/v1/refunds/R2").await.expect_data(200));
}

#[tokio::test]
async fn an_order_that_is_closed_is_told() {
    let (merchant, receiver) = (Merchant::new(), Receiver::start().await);
    set(&merchant, &json!({"url": receiver.url("/")})).await.expect_data(200);
    merchant.order("B", 100).await;
    merchant.close("B").await.expect_data(200);
    let closed = receiver.hook("order.closed").await.event();
    assert_eq!(closed["data"]["object"]["status"], json!("closed"));
}

#[tokio::test]
async fn a_refund_has_a_url_of_its_own_or_that_of_its_order() {
    let (merchant, receiver) = (Merchant::new(), Receiver::start().await);
    set(&merchant, &json!({"url": receiver.url("/merchant")})).await.expect_data(200);
    let mut body = order("A", 100);
    body["notify_url"] = json!(receiver.url("/order"));
    merchant.post("/v1/orders", &body).send().await.expect_data(201);
    merchant.pay("A").await.expect_data(200);
    merchant.post("/v1/refunds", &refund("R1", "A", 10)).send().await.expect_data(201);
    let mut body = refund("R2", "A", 10);
    body["notify_url"] = json!(receiver.url("/refund"));
    merchant.post("/v1/refunds", &body).send().await.expect_data(201);
    merchant.paid_order("B", 100).await;
    let hooks = receiver.until(|hooks| distinct(hooks).len() == 4).await;
    let mut paths: Vec<_> = distinct(&hooks).into_iter().map(|hook| hook.path).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/merchant", "/order", "/order", "/refund"]);
}

#[tokio::test]
async fn a_replay_tells_nothing_again() {
    let (merchant, receiver) = (Merchant::new(), Receiver::start().await);
    set(&merchant, &json!({"url": receiver.url("/")})).await.expect_data(200);
    merchant.paid_order("A", 100).await;
    for _ in 0..3 {
        let call = merchant.post("/v1/refunds", &refund("R", "A", 40)).key("r");
        call.send().await.expect_data(201);
        merchant.post("/v1/refunds", &refund("R", "A", 40)).send().await.expect_data(200);
    }
    assert_eq!(merchant.all("/sandbox/events").await.len(), 2);
}

#[tokio::test]
async fn while_a_secret_is_rotated_both_sign() {
    let (merchant, receiver) = (Merchant::new(), Receiver::start().await);
    set(&merchant, &json!({"url": receiver.url("/"), "secret": "whsec_old"})).await.expect_data(200);
    let body = json!({"overlap_seconds": 3600, "secret": "whsec_new"});
    let rotated = merchant.post("/sandbox/webhook/rotate", &body).send().await.expect_data(200);
    expect_fields(&rotated, &json!({"secret": "whsec_new", "url": receiver.url("/")}));
    assert!(rotated["previous_secret_until"].is_string());
    assert_eq!(settings(&merchant).await, rotated);
    merchant.paid_order("A", 100).await;
    let hook = receiver.hook("payment.succeeded").await;
    assert!(verify(&hook, "whsec_new") && verify(&hook, "whsec_old"));
    assert_eq!(hook.header("x-kukopay-signature").matches("v1=").count(), 2);
}

#[tokio::test]
async fn without_an_overlap_the_old_secret_is_void_at_once() {
    let (merchant, receiver) = (Merchant::new(), Receiver::start().await);
    set(&merchant, &json!({"url": receiver.url("/"), "secret": "whsec_new"})).await.expect_data(200);
    let body = json!({"overlap_seconds": 0, "secret": "whsec_newer"});
    let rotated = merchant.post("/sandbox/webhook/rotate", &body).send().await.expect_data(200);
    assert_eq!(rotated["previous_secret_until"], Value::Null);
    merchant.order("B", 100).await;
    merchant.close("B").await.expect_data(200);
    let hook = receiver.hook("order.closed").await;
    assert!(verify(&hook, "whsec_newer") && !verify(&hook, "whsec_new"));
}

#[tokio::test]
async fn a_secret_that_is_not_named_is_drawn() {
    let merchant = Merchant::new();
    let random = post(&merchant, "/sandbox/webhook/rotate").await.expect_data(200);
    assert!(random["secret"].as_str().unwrap().starts_with("whsec_"));
    assert_eq!(settings(&merchant).await, random);
}

#[tokio::test]
async fn a_rotation_that_makes_no_sense_is_refused_and_changes_nothing() {
    let merchant = Merchant::new();
    let before = settings(&merchant).await;
    for (body, code) in [
        (json!({"overlap_seconds": -1}), "overlap_seconds_invalid"),
        (json!({"overlap_seconds": 1.5}), "overlap_seconds_invalid"),
        (json!({"overlap_seconds": 2_592_001}), "overlap_seconds_invalid"),
        (json!({"secret": "a b"}), "secret_invalid"),
    ] {
        merchant.post("/sandbox/webhook/rotate", &body).send().await.expect_refused(code);
    }
    assert_eq!(settings(&merchant).await, before);
}

#[tokio::test]
async fn the_test_callback_says_that_it_is_one() {
    let (merchant, receiver) = (Merchant::new(), Receiver::start().await);
    post(&merchant, "/sandbox/webhook/test").await.expect_refused("webhook_url_missing");
    set(&merchant, &json!({"url": receiver.url("/")})).await.expect_data(200);
    let sent = post(&merchant, "/sandbox/webhook/test").await.expect_data(200);
    expect_fields(&sent, &json!({"type": "payment.succeeded", "trade_no": null}));
    let hook = receiver.hook("payment.succeeded").await;
    let event = hook.event();
    expect_fields(&event, &json!({"test": true, "id": sent["id"], "data": {"object": {"status": "paid"}}}));
    assert!(verify(&hook, settings(&merchant).await["secret"].as_str().unwrap()));
    merchant.expect_event(&sent["id"], "delivered").await;
    assert_eq!(merchant.all("/v1/orders").await, Vec::<Value>::new());
}

#[tokio::test]
async fn settings_stay_where_nothing_is_sent() {
    let merchant = Merchant::new();
    let first = settings(&merchant).await;
    expect_fields(&first, &json!({"url": null, "previous_secret_until": null}));
    assert!(first["secret"].as_str().unwrap().starts_with("whsec_"));
    assert_eq!(settings(&merchant).await, first);
    assert_ne!(settings(&Merchant::new()).await["secret"], first["secret"]);
}

#[tokio::test]
async fn a_setting_that_is_not_named_stays() {
    let merchant = Merchant::new();
    let first = settings(&merchant).await;
    let with_url = set(&merchant, &json!({"url": "http://127.0.0.1:1/hook"})).await.expect_data(200);
    expect_fields(&with_url, &json!({"url": "http://127.0.0.1:1/hook", "secret": first["secret"]}));
    let with_secret = set(&merchant, &json!({"secret": "s"})).await.expect_data(200);
    expect_fields(&with_secret, &json!({"url": with_url["url"], "secret": "s"}));
    assert_eq!(set(&merchant, &json!({})).await.expect_data(200), with_secret);
    assert_eq!(set(&merchant, &json!({"url": null})).await.expect_data(200)["url"], Value::Null);
}

#[tokio::test]
async fn a_setting_that_is_not_known_is_ignored_and_named() {
    let merchant = Merchant::new();
    let typo = set(&merchant, &json!({"urll": "x"})).await;
    assert_eq!(typo.header("x-sandbox-ignored-fields"), Some("urll"));
}

#[tokio::test]
async fn a_setting_that_makes_no_sense_is_refused_and_changes_nothing() {
    let merchant = Merchant::new();
    let before = settings(&merchant).await;
    for (body, code) in [
        (json!({"url": "/hook"}), "url_invalid"),
        (json!({"url": "ftp://a.b/"}), "url_invalid"),
        (json!({"url": 1}), "url_invalid"),
        (json!({"secret": ""}), "secret_invalid"),
        (json!({"secret": "é"}), "secret_invalid"),
    ] {
        set(&merchant, &body).await.expect_refused(code);
    }
    assert_eq!(settings(&merchant).await, before);
}

#[tokio::test]
async fn a_reset_draws_a_new_secret() {
    let merchant = Merchant::new();
    set(&merchant, &json!({"secret": "s"})).await.expect_data(200);
    assert_eq!(post(&merchant, "/sandbox/reset").await.status, 200);
    assert_ne!(settings(&merchant).await["secret"], json!("s"));
}

#[tokio::test]
async fn fixtures_may_bring_the_settings_along() {
    let merchant = Merchant::new();
    let load =
        async |webhook: Value| merchant.post("/sandbox/fixtures", &json!({"webhook": webhook})).send().await;
    let loaded = load(json!({"url": "http://127.0.0.1:1/hook", "secret": "fixed"})).await.expect_data(201);
    assert_eq!(loaded["webhook"], json!(1));
    let now = settings(&merchant).await;
    expect_fields(&now, &json!({"url": "http://127.0.0.1:1/hook", "secret": "fixed"}));
    for (webhook, param) in [
        (json!({"url": "/hook"}), "/webhook/url"),
        (json!({"urll": "http://127.0.0.1:1/"}), "/webhook/urll"),
        (json!([]), "/webhook"),
    ] {
        assert_eq!(load(webhook).await.json()["param"], json!(param));
    }
    assert_eq!(settings(&merchant).await, now);
}

#[tokio::test]
async fn an_event_without_a_url_is_kept_and_can_be_sent_later() {
    let (merchant, receiver) = (Merchant::new(), Receiver::start().await);
    merchant.paid_order("A", 100).await;
    let event = merchant.all("/sandbox/events").await.remove(0);
    expect_fields(&event, &json!({"status": "no_url", "url": null, "attempts": 0}));
    let id = event["id"].as_str().unwrap();
    post(&merchant, &format!("/sandbox/events/{id}/redeliver")).await.expect_refused("webhook_url_missing");
    set(&merchant, &json!({"url": receiver.url("/")})).await.expect_data(200);
    let again = post(&merchant, &format!("/sandbox/events/{id}/redeliver")).await.expect_data(200);
    expect_fields(&again, &json!({"status": "pending", "id": event["id"]}));
    assert_eq!(receiver.hook("payment.succeeded").await.id(), id);
    merchant.expect_event(&event["id"], "delivered").await;
}

#[tokio::test]
async fn what_is_delivered_can_be_sent_again_and_its_attempts_go_on_counting() {
    let (merchant, receiver) = (Merchant::new(), Receiver::start().await);
    set(&merchant, &json!({"url": receiver.url("/")})).await.expect_data(200);
    merchant.paid_order("A", 100).await;
    let event = merchant.all("/sandbox/events").await.remove(0);
    let id = event["id"].as_str().unwrap();
    merchant.expect_event(&event["id"], "delivered").await;
    post(&merchant, &format!("/sandbox/events/{id}/redeliver")).await.expect_data(200);
    let twice = merchant.event_when(&event["id"], |event| event["attempts"].as_i64() >= Some(2)).await;
    assert_eq!(twice["deliveries"][1]["attempt"], json!(2));
}

#[tokio::test]
async fn an_event_that_is_not_there_or_another_merchants_is_not_found() {
    let merchant = Merchant::new();
    merchant.paid_order("A", 100).await;
    let event = merchant.all("/sandbox/events").await.remove(0);
    let id = event["id"].as_str().unwrap();
    for path in ["/sandbox/events/evt_1", "/sandbox/events/%ff"] {
        merchant.get(path).await.expect_not_found("event_not_found");
        post(&merchant, &format!("{path}/redeliver")).await.expect_not_found("event_not_found");
    }
    let stranger = Merchant::new();
    stranger.get(&format!("/sandbox/events/{id}")).await.expect_not_found("event_not_found");
}

#[tokio::test]
async fn events_are_listed_newest_first_and_filtered() {
    let merchant = Merchant::new();
    merchant.order("B", 100).await;
    merchant.close("B").await.expect_data(200);
    let paid = merchant.paid_order("A", 100).await;
    merchant.post("/v1/refunds", &refund("R", "A", 40)).send().await.expect_data(201);
    let all = merchant.all("/sandbox/events").await;
    let of = |items: &[Value]| -> Vec<_> { items.iter().map(|item| item["type"].clone()).collect() };
    assert_eq!(of(&all), ["refund.succeeded", "payment.succeeded", "order.closed"]);
    assert!(all[0].get("payload").is_none() && all[0].get("deliveries").is_none());
    assert_eq!(all[0]["trade_no"], paid["trade_no"]);
    let trade_no = paid["trade_no"].as_str().unwrap();
    let id = all[1]["id"].as_str().unwrap();
    for (query, expected) in [
        ("type=order.closed".to_owned(), &all[2..]),
        ("out_trade_no=A".to_owned(), &all[..2]),
        (format!("trade_no={trade_no}&type=payment.succeeded"), &all[1..2]),
        (format!("trade_no={trade_no}&out_trade_no=B"), &[]),
        ("out_trade_no=NOWHERE".to_owned(), &[]),
        ("status=no_url".to_owned(), &all[..]),
        ("status=pending".to_owned(), &[]),
        (format!("starting_after={id}"), &all[2..]),
    ] {
        assert_eq!(merchant.all(&format!("/sandbox/events?{query}")).await, expected, "{query}");
    }
    let page = merchant.get("/sandbox/events?limit=2").await.expect_data(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    assert_eq!(page["has_more"], json!(true));
}

#[tokio::test]
async fn a_filter_of_events_that_makes_no_sense_is_refused() {
    let merchant = Merchant::new();
    for (query, code) in [
        ("type=x", "type_invalid"),
        ("status=x", "status_invalid"),
        ("starting_after=evt_1", "starting_after_invalid"),
        ("limit=0", "limit_invalid"),
    ] {
        merchant.get(&format!("/sandbox/events?{query}")).await.expect_refused(code);
    }
}

async fn settings(merchant: &Merchant) -> Value {
    merchant.get("/sandbox/webhook").await.expect_data(200)
}

async fn set(merchant: &Merchant, body: &Value) -> Answer {
    merchant.set_webhook(body).await
}

/// The webhooks without those that came again.
fn distinct(hooks: &[Hook]) -> Vec<Hook> {
    let mut seen = std::collections::HashSet::new();
    hooks.iter().filter(|hook| seen.insert(hook.id())).cloned().collect()
}
