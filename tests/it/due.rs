//! What comes due: one merchant's backlog, lock or bad row is nobody else's, several sandboxes share the work,
//! and merchants that nobody uses are forgotten. Looks into the database, so on a server only.

use futures_util::future::join_all;
use kukopay_sandbox::domain::api_key;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::support::client::{order, refund};
use crate::support::{Merchant, Process, expect_fields, server, wait_for, wait_while};

const SETTLES_LATER: &str = "4000000000007726";

fn id_of(merchant: &Merchant) -> Uuid {
    api_key::merchant_of(&merchant.api_key).expect("a test key").uuid()
}

async fn execute(conn: &mut PgConnection, sql: &'static str, merchant: &Merchant) {
    let done = sqlx::query(sql).bind(id_of(merchant)).execute(conn).await.unwrap();
    assert!(done.rows_affected() > 0, "{sql}");
}

/// Waits until an order has this status.
async fn expect_order(merchant: &Merchant, no: &str, status: &str) -> Value {
    let path = format!("/v1/orders/{no}");
    wait_for(async || {
        let order = merchant.get(&path).await.expect_data(200);
        if order["status"] == status { Ok(order) } else { Err(order) }
    })
    .await
}

/// Opens a paid order with refunds that settle later.
async fn pending_refunds(merchant: &Merchant, refunds: &[&str], amount: i64) {
    merchant.order("A", 100).await;
    merchant.pay_with("A", &json!({"card": SETTLES_LATER})).await.expect_data(200);
    for no in refunds {
        let refund = merchant.post("/v1/refunds", &refund(no, "A", amount)).send().await;
        assert_eq!(refund.expect_data(201)["status"], json!("pending"));
    }
}

