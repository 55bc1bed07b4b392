//! Whose events wait for whose: the order within an order, and backlogs, locks and rows that cannot be read, which
//! are their merchant's alone (contract, section 6). What looks into the database runs on a server only.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};

use crate::support::client::refund;
use crate::support::receiver::{Manner, Receiver, with_receiver};
use crate::support::{Merchant, expect_fields, server};

async fn show(merchant: &Merchant, id: &Value) -> Value {
    merchant.get(&format!("/sandbox/events/{}", id.as_str().unwrap())).await.expect_data(200)
}

/// An event that was refused once, of an order that is paid.
async fn refused_event(merchant: &Merchant, receiver: &Receiver, number: &str) -> Value {
    receiver.answers_with(500);
    merchant.paid_order(number, 100).await;
    let id = merchant.newest_event().await;
    merchant.event_when(&id, |event| event["attempts"] == 1).await;
    id
}

/// Tells a refund of an order, and returns the event.
async fn refund_event(merchant: &Merchant, number: &str) -> Value {
    merchant.post("/v1/refunds", &refund(&format!("R_{number}"), number, 10)).send().await.expect_data(201);
    merchant.newest_event().await
}

/// The identifier as the database has it.
fn uuid(id: &Value) -> uuid::Uuid {
    id.as_str().unwrap().strip_prefix("evt_").unwrap().parse().unwrap()
}

#[tokio::test]
async fn an_event_that_is_sent_again_goes_before_the_later_ones_of_its_order() {
    let (merchant, receiver) = with_receiver().await;
    merchant.paid_order("A", 100).await;
    let first = merchant.newest_event().await;
    merchant.expect_event(&first, "delivered").await;
    receiver.answers_with(500);
    let later = refund_event(&merchant, "A").await;
    merchant.event_when(&later, |event| event["attempts"] == 1).await;
    let redeliver = format!("/sandbox/events/{}/redeliver", first.as_str().unwrap());
    merchant.call(Method::POST, &redeliver).send().await.expect_data(200);
    merchant.event_when(&first, |event| event["attempts"] == 2).await;

    merchant.advance(15).await;
    let again = merchant.event_when(&first, |event| event["attempts"] == 3).await;
    let waiting = show(&merchant, &later).await;
    expect_fields(&waiting, &json!({"attempts": 1, "status": "pending"}));
    assert_eq!(waiting["next_attempt_at"], again["next_attempt_at"]);
    receiver.answers_with(200);
    merchant.advance(60).await;
    merchant.expect_event(&later, "delivered").await;
    assert_eq!(show(&merchant, &first).await["status"], json!("delivered"));
}

#[tokio::test]
async fn many_events_of_one_order_arrive_in_order_each_after_the_other() {
    let (merchant, receiver) = with_receiver().await;
    receiver.answers_with(500);
    merchant.order("A", 100).await;
    for _ in 0..20 {
        merchant.pay_with("A", &json!({"card": "4000000000000002"})).await.expect_data(200);
    }
    merchant.pay("A").await.expect_data(200);
    let last = merchant.newest_event().await;
    receiver.until(|hooks| !hooks.is_empty()).await;
    receiver.answers_with(200);
    merchant.advance(15).await;
    merchant.expect_event(&last, "delivered").await;
    let mut told: Vec<_> = receiver.hooks().iter().map(|hook| hook.id()).collect();
    told.dedup();
    let mut all: Vec<_> = merchant.all("/sandbox/events?limit=100").await;
    all.reverse();
    let all: Vec<_> = all.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(told, all);
}

#[tokio::test]
async fn the_order_does_not_come_from_the_clock_of_a_host() {
    let Some(url) = server::database_url() else { return };
    let (merchant, receiver) = with_receiver().await;
    let first = refused_event(&merchant, &receiver, "A").await;
    // As an instance would have named it whose clock is ahead.
    let ahead = uuid::Uuid::from_u128(uuid(&first).as_u128() | (0xffff << 96));
    let mut conn = PgConnection::connect(&url).await.unwrap();
    for table in ["events", "deliveries"] {
        let update = format!("UPDATE {table} SET event_id = '{ahead}' WHERE event_id = '{}'", uuid(&first));
        conn.execute(AssertSqlSafe(update)).await.unwrap();
    }
    let second = refund_event_beside(&merchant, "A", ahead).await;
    let waiting = show(&merchant, &second).await;
    assert_eq!(waiting["attempts"], json!(0));
    receiver.answers_with(200);
    merchant.advance(15).await;
    merchant.expect_event(&second, "delivered").await;
    let hooks = receiver.hooks();
    let types: Vec<_> = hooks.iter().map(|hook| hook.event()["type"].clone()).collect();
    assert_eq!(types, ["payment.succeeded", "payment.succeeded", "refund.succeeded"]);
}

