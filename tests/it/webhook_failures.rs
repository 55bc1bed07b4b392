//! Webhooks that do not arrive at once: receivers that fail, hang, lie or are gone, sandboxes that are killed,
//! and several that share the work (contract, section 6).

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::client::{order, refund};
use crate::support::process::{free_port, strict_storage};
use crate::support::receiver::{Hook, Manner, Receiver, with_receiver};
use crate::support::{Merchant, Process, expect_fields, server};

/// The pauses between attempts, in seconds.
const SCHEDULE: [i64; 7] = [15, 60, 300, 1800, 7200, 21_600, 86_400];

async fn after_attempts(merchant: &Merchant, id: &Value, count: i64) -> Value {
    merchant.event_when(id, |event| event["attempts"].as_i64() >= Some(count)).await
}

/// The first attempt to deliver an event, which has failed.
async fn expect_first_failure(merchant: &Merchant, id: &Value) -> Value {
    let event = after_attempts(merchant, id, 1).await;
    assert_eq!(event["status"], json!("pending"), "{event}");
    event["deliveries"][0].clone()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}"))
}

#[tokio::test]
async fn a_receiver_that_fails_twice_is_asked_three_times() {
    let (merchant, receiver) = with_receiver().await;
    receiver.answers(Manner::Status(500, "kaputt\0 é".into()));
    let id = merchant.paid_event("A").await;
    let first = expect_first_failure(&merchant, &id).await;
    expect_fields(&first, &json!({"status": 500, "response_excerpt": "kaputt\u{fffd} é"}));
    assert!(text(&first, "error").contains("500"));

    merchant.advance(14).await;
    merchant.advance(1).await;
    after_attempts(&merchant, &id, 2).await;
    receiver.answers_with(200);
    merchant.advance(60).await;
    let event = merchant.expect_event(&id, "delivered").await;
    let deliveries = event["deliveries"].as_array().unwrap();
    let statuses: Vec<_> = deliveries.iter().map(|delivery| delivery["status"].clone()).collect();
    assert_eq!(statuses.last(), Some(&json!(200)));
    assert!(statuses.len() >= 3 && statuses[..2] == [json!(500), json!(500)], "{statuses:?}");
    merchant.advance(200_000).await;
    let later = merchant.get(&format!("/sandbox/events/{}", id.as_str().unwrap())).await.expect_data(200);
    assert_eq!(later["attempts"], event["attempts"], "nothing comes after the acknowledgement");
}

#[tokio::test]
async fn every_attempt_is_signed_afresh_over_the_same_body() {
    let (merchant, receiver) = with_receiver().await;
    receiver.answers_with(500);
    let id = merchant.paid_event("A").await;
    after_attempts(&merchant, &id, 1).await;
    merchant.advance(15).await;
    after_attempts(&merchant, &id, 2).await;
    receiver.answers_with(200);
    merchant.advance(60).await;
    let event = merchant.expect_event(&id, "delivered").await;
    let hooks = receiver.hooks();
    assert!(hooks.len() >= 3);
    assert!(hooks.iter().all(|hook| hook.body == hooks[0].body));
    let sent: Vec<_> = hooks.iter().map(|hook| hook.header("x-kukopay-signature")).collect();
    for delivery in event["deliveries"].as_array().unwrap() {
        assert!(sent.contains(&text(delivery, "signature")), "{delivery}");
    }
}

#[tokio::test]
async fn a_schedule_that_is_used_up_ends_in_failure_and_a_redelivery_starts_it_anew() {
    let (merchant, receiver) = with_receiver().await;
    receiver.answers_with(503);
    let id = merchant.paid_event("A").await;
    merchant.post("/v1/refunds", &refund("R", "A", 10)).send().await.expect_data(201);
    let later = merchant.newest_event().await;
    for (made, pause) in SCHEDULE.into_iter().enumerate() {
        let made = i64::try_from(made).unwrap() + 1;
        let event = after_attempts(&merchant, &id, made).await;
        assert_eq!(event["status"], json!("pending"));
        merchant.advance(pause).await;
    }
    let failed = merchant.expect_event(&id, "failed").await;
    assert_eq!(failed["next_attempt_at"], Value::Null);
    assert!(failed["attempts"].as_i64() >= Some(8), "{failed}");
    // Only now is it the turn of the later event of that order.
    after_attempts(&merchant, &later, 1).await;
    assert_eq!(types_of_first_arrivals(&receiver.hooks()), ["payment.succeeded", "refund.succeeded"]);

    receiver.answers_with(200);
    let redeliver = format!("/sandbox/events/{}/redeliver", id.as_str().unwrap());
    merchant.call(Method::POST, &redeliver).send().await.expect_data(200);
    let delivered = merchant.expect_event(&id, "delivered").await;
    assert!(delivered["attempts"].as_i64() > failed["attempts"].as_i64());
    merchant.expect_event(&later, "delivered").await;
}