#[tokio::test]
async fn a_refund_without_its_order_is_set_aside_and_stops_nothing() {
    let Some(url) = server::database_url() else { return };
    let merchant = Merchant::new();
    pending_refunds(&merchant, &["ORPHAN"], 100).await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    execute(&mut conn, "DELETE FROM orders WHERE merchant_id = $1", &merchant).await;
    merchant.order("B", 100).await;
    merchant.pay_with("B", &json!({"card": SETTLES_LATER})).await.expect_data(200);
    let whole = merchant.post("/v1/refunds", &refund("WHOLE", "B", 100)).send().await.expect_data(201);
    merchant.order("C", 100).await;

    for _ in 0..2 {
        assert_eq!(merchant.advance(7_200).await["due_work_done"], json!(true));
        assert_eq!(merchant.get("/v1/refunds/WHOLE").await.expect_data(200)["status"], json!("succeeded"));
        assert_eq!(merchant.get("/v1/orders/B").await.expect_data(200)["status"], json!("refunded"));
        assert_eq!(merchant.get("/v1/orders/C").await.expect_data(200)["status"], json!("closed"));
        let orphan = merchant.get("/v1/refunds/ORPHAN").await.expect_data(200);
        assert_eq!(orphan["status"], json!("pending"));
        let stuck = merchant.all("/sandbox/stuck").await;
        assert_eq!(stuck.len(), 1, "{stuck:?}");
        let cause = "the database holds an unknown order of a refund";
        expect_fields(&stuck[0], &json!({"kind": "refund", "id": orphan["refund_no"], "cause": cause}));
    }
    // The list goes on from the id of an item.
    let after = format!("/sandbox/stuck?starting_after={}", whole["refund_no"].as_str().unwrap());
    assert_eq!(merchant.all(&after).await.len(), 1);
    assert_eq!(Merchant::new().all("/sandbox/stuck").await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_set_aside_and_stops_nothing() {
    let Some(url) = server::database_url() else { return };
    let merchant = Merchant::new();
    let spoilt = merchant.order("SPOILT", 100).await;
    merchant.order("SOUND", 100).await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let spoil = "UPDATE orders SET currency = 'XXX' WHERE merchant_id = $1 AND out_trade_no = 'SPOILT'";
    execute(&mut conn, spoil, &merchant).await;
    assert_eq!(merchant.advance(7_200).await["due_work_done"], json!(true));
    assert_eq!(merchant.get("/v1/orders/SOUND").await.expect_data(200)["status"], json!("closed"));
    let stuck = merchant.all("/sandbox/stuck").await;
    expect_fields(&stuck[0], &json!({"kind": "order", "id": spoilt["trade_no"]}));
    merchant.call(reqwest::Method::POST, "/sandbox/reset").send().await.expect_data(200);
    assert_eq!(merchant.all("/sandbox/stuck").await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_row_that_somebody_has_locked_holds_up_its_own_merchant_alone() {
    let Some(url) = server::database_url() else { return };
    let (locked, other) = (Merchant::new(), Merchant::new());
    locked.order("LOCKED", 100).await;
    other.order("OTHER", 100).await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    execute(&mut tx, "SELECT FROM orders WHERE merchant_id = $1 FOR UPDATE", &locked).await;

    // The clock is moved, and the answer says so, though what came due is not done.
    let moved = locked.advance(7_200).await;
    expect_fields(&moved, &json!({"offset_seconds": 7_200, "due_work_done": false}));
    assert_eq!(other.advance(7_200).await["due_work_done"], json!(true));
    assert_eq!(other.get("/v1/orders/OTHER").await.expect_data(200)["status"], json!("closed"));
    tx.rollback().await.unwrap();
    expect_order(&locked, "LOCKED", "closed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_refunds_that_settle_on_two_instances_the_last_one_ends_the_order() {
    let Some(_) = server::database_url() else { return };
    let directory = tempfile::tempdir().unwrap();
    let process = Process::on(&directory);
    let rounds = (0..20).map(|_| async {
        let merchant = Merchant::new();
        pending_refunds(&merchant, &["R1", "R2", "R3", "R4"], 25).await;
        let elsewhere = merchant.moved_to(&process.base_url);
        tokio::join!(merchant.advance(3), elsewhere.advance(3));
        let refunded = expect_order(&merchant, "A", "refunded").await;
        assert_eq!(refunded["amount_refunded"], json!(100));
        assert_eq!(merchant.all("/sandbox/stuck").await, Vec::<Value>::new());
    });
    join_all(rounds).await;
}

#[tokio::test]
async fn what_is_due_comes_due_though_many_merchants_have_much_that_is_not() {
    let Some(url) = server::database_url() else { return };
    let merchant = Merchant::new();
    let made = merchant.order("DUE", 100).await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    // As of an order that was made two hours ago.
    let age = "UPDATE orders SET expires_at = now() + interval '1 second' WHERE merchant_id = $1";
    execute(&mut conn, age, &merchant).await;
    let due = "UPDATE merchants SET due_at = now() + interval '1 second' WHERE merchant_id = $1";
    execute(&mut conn, due, &merchant).await;
    let closed = expect_order(&merchant, "DUE", "closed").await;
    assert_eq!(closed["trade_no"], made["trade_no"]);
    // Nothing is left to look for today.
    let idle = "SELECT FROM merchants WHERE merchant_id = $1 AND due_at > now() + interval '23 hours'";
    wait_while("something is looked for", async || {
        sqlx::query(idle).bind(id_of(&merchant)).fetch_optional(&mut conn).await.unwrap().is_none()
    })
    .await;
}

#[tokio::test]
async fn a_merchant_that_has_not_called_for_long_is_forgotten() {
    let Some(url) = server::database_url() else { return };
    let (forgotten, other) = (Merchant::new(), Merchant::new());
    for merchant in [&forgotten, &other] {
        merchant.post("/v1/orders", &order("A", 100)).key("a").send().await.expect_data(201);
    }
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let process = Process::start(&["--database-url", &url, "--forget-after", "1h"]);
    // Again and again: the sandbox that it has called writes the time of that call at some moment.
    let age = "UPDATE merchants SET called_at = now() - interval '2 hours' WHERE merchant_id = $1";
    wait_while("it is known", async || {
        let aged = sqlx::query(age).bind(id_of(&forgotten)).execute(&mut conn).await.unwrap();
        aged.rows_affected() > 0
    })
    .await;
    drop(process);
    assert_eq!(forgotten.all("/v1/orders").await, Vec::<Value>::new());
    assert!(other.post("/v1/orders", &order("A", 100)).key("a").send().await.is_replay());
    // It may come back.
    forgotten.post("/v1/orders", &order("A", 200)).key("a").send().await.expect_data(201);
}