/// Tells a refund of an order whose newest event by its identifier is another.
async fn refund_event_beside(merchant: &Merchant, number: &str, other: uuid::Uuid) -> Value {
    merchant.post("/v1/refunds", &refund("R", number, 10)).send().await.expect_data(201);
    let other = json!(format!("evt_{}", other.simple()));
    let all = merchant.all("/sandbox/events").await;
    all.iter().find(|event| event["id"] != other).unwrap()["id"].clone()
}

#[tokio::test]
async fn an_event_that_cannot_be_read_is_set_aside_and_stops_nobody() {
    let Some(url) = server::database_url() else { return };
    let (merchant, receiver) = with_receiver().await;
    for (number, column, value) in [("A", "event_type", "order.exploded"), ("B", "fault", "webhook_eaten")] {
        let poisoned = refused_event(&merchant, &receiver, number).await;
        let later = refund_event(&merchant, number).await;
        let mut conn = PgConnection::connect(&url).await.unwrap();
        let update = format!("UPDATE events SET {column} = '{value}' WHERE event_id = '{}'", uuid(&poisoned));
        conn.execute(AssertSqlSafe(update)).await.unwrap();
        receiver.answers_with(200);
        merchant.advance(15).await;
        // Those of other orders, and those of its own that come after it.
        merchant.paid_order(&format!("OTHER_{number}"), 100).await;
        let other = merchant.newest_event().await;
        merchant.expect_event(&other, "delivered").await;
        merchant.expect_event(&later, "delivered").await;

        let event = merchant.expect_event(&poisoned, "failed").await;
        expect_fields(&event, &json!({"attempts": 1, "next_attempt_at": null}));
        let stuck = merchant.all("/sandbox/stuck").await;
        let stuck = stuck.iter().find(|stuck| stuck["id"] == poisoned).unwrap();
        assert_eq!(stuck["kind"], json!("event"));
        assert!(stuck["cause"].as_str().unwrap().contains("unknown"), "{stuck}");
        let listed = merchant.all("/sandbox/events").await;
        assert!(listed.iter().any(|event| event["id"] == poisoned));
    }
}

#[tokio::test]
async fn a_backlog_costs_only_its_owner() {
    const EVENTS: i64 = 60_000;
    let Some(url) = server::database_url() else { return };
    let (merchant, hanging) = with_receiver().await;
    hanging.answers(Manner::Hang);
    merchant.paid_order("FIRST", 100).await;
    hanging.hook("payment.succeeded").await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let copy = format!(
        "INSERT INTO events (merchant_id, event_id, event_type, notify_url, payload, created_at, status,
                             next_attempt_at, position)
         SELECT merchant_id, gen_random_uuid(), event_type, notify_url, payload, created_at, 'pending',
                created_at, 1
         FROM events, generate_series(1, {EVENTS}) WHERE event_id = '{}'",
        uuid(&merchant.newest_event().await)
    );
    conn.execute(AssertSqlSafe(copy)).await.unwrap();
    merchant.paid_order("SECOND", 100).await;
    hanging.until(|hooks| hooks.len() >= 16).await;

    let (other, receiver) = with_receiver().await;
    let started = Instant::now();
    for number in 0..10 {
        other.paid_order(&format!("N{number}"), 100).await;
        receiver.until(|hooks| hooks.len() > number).await;
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let gone = merchant.call(Method::POST, "/sandbox/reset").timeout(Duration::from_mins(1)).send().await;
    assert_eq!(gone.expect_data(200)["events"], json!(EVENTS + 2));
}

#[tokio::test]
async fn a_merchant_that_somebody_has_locked_stops_nobody_else() {
    let Some(url) = server::database_url() else { return };
    let (merchant, receiver) = with_receiver().await;
    let id = refused_event(&merchant, &receiver, "A").await;
    receiver.answers_with(200);
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    let locked = format!(
        "UPDATE merchants SET delivery_due_at = '-infinity'
         WHERE merchant_id = (SELECT merchant_id FROM events WHERE event_id = '{}')",
        uuid(&id)
    );
    tx.execute(AssertSqlSafe(locked)).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    let lock = format!(
        "SELECT m.webhook_url FROM merchants m JOIN events USING (merchant_id) WHERE event_id = '{}'
         FOR UPDATE OF m",
        uuid(&id)
    );
    let row = tx.fetch_one(AssertSqlSafe(lock)).await.unwrap();
    assert_eq!(row.get::<String, _>(0), receiver.url("/"));
    let (other, others) = with_receiver().await;
    for number in 0..5 {
        other.paid_order(&format!("N{number}"), 100).await;
        others.until(|hooks| hooks.len() > number).await;
    }
    assert_eq!(receiver.hooks().len(), 1);
    tx.rollback().await.unwrap();
    merchant.advance(15).await;
    merchant.expect_event(&id, "delivered").await;
}