fn types_of_first_arrivals(hooks: &[Hook]) -> Vec<String> {
    let mut seen = HashSet::new();
    let first = hooks.iter().filter(|hook| seen.insert(hook.id()));
    first.map(|hook| hook.event()["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_later_event_waits_for_an_earlier_one_of_its_order_alone() {
    let (merchant, receiver) = with_receiver().await;
    receiver.answers_with(500);
    let first = merchant.paid_event("A").await;
    merchant.post("/v1/refunds", &refund("R", "A", 10)).send().await.expect_data(201);
    let second = merchant.newest_event().await;
    expect_first_failure(&merchant, &first).await;
    receiver.answers_with(200);
    let other = merchant.paid_event("B").await;
    merchant.expect_event(&other, "delivered").await;
    let waiting =
        merchant.get(&format!("/sandbox/events/{}", second.as_str().unwrap())).await.expect_data(200);
    expect_fields(&waiting, &json!({"status": "pending", "attempts": 0}));

    merchant.advance(15).await;
    merchant.expect_event(&second, "delivered").await;
    let arrived = receiver.hooks();
    let place = |id: &Value| arrived.iter().rposition(|hook| id == &json!(hook.id())).unwrap();
    assert!(place(&first) < place(&second));
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_not_followed() {
    let (merchant, receiver) = with_receiver().await;
    let elsewhere = Receiver::start().await;
    receiver.answers(Manner::Redirect(elsewhere.url("/secret")));
    let id = merchant.paid_event("A").await;
    let failure = expect_first_failure(&merchant, &id).await;
    assert_eq!(failure["status"], json!(307));
    assert!(text(&failure, "error").contains("redirect"));
    assert_eq!(elsewhere.hooks().len(), 0);
}

#[tokio::test]
async fn a_delivery_keeps_neither_card_numbers_nor_api_keys() {
    let (merchant, receiver) = with_receiver().await;
    let url = receiver.url("/hook?k=kuko_live_SECRET01&pan=4242424242424242");
    merchant.set_webhook(&json!({"url": url})).await.expect_data(200);
    receiver.answers(Manner::Status(500, "no 卡号4000 0000 0000 0002 for kuko_live_SECRET01".into()));
    let id = merchant.paid_event("A").await;
    let failure = expect_first_failure(&merchant, &id).await;
    assert_eq!(text(&failure, "url"), receiver.url("/hook?k=kuko_live_…&pan=4242********4242"));
    assert_eq!(text(&failure, "response_excerpt"), "no 卡号4000 **** **** 0002 for kuko_live_…");
    assert_eq!(receiver.hooks()[0].path, "/hook?k=kuko_live_SECRET01&pan=4242424242424242");
}

#[tokio::test]
async fn an_answer_without_end_is_read_in_part_and_acknowledges() {
    let (merchant, receiver) = with_receiver().await;
    receiver.answers(Manner::Huge);
    let id = merchant.paid_event("A").await;
    let event = merchant.expect_event(&id, "delivered").await;
    let delivery = event["deliveries"].as_array().unwrap().last().unwrap();
    assert_eq!(text(delivery, "response_excerpt"), "x".repeat(1024));
}

#[tokio::test]
async fn broken_answers_and_connections_are_failures_told_in_plain_words() {
    let (merchant, receiver) = with_receiver().await;
    for (number, manner, error, status) in [
        ("A", Manner::CutShort, "broke off", json!(200)),
        ("B", Manner::HangUp, "connection broke", Value::Null),
        ("C", Manner::Status(404, Vec::new()), "404", json!(404)),
    ] {
        receiver.answers(manner);
        let id = merchant.paid_event(number).await;
        let failure = expect_first_failure(&merchant, &id).await;
        assert!(text(&failure, "error").contains(error), "{failure}");
        assert_eq!(failure["status"], status);
    }
}

#[tokio::test]
async fn a_connection_that_is_refused_is_a_failure_told_without_the_password_in_the_url() {
    let merchant = Merchant::new();
    merchant.set_clock(&json!({"frozen": true})).await.expect_data(200);
    // Bound, so that nobody else takes the port, and never listening.
    let unheard = tokio::net::TcpSocket::new_v4().unwrap();
    unheard.bind((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let refused = format!("http://user:s3cret@127.0.0.1:{}/hook", unheard.local_addr().unwrap().port());
    merchant.set_webhook(&json!({"url": refused})).await.expect_data(200);
    let id = merchant.paid_event("D").await;
    let failure = expect_first_failure(&merchant, &id).await;
    assert!(text(&failure, "error").to_lowercase().contains("refused"), "{failure}");
    assert!(!text(&failure, "error").contains("s3cret"));
    expect_fields(&failure, &json!({"status": null, "response_excerpt": null}));
}

#[tokio::test]
async fn a_receiver_that_speaks_no_tls_gets_nothing() {
    let (merchant, receiver) = with_receiver().await;
    let url = receiver.url("/").replace("http:", "https:");
    merchant.set_webhook(&json!({"url": url})).await.expect_data(200);
    let id = merchant.paid_event("A").await;
    let failure = expect_first_failure(&merchant, &id).await;
    assert!(text(&failure, "error").starts_with("no connection"), "{failure}");
    assert_eq!(receiver.hooks().len(), 0);
}

#[tokio::test]
async fn a_url_that_is_removed_ends_the_wait() {
    let (merchant, receiver) = with_receiver().await;
    receiver.answers_with(500);
    let id = merchant.paid_event("A").await;
    merchant.post("/v1/refunds", &refund("R", "A", 10)).send().await.expect_data(201);
    let later = merchant.newest_event().await;
    expect_first_failure(&merchant, &id).await;
    merchant.set_webhook(&json!({"url": null})).await.expect_data(200);
    merchant.advance(15).await;
    merchant.expect_event(&id, "no_url").await;
    merchant.expect_event(&later, "no_url").await;
}

#[tokio::test]
async fn receivers_that_hang_slow_nobody_else_and_fail_after_ten_seconds() {
    let (merchant, hanging) = with_receiver().await;
    hanging.answers(Manner::Hang);
    let numbers: Vec<_> = (0..60).map(|n| format!("HANG_{n}")).collect();
    join_all(numbers.iter().map(|number| merchant.paid_order(number, 100))).await;
    let sent = Instant::now();
    let id = merchant.newest_event().await;
    hanging.until(|hooks| hooks.len() >= 16).await;

    // Another receiver of the same merchant, and another merchant.
    let fast = Receiver::start().await;
    let mut body = order("FAST", 100);
    body["notify_url"] = json!(fast.url("/"));
    merchant.post("/v1/orders", &body).send().await.expect_data(201);
    let (other, others) = with_receiver().await;
    let started = Instant::now();
    merchant.pay("FAST").await.expect_data(200);
    let fast_id = merchant.newest_event().await;
    other.paid_order("OTHER", 100).await;
    fast.hook("payment.succeeded").await;
    others.hook("payment.succeeded").await;
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    merchant.expect_event(&fast_id, "delivered").await;
    let hung = merchant.all("/sandbox/events?limit=100&status=pending").await;
    assert_eq!(hung.len(), 60);

    let first_paid = hanging.hooks()[0].id();
    let failure = expect_first_failure(&merchant, &json!(first_paid)).await;
    expect_fields(&failure, &json!({"error": "no answer within 10 s", "status": null}));
    assert!(sent.elapsed() > Duration::from_secs(9));
    assert!((10_000..15_000).contains(&failure["duration_ms"].as_i64().unwrap()), "{failure}");
    drop((hanging, id));
}

#[tokio::test]
async fn a_redelivery_that_is_asked_for_during_an_attempt_is_not_lost() {
    let (merchant, receiver) = with_receiver().await;
    receiver.answers(Manner::Hang);
    let id = merchant.paid_event("A").await;
    receiver.hook("payment.succeeded").await;
    receiver.answers_with(200);
    let redeliver = format!("/sandbox/events/{}/redeliver", id.as_str().unwrap());
    merchant.call(Method::POST, &redeliver).send().await.expect_data(200);
    merchant.expect_event(&id, "delivered").await;
    // The attempt that hung is recorded when it ends, and changes nothing.
    let both = after_attempts(&merchant, &id, 2).await;
    expect_fields(&both, &json!({"status": "delivered", "next_attempt_at": null}));
    let statuses: HashSet<_> =
        both["deliveries"].as_array().unwrap().iter().map(|d| d["status"].to_string()).collect();
    assert_eq!(statuses, HashSet::from(["200".to_owned(), "null".to_owned()]));
}

#[tokio::test]
async fn a_merchant_that_is_emptied_gets_nothing_more() {
    let (merchant, receiver) = with_receiver().await;
    receiver.answers_with(500);
    let id = merchant.paid_event("A").await;
    expect_first_failure(&merchant, &id).await;
    let gone = merchant.call(Method::POST, "/sandbox/reset").send().await.expect_data(200);
    assert_eq!(gone["events"], json!(1));
    assert!(gone["deliveries"].as_i64() >= Some(1), "{gone}");
    assert_eq!(merchant.all("/sandbox/events").await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_sandbox_has_not_sent_is_sent_after_the_restart() {
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start().await);
    receiver.answers(Manner::Hang);
    let process = Process::on(&directory);
    let merchant = Merchant::at(&process.base_url);
    merchant.set_webhook(&json!({"url": receiver.url("/")})).await.expect_data(200);
    let numbers: Vec<_> = (0..10).map(|n| format!("KILLED_{n}")).collect();
    join_all(numbers.iter().map(|number| merchant.paid_order(number, 100))).await;
    // The first are on their way, the outcome of none is known.
    receiver.until(|hooks| !hooks.is_empty()).await;
    process.kill();
    receiver.answers_with(200);
    let process = Process::on(&directory);
    let merchant = merchant.moved_to(&process.base_url);
    for event in merchant.all("/sandbox/events").await {
        merchant.expect_event(&event["id"], "delivered").await;
    }
    let ids: HashSet<_> = receiver.hooks().iter().map(Hook::id).collect();
    assert_eq!(ids.len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_down_while_the_sandbox_restarts_is_told_later() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let process = Process::on(&directory);
    let merchant = Merchant::at(&process.base_url);
    merchant.set_webhook(&json!({"url": format!("http://127.0.0.1:{port}/")})).await.expect_data(200);
    let id = merchant.paid_event("A").await;
    expect_first_failure(&merchant, &id).await;
    assert!(tokio::task::spawn_blocking(|| process.terminate()).await.unwrap().success());
    let process = Process::on(&directory);
    let merchant = merchant.moved_to(&process.base_url);
    let receiver = Receiver::start_at(port).await;
    merchant.advance(86_400).await;
    merchant.expect_event(&id, "delivered").await;
    assert_eq!(json!(receiver.hook("payment.succeeded").await.id()), id);
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_urls_hold_for_what_was_accepted_before() {
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start().await);
    receiver.answers_with(500);
    let storage = strict_storage(&directory).await;
    let storage = storage.each_ref().map(String::as_str);
    let process = Process::start(&storage);
    let merchant = Merchant::at(&process.base_url);
    merchant.set_webhook(&json!({"url": receiver.url("/")})).await.expect_data(200);
    let id = merchant.paid_event("A").await;
    expect_first_failure(&merchant, &id).await;
    process.kill();
    let sent_before = receiver.hooks().len();
    let process = Process::start(&[&storage[..], &["--strict-urls"]].concat());
    let merchant = merchant.moved_to(&process.base_url);
    merchant.advance(86_400).await;
    let event = after_attempts(&merchant, &id, 2).await;
    let last = event["deliveries"].as_array().unwrap().last().unwrap();
    assert!(text(last, "error").contains("--strict-urls"), "{last}");
    assert_eq!(receiver.hooks().len(), sent_before);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sandboxes_on_one_database_deliver_each_event() {
    const PAYMENTS: usize = 300;
    let Some(_) = server::database_url() else { return };
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start().await);
    let (one, two) = (Process::on(&directory), Process::on(&directory));
    let merchant = Merchant::at(&one.base_url);
    let same = merchant.moved_to(&two.base_url);
    merchant.set_webhook(&json!({"url": receiver.url("/")})).await.expect_data(200);
    for batch in 0..PAYMENTS / 20 {
        let pay = (0..20).map(|n| {
            let merchant = if n % 2 == 0 { &merchant } else { &same };
            async move { merchant.paid_order(&format!("N{batch}_{n}"), 100).await }
        });
        join_all(pay).await;
    }
    let ids = |hooks: &Vec<Hook>| hooks.iter().map(Hook::id).collect::<HashSet<_>>().len();
    let hooks = receiver.until(|hooks| ids(hooks) == PAYMENTS).await;
    let repeated = hooks.len() - PAYMENTS;
    assert!(repeated <= PAYMENTS / 10, "{repeated} came again, and no outcome was unknown");
}
