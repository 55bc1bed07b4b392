//! `/sandbox/reset`: one merchant is as new, others notice nothing (contract, section 7).

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::client::{order, refund};
use crate::support::{Answer, Merchant};

async fn reset(merchant: &Merchant) -> Answer {
    merchant.call(Method::POST, "/sandbox/reset").send().await
}

#[tokio::test]
async fn a_merchant_is_as_new_and_others_stay_as_they_are() {
    let (merchant, other) = (Merchant::new(), Merchant::new());
    for merchant in [&merchant, &other] {
        merchant.post("/v1/orders", &order("A", 100)).key("a").send().await.data(201);
        merchant.pay("A").await.data(200);
        merchant.post("/v1/refunds", &refund("R", "A", 40)).send().await.data(201);
        merchant.advance(3600).await;
    }
    let gone = reset(&merchant).await.data(200);
    for (what, count) in [("orders", 1), ("refunds", 1), ("events", 2), ("idempotency_keys", 1)] {
        assert_eq!(gone[what], json!(count), "{what}");
    }
    assert_eq!(merchant.all("/v1/orders").await, Vec::<Value>::new());
    assert_eq!(merchant.get("/sandbox/clock").await.data(200)["offset_seconds"], json!(0));
    let again = merchant.post("/v1/orders", &order("A", 200)).key("a").send().await;
    assert_eq!((again.is_replay(), &again.data(201)["amount"]), (false, &json!(200)));

    assert_eq!(other.get("/v1/orders/A").await.data(200)["amount_refunded"], json!(40));
    assert_eq!(other.get("/sandbox/clock").await.data(200)["offset_seconds"], json!(3600));
    assert!(other.post("/v1/orders", &order("A", 100)).key("a").send().await.is_replay());
}

#[tokio::test]
async fn an_empty_merchant_can_be_emptied() {
    let merchant = Merchant::new();
    let gone = reset(&merchant).await.data(200);
    assert!(gone.as_object().unwrap().values().all(|count| *count == json!(0)), "{gone}");
    assert_eq!(reset(&merchant).await.data(200), gone);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_merchant_is_emptied_in_one_call_while_others_go_on() {
    let (merchant, other) = (Merchant::new(), Merchant::new());
    for page in 0..13 {
        let orders: Vec<_> = (0..400).map(|n| order(&format!("N{page}_{n}"), 100)).collect();
        let fixtures = json!({"orders": orders});
        merchant.post("/sandbox/fixtures", &fixtures).send().await.data(201);
    }
    let numbers: Vec<_> = (0..50).map(|n| format!("OTHER_{n}")).collect();
    let others = join_all(numbers.iter().map(|no| other.order(no, 100)));
    let (gone, orders) = tokio::join!(reset(&merchant), others);
    assert_eq!((&gone.data(200)["orders"], orders.len()), (&json!(5200), 50));
    assert_eq!(merchant.all("/v1/orders").await, Vec::<Value>::new());
}
