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
        merchant.post("/v1/orders", &order("A", 100)).key("a").send().await.expect_data(201);
        merchant.pay("A").await.expect_data(200);
        merchant.post("/v1/refunds", &refund("R", "A", 40)).send().await.expect_data(201);
        merchant.advance(3600).await;
    }
    let gone = reset(&merchant).await.expect_data(200);
    for (what, count) in [("orders", 1), ("refunds", 1), ("events", 2), ("idempotency_keys", 1)] {
        assert_eq!(gone[what], json!(count), "{what}");
    }
    assert_eq!(merchant.all("/v1/orders").await, Vec::<Value>::new());
    assert_eq!(merchant.get("/sandbox/clock").await.expect_data(200)["offset_seconds"], json!(0));
    let again = merchant.post("/v1/orders", &order("A", 200)).key("a").send().await;
    assert!(!again.is_replay());
    assert_eq!(again.expect_data(201)["amount"], json!(200));

    assert_eq!(other.get("/v1/orders/A").await.expect_data(200)["amount_refunded"], json!(40));
    assert_eq!(other.get("/sandbox/clock").await.expect_data(200)["offset_seconds"], json!(3600));
    assert!(other.post("/v1/orders", &order("A", 100)).key("a").send().await.is_replay());
}

#[tokio::test]
async fn an_empty_merchant_can_be_emptied() {
    let merchant = Merchant::new();
    let gone = reset(&merchant).await.expect_data(200);
    assert!(gone.as_object().unwrap().values().all(|count| *count == json!(0)), "{gone}");
    assert_eq!(reset(&merchant).await.expect_data(200), gone);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_merchant_is_emptied_in_one_call_while_others_go_on() {
    let (merchant, other) = (Merchant::new(), Merchant::new());
    for page in 0..13 {
        let orders: Vec<_> = (0..400).map(|n| order(&format!("N{page}_{n}"), 100)).collect();
        let fixtures = json!({"orders": orders});
        merchant.post("/sandbox/fixtures", &fixtures).send().await.expect_data(201);
    }
    let numbers: Vec<_> = (0..50).map(|n| format!("OTHER_{n}")).collect();
    let others = join_all(numbers.iter().map(|no| other.order(no, 100)));
    let (gone, orders) = tokio::join!(reset(&merchant), others);
    assert_eq!(gone.expect_data(200)["orders"], json!(5200));
    assert_eq!(orders.len(), 50);
    assert_eq!(merchant.all("/v1/orders").await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_began_before_a_reset_writes_nothing_after_it() {
    let merchant = Merchant::new();
    let held = merchant.hold(4_000).await;
    reset(&merchant).await.expect_data(200);
    let other = order("AFTER", 200);
    let second = merchant.post("/v1/orders", &other).key(&held.key);
    let second = tokio::spawn(second.header("X-Sandbox-Fault", "latency;delay_ms=5000").send());
    let first = held.first.await.unwrap();
    first.expect_error(409, "idempotency_in_progress", "idempotency_in_progress");
    let second = second.await.unwrap();
    assert_eq!(second.expect_data(201)["out_trade_no"], json!("AFTER"));
    let replay = merchant.post("/v1/orders", &other).key(&held.key).send().await;
    replay.expect_replay_of(&second);
    assert_eq!(merchant.all("/v1/orders").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_after_work_that_began_before_a_reset_leaves_nothing() {
    let merchant = Merchant::new();
    let rounds = (0..20).map(|n| {
        let merchant = &merchant;
        async move {
            let call = merchant.post("/v1/orders", &order(&format!("N{n}"), 100)).key(&format!("k{n}"));
            call.header("X-Sandbox-Fault", "error_after").send().await
        }
    });
    tokio::join!(join_all(rounds), reset(&merchant));
    for order in merchant.all("/v1/orders").await {
        // What is there came after, and so its key is there, too: its retry finds the order.
        let no = order["out_trade_no"].as_str().unwrap();
        let retry =
            merchant.post("/v1/orders", &self::order(no, 100)).key(&no.replace('N', "k")).send().await;
        assert_eq!(retry.expect_data(200)["trade_no"], order["trade_no"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_refund_outlives_its_order_in_a_reset() {
    let merchant = Merchant::new();
    for round in 0..15 {
        merchant.order("A", 1_000).await;
        merchant.pay_with("A", &json!({"card": "4000000000007726"})).await.expect_data(200);
        let refunds = (0..16).map(|n| {
            let call = merchant.post("/v1/refunds", &refund(&format!("R{round}_{n}"), "A", 10));
            if n % 2 == 0 { call.send() } else { call.key(&format!("r{round}_{n}")).send() }
        });
        let (answers, gone) = tokio::join!(join_all(refunds.collect::<Vec<_>>()), reset(&merchant));
        gone.expect_data(200);
        for answer in answers {
            assert!([201, 404, 409].contains(&answer.status), "{}", String::from_utf8_lossy(&answer.bytes));
        }
        for path in ["/v1/refunds", "/v1/orders", "/sandbox/events"] {
            assert_eq!(merchant.all(path).await, Vec::<Value>::new(), "{path}");
        }
    }
    merchant.advance(60).await;
    assert_eq!(merchant.all("/sandbox/stuck").await, Vec::<Value>::new());
}
