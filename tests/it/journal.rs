//! `/sandbox/requests`: the journal of calls under `/v1`, its filters and its bounds (contract, section 7). What an
//! entry tells is in `journal_entries`.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use kukopay_sandbox::db::journals;
use kukopay_sandbox::domain::api_key;
use kukopay_sandbox::domain::journal::entry::Bounds;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use crate::support::client::order;
use crate::support::{Merchant, Process, server, wait_while};

/// The entries, the oldest first.
pub(crate) async fn entries(merchant: &Merchant) -> Vec<Value> {
    let mut entries = merchant.all("/sandbox/requests?limit=100").await;
    entries.reverse();
    entries
}

/// Seven calls, six of which are about an order A, with its order and its refund.
async fn seven_calls(merchant: &Merchant) -> (Value, Value) {
    let order_a = merchant.post("/v1/orders", &order("A", 100)).key("key_a").send().await.expect_data(201);
    merchant.order("B", 100).await;
    merchant.pay("A").await.expect_data(200);
    let refund = json!({"out_refund_no": "R", "out_trade_no": "A", "amount": 40});
    let refund = merchant.post("/v1/refunds", &refund).send().await.expect_data(201);
    merchant.get("/v1/orders?out_trade_no=A").await.expect_data(200);
    merchant.get("/v1/refunds/R").await.expect_data(200);
    merchant.close("A").await.expect_refused("order_already_paid");
    (order_a, refund)
}

#[tokio::test]
async fn filters_choose() {
    let merchant = Merchant::new();
    seven_calls(&merchant).await;
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
}

#[tokio::test]
async fn a_call_is_found_by_the_gateways_numbers_too_which_only_its_answer_tells() {
    let merchant = Merchant::new();
    let (order_a, refund) = seven_calls(&merchant).await;
    for (name, object, count) in [("trade_no", &order_a, 3), ("refund_no", &refund, 2)] {
        let no = object[name].as_str().unwrap();
        let found = merchant.all(&format!("/sandbox/requests?{name}={no}")).await;
        assert_eq!(found.len(), count, "{name}");
        let both =
            merchant.all(&format!("/sandbox/requests?{name}={no}&out_trade_no=A&out_refund_no=R")).await;
        assert_eq!(both.len(), 2, "{name}");
        assert!(merchant.all(&format!("/sandbox/requests?{name}={no}&out_trade_no=B")).await.is_empty());
    }
}

#[tokio::test]
async fn a_filter_that_makes_no_sense_is_refused() {
    let merchant = Merchant::new();
    merchant.get("/sandbox/requests?outcome=odd").await.expect_refused("outcome_invalid");
    merchant.get("/sandbox/requests?status=ok").await.expect_refused("status_invalid");
}

#[tokio::test]
async fn pages_follow_each_other() {
    let merchant = Merchant::new();
    seven_calls(&merchant).await;
    let page = merchant.get("/sandbox/requests?limit=2").await.expect_data(200);
    let last = page["items"][1]["request_id"].as_str().unwrap();
    let next =
        merchant.get(&format!("/sandbox/requests?limit=4&starting_after={last}")).await.expect_data(200);
    assert_eq!(page["has_more"], json!(true));
    assert_eq!(next["has_more"], json!(false));
}

#[tokio::test]
async fn a_journal_is_the_merchants_own() {
    let merchant = Merchant::new();
    merchant.order("OWN", 1).await;
    assert_eq!(Merchant::new().all("/sandbox/requests").await, Vec::<Value>::new());
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
    let find = async || here.all("/sandbox/requests?out_trade_no=THERE").await;
    wait_while("nothing came", async || find().await.is_empty()).await;
}

