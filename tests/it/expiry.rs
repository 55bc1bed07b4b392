//! What ends with time: keys after 24 hours, orders after two (contract, sections 2 and 4). The rows are made
//! older in the database, so this runs on a database server only, where the test can look into it.

use kukopay_sandbox::domain::api_key;
use serde_json::json;
use sqlx::{Connection, PgConnection};

use crate::support::client::order;
use crate::support::{Merchant, server};

/// Makes everything of a merchant so many seconds older.
async fn age(merchant: &Merchant, seconds: f64) -> bool {
    let Some(url) = server::database_url() else { return false };
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let id = api_key::merchant_of(&merchant.api_key).unwrap().uuid();
    for sql in [
        "UPDATE idempotency_keys SET created_at = created_at - make_interval(secs => $2) WHERE merchant_id = $1",
        "UPDATE orders SET created_at = created_at - make_interval(secs => $2),
                           expires_at = expires_at - make_interval(secs => $2) WHERE merchant_id = $1",
    ] {
        sqlx::query(sql).bind(id).bind(seconds).execute(&mut conn).await.unwrap();
    }
    true
}

#[tokio::test]
async fn a_key_is_kept_for_24_hours_and_then_new() {
    let merchant = Merchant::new();
    let body = order("KEPT", 100);
    let first = merchant.post("/v1/orders", &body).key("kept").send().await;
    if !age(&merchant, 86_340.0).await {
        return;
    }
    let replay = merchant.post("/v1/orders", &body).key("kept").send().await;
    assert_eq!((replay.is_replay(), &replay.bytes), (true, &first.bytes));

    age(&merchant, 60.0).await;
    let later = merchant.post("/v1/orders", &body).key("kept").send().await;
    assert!(!later.is_replay());
    assert_eq!(later.data(200)["trade_no"], first.data(201)["trade_no"]);
    // What the key holds is the later response now, and its day starts anew.
    assert_eq!(merchant.post("/v1/orders", &body).key("kept").send().await.bytes, later.bytes);
    let other = merchant.post("/v1/orders", &order("OTHER", 100)).key("kept").send().await;
    other.is_error(400, "idempotency_error", "idempotency_key_reused");
    age(&merchant, 86_400.0).await;
    merchant.post("/v1/orders", &order("OTHER", 100)).key("kept").send().await.data(201);
}

#[tokio::test]
async fn an_order_expires_after_two_hours() {
    let merchant = Merchant::new();
    merchant.order("EXPIRING", 100).await;
    if !age(&merchant, 7_140.0).await {
        return;
    }
    assert_eq!(merchant.get("/v1/orders/EXPIRING").await.data(200)["status"], json!("pending"));
    age(&merchant, 60.0).await;
    merchant.pay("EXPIRING").await.is_refused("order_closed");
    let closed = loop {
        let order = merchant.get("/v1/orders/EXPIRING").await.data(200);
        if order["status"] != json!("pending") {
            break order;
        }
    };
    assert_eq!((&closed["status"], &closed["closed_at"]), (&json!("closed"), &closed["expires_at"]));
}
