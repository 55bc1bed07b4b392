//! Combining (docs/architecture.md, invariant 14): calls that come at the same time share statements, and a call that
//! fails fails alone.

use std::ops::Range;

use futures_util::future::join_all;
use kukopay_sandbox::domain::api_key;
use serde_json::{Value, json};
use sqlx::{Connection, Executor, PgConnection};

use crate::support::client::order;
use crate::support::process::database_beside;
use crate::support::wait::wait_while;
use crate::support::{Merchant, Process, server};

/// Every statement that writes orders notes how many it wrote; an order with the subject `fails` makes its statement
/// fail.
const TRIGGERS: &str = "
    CREATE TABLE IF NOT EXISTS written (orders bigint);
    CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO written SELECT count(*) FROM new; RETURN NULL; END';
    CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RAISE EXCEPTION ''the test lets this order fail''; END';
    CREATE OR REPLACE TRIGGER note AFTER INSERT ON orders
        REFERENCING NEW TABLE AS new FOR EACH STATEMENT EXECUTE FUNCTION note();
    CREATE OR REPLACE TRIGGER fail BEFORE INSERT ON orders
        FOR EACH ROW WHEN (NEW.subject = 'fails') EXECUTE FUNCTION fail()";

/// On a database server only, where the test can make an order fail.
#[tokio::test(flavor = "multi_thread")]
async fn of_calls_that_share_a_statement_the_one_that_fails_fails_alone() {
    let Some(url) = server::database_url() else { return };
    let url = database_beside(&url, "combining").await;
    let process = Process::start(&["--database-url", &url, "--pool-size", "4"]);
    let mut conn = PgConnection::connect(&url).await.unwrap();
    conn.execute(TRIGGERS).await.unwrap();

    let merchant = Merchant::at(&process.base_url);
    let send = async |n: u32| {
        let mut body = order(&format!("N{n}"), 100);
        if n == 48 {
            body["subject"] = json!("fails");
        }
        merchant.post("/v1/orders", &body).key(&format!("key_{n}")).send().await
    };
    // While nobody can write, the first batch waits at the server, and all others gather behind it.
    let send_together = async |numbers: Range<u32>, conn: &mut PgConnection| {
        conn.execute("BEGIN; LOCK TABLE orders IN SHARE MODE").await.unwrap();
        let claimed = "SELECT count(*) FROM idempotency_keys WHERE merchant_id = $1";
        let id = api_key::merchant_of(&merchant.api_key).unwrap().uuid();
        let release = async {
            wait_while("not all are claimed", async || {
                let claimed: i64 = sqlx::query_scalar(claimed).bind(id).fetch_one(&mut *conn).await.unwrap();
                claimed < i64::from(numbers.end)
            })
            .await;
            conn.execute("COMMIT").await.unwrap();
        };
        tokio::join!(join_all(numbers.clone().map(&send)), release).0
    };
    for answer in send_together(0..32, &mut conn).await {
        answer.expect_data(201);
    }
    let most: i64 = sqlx::query_scalar("SELECT max(orders) FROM written").fetch_one(&mut conn).await.unwrap();
    assert!(most > 1, "no two orders were written by one statement");

    for (n, answer) in (32..64).zip(send_together(32..64, &mut conn).await) {
        if n == 48 {
            answer.expect_error(500, "api_error", "internal_error");
        } else {
            answer.expect_data(201);
        }
    }
    assert_eq!(merchant.all("/v1/orders?limit=100").await.len(), 63);

    // Its key is free: the retry runs for real.
    conn.execute("DROP TRIGGER fail ON orders").await.unwrap();
    let retry = send(48).await;
    assert!(!retry.is_replay());
    retry.expect_data(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_look_ups_that_come_together_each_finds_its_own() {
    let merchant = Merchant::new();
    let mut trade_nos = Vec::new();
    for n in 0..8 {
        trade_nos.push(merchant.order(&format!("N{n}"), 100 + n).await["trade_no"].clone());
    }
    let look_ups = (0..16).flat_map(|n| {
        let by_trade_no = trade_nos.get(n).and_then(Value::as_str).unwrap_or("KP_NONE").to_owned();
        [(n, format!("N{n}")), (n, by_trade_no)]
    });
    let look_up = async |(n, no): (usize, String)| {
        let answer = merchant.get(&format!("/v1/orders/{no}")).await;
        if let Some(trade_no) = trade_nos.get(n) {
            assert_eq!(answer.expect_data(200)["trade_no"], *trade_no);
        } else {
            answer.expect_not_found("order_not_found");
        }
    };
    join_all(look_ups.map(look_up)).await;
}