/// How many entries there are, up to a page of 100.
async fn count(merchant: &Merchant) -> usize {
    let page = merchant.get("/sandbox/requests?limit=100").await.expect_data(200);
    page["items"].as_array().unwrap().len()
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
    assert_eq!(count(&merchant).await, 50);
    merchant.order("LAST", 1).await;
    assert_eq!(count(&merchant).await, 50);
    assert!(process.terminate().success());
    let process = Process::start(&arguments);
    let merchant = merchant.moved_to(&process.base_url);
    let newest = merchant.get("/sandbox/requests?limit=1").await.expect_data(200);
    assert!(newest["items"][0]["request_body"].as_str().unwrap().contains("LAST"), "{newest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_is_given_less_room_at_a_start_keeps_its_newest_entries() {
    let directory = tempfile::tempdir().unwrap();
    let storage = crate::support::process::storage(&directory);
    let process = Process::on(&directory);
    let merchant = Merchant::at(&process.base_url);
    for n in 0..10 {
        merchant.order(&format!("N{n}"), 1).await;
    }
    assert_eq!(count(&merchant).await, 10);
    assert!(process.terminate().success());
    let process = Process::start(&[&storage[0], &storage[1], "--journal-size", "7"]);
    let merchant = merchant.moved_to(&process.base_url);
    let numbers: Vec<_> =
        entries(&merchant).await.iter().map(|entry| entry["request_body"].clone()).collect();
    assert_eq!(numbers, (3..10).map(|n| order(&format!("N{n}"), 1).to_string()).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_without_room_keeps_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let storage = crate::support::process::storage(&directory);
    let process = Process::start(&[&storage[0], &storage[1], "--journal-size", "0"]);
    let merchant = Merchant::at(&process.base_url);
    merchant.order("UNSEEN", 1).await;
    assert_eq!(count(&merchant).await, 0);
}

/// On a database server only, where the test can look into the database.
#[tokio::test]
async fn a_journal_is_trimmed_by_all_that_it_stores() {
    let Some(url) = server::database_url() else { return };
    let merchant = Merchant::new();
    for n in 0..10 {
        let call = merchant.post("/v1/orders", &order(&format!("N{n}"), 1));
        call.header("X-Long", &"x".repeat(1000)).send().await.expect_data(201);
    }
    let all = entries(&merchant).await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let id = api_key::merchant_of(&merchant.api_key).unwrap();
    let instance = uuid::Uuid::new_v4();
    let held = journals::state(&mut conn, id, instance).await.unwrap().held;
    assert_eq!(held.entries, 10);
    assert!(held.bytes > 10 * 1500, "{held:?}");
    let mut trim = async |entries, bytes, limit| {
        journals::trim(&mut conn, id, Bounds { entries, bytes }, limit).await.unwrap()
    };
    assert_eq!(trim(10, held.bytes, 5).await, 0);
    assert_eq!(trim(10, held.bytes - 1, 5).await, 1);
    assert_eq!(trim(3, i64::MAX, 5).await, 5);
    assert_eq!(trim(3, i64::MAX, 5).await, 1);
    assert_eq!(entries(&merchant).await, all[7..]);
    let state = journals::state(&mut conn, id, instance).await.unwrap();
    let bytes: i64 = sqlx::query_scalar("SELECT sum(bytes) FROM requests WHERE merchant_id = $1")
        .bind(id.uuid())
        .fetch_one(&mut conn)
        .await
        .unwrap();
    assert_eq!(state.held.entries, 3);
    assert_eq!(state.held.bytes, bytes);
    assert_eq!(state.dropped, 0);
    let newest = merchant.get(&format!("/sandbox/requests/{}", all[7]["request_id"].as_str().unwrap())).await;
    newest.expect_data(200);
    assert!(state.missing_before.is_some());
}

/// How long a call waits for a journal that cannot be written.
const FLUSHED_WITHIN: Duration = Duration::from_secs(5);

/// A journal that somebody holds is written later, and nobody else's waits for it. On a database server only.
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_cannot_be_written_stops_no_others() {
    let Some(url) = server::database_url() else { return };
    let (held, other) = (Merchant::new(), Merchant::new());
    for merchant in [&held, &other] {
        merchant.order("FIRST", 1).await;
        assert_eq!(entries(merchant).await.len(), 1);
    }
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    let id = api_key::merchant_of(&held.api_key).unwrap().uuid();
    let lock = sqlx::query("SELECT FROM journals WHERE merchant_id = $1 FOR UPDATE").bind(id);
    lock.execute(&mut *tx).await.unwrap();
    held.order("SECOND", 1).await;
    other.order("SECOND", 1).await;
    assert_eq!(entries(&other).await.len(), 2);
    let asked = Instant::now();
    other.advance(1).await;
    other.post("/sandbox/reset", &json!({})).send().await.expect_data(200);
    assert!(asked.elapsed() < 2 * FLUSHED_WITHIN, "both have waited for the journal of another");
    let report = held.get("/sandbox/audit").await.expect_data(200);
    assert_eq!(report["journal"]["complete"], json!(false));
    tx.rollback().await.unwrap();
    let operations = async || held.get("/sandbox/audit").await.expect_data(200)["operations"].clone();
    wait_while("not written", async || operations().await != json!(2)).await;
}
