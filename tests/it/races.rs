//! What must hold when requests arrive at once (docs/architecture.md, invariants 1, 2 and 7).

use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde_json::json;

use crate::support::client::{Held, order, refund};
use crate::support::{Answer, Merchant, expect_fields};

fn count(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}

/// Asserts how many answers have which status, and that there are no others.
#[track_caller]
fn expect_statuses(answers: &[Answer], expected: &[(u16, usize)]) {
    let mut counts = BTreeMap::new();
    for answer in answers {
        *counts.entry(answer.status).or_insert(0) += 1;
    }
    assert_eq!(counts, expected.iter().copied().collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_duplicates_make_one_order() {
    let merchant = Merchant::new();
    let body = order("DUPLICATE", 2990);
    let answers =
        join_all((0..500).map(|_| merchant.post("/v1/orders", &body).key("duplicate").send())).await;

    let first: Vec<_> = answers.iter().filter(|answer| answer.status == 201 && !answer.is_replay()).collect();
    assert_eq!(first.len(), 1, "exactly one request ran");
    for answer in &answers {
        match answer.status {
            201 => assert_eq!(answer.bytes, first[0].bytes),
            409 => {
                answer.expect_error(409, "idempotency_in_progress", "idempotency_in_progress");
                assert_eq!(answer.header("retry-after"), Some("1"));
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(merchant.get("/v1/orders").await.expect_data(200)["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_is_answered_at_once_while_the_first_is_held() {
    let merchant = Merchant::new();
    merchant.order("WARM_UP", 1).await;
    let held = merchant.hold(3000).await;
    held.expect_told_at_once(&merchant).await;

    let Held { body, key, first } = held;
    let first = first.await.unwrap();
    first.expect_data(201);
    let replay = merchant.post("/v1/orders", &body).key(&key).send().await;
    replay.expect_replay_of(&first);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_number_without_a_key_makes_one_order() {
    let merchant = Merchant::new();
    let body = order("SAME_NUMBER", 2990);
    let answers = join_all((0..50).map(|_| merchant.post("/v1/orders", &body).send())).await;
    expect_statuses(&answers, &[(201, 1), (200, 49)]);
    let trade_no = &answers[0].json()["data"]["trade_no"];
    assert!(answers.iter().all(|answer| answer.json()["data"]["trade_no"] == *trade_no));
}

#[tokio::test(flavor = "multi_thread")]
async fn partial_refunds_never_exceed_the_order() {
    let merchant = Merchant::new();
    merchant.paid_order("SHARED", 1000).await;
    let refunds = (0..50).map(|n| {
        let body = refund(&format!("R{n}"), "SHARED", 30);
        let merchant = merchant.clone();
        async move { merchant.post("/v1/refunds", &body).key(&format!("refund_{n}")).send().await }
    });
    let answers = join_all(refunds).await;
    expect_statuses(&answers, &[(201, 33), (400, 17)]);
    let order = merchant.get("/v1/orders/SHARED").await.expect_data(200);
    expect_fields(&order, &json!({"amount_refunded": 990, "status": "paid"}));
    let refunds = merchant.get("/v1/refunds?limit=100").await.expect_data(200);
    assert_eq!(refunds["items"].as_array().unwrap().len(), 33);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_refund_number_refunds_once() {
    let merchant = Merchant::new();
    merchant.paid_order("ONCE", 1000).await;
    let body = refund("R", "ONCE", 1000);
    let answers = join_all((0..30).map(|_| merchant.post("/v1/refunds", &body).send())).await;
    expect_statuses(&answers, &[(201, 1), (200, 29)]);
    let order = merchant.get("/v1/orders/ONCE").await.expect_data(200);
    expect_fields(&order, &json!({"amount_refunded": 1000, "status": "refunded"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_refund_number_for_two_orders_refunds_one() {
    let merchant = Merchant::new();
    merchant.paid_order("LEFT", 500).await;
    merchant.paid_order("RIGHT", 500).await;
    let (left, right) = (refund("R", "LEFT", 500), refund("R", "RIGHT", 500));
    let bodies = (0..20).map(|n| if n % 2 == 0 { &left } else { &right });
    let answers = join_all(bodies.map(|body| merchant.post("/v1/refunds", body).send())).await;
    expect_statuses(&answers, &[(201, 1), (200, 9), (400, 10)]);
    let refunded = async |no: &str| {
        merchant.get(&format!("/v1/orders/{no}")).await.expect_data(200)["amount_refunded"].as_i64()
    };
    assert_eq!(refunded("LEFT").await.unwrap() + refunded("RIGHT").await.unwrap(), 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_paid_or_closed_but_not_both() {
    let merchant = Merchant::new();
    for n in 0..10 {
        let no = format!("CONTESTED_{n}");
        merchant.order(&no, 100).await;
        let close = merchant.call(reqwest::Method::POST, &format!("/v1/orders/{no}/close"));
        let (paid, closed, again) = tokio::join!(merchant.pay(&no), close.send(), merchant.pay(&no));
        let order = merchant.get(&format!("/v1/orders/{no}")).await.expect_data(200);
        let payments = count(&[paid, again], 200);
        match order["status"].as_str() {
            Some("paid") => {
                assert_eq!(payments, 1);
                closed.expect_error(400, "invalid_request_error", "order_already_paid");
            }
            Some("closed") => {
                assert_eq!(payments, 0);
                closed.expect_data(200);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_paid_or_expires_but_not_both() {
    let merchant = Merchant::new();
    merchant.set_clock(&json!({"now": "2026-11-04T08:30:00Z", "frozen": true})).await.expect_data(200);
    for round in 0..5 {
        let numbers: Vec<_> = (0..8).map(|n| format!("EXPIRING_{round}_{n}")).collect();
        join_all(numbers.iter().map(|no| merchant.order(no, 100))).await;
        let pay = join_all(numbers.iter().map(|no| merchant.pay(no)));
        let (answers, _) = tokio::join!(pay, merchant.advance(7_200));
        for (no, answer) in numbers.iter().zip(answers) {
            let order = merchant.get(&format!("/v1/orders/{no}")).await.expect_data(200);
            match order["status"].as_str() {
                Some("paid") => assert_eq!(answer.expect_data(200)["trade_no"], order["trade_no"]),
                Some("closed") => drop(answer.expect_refused("order_closed")),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refunds_that_fail_and_refunds_that_start_never_exceed_the_order() {
    let merchant = Merchant::new();
    merchant.set_clock(&json!({"now": "2026-11-04T08:30:00Z", "frozen": true})).await.expect_data(200);
    merchant.order("RETURNING", 1000).await;
    merchant.pay_with("RETURNING", &json!({"card": "4000000000005126"})).await.expect_data(200);
    for round in 0..5 {
        let refunds = (0..12).map(|n| {
            let body = refund(&format!("R{round}_{n}"), "RETURNING", 300);
            let merchant = merchant.clone();
            async move { merchant.post("/v1/refunds", &body).send().await }
        });
        let (answers, _) = tokio::join!(join_all(refunds), merchant.advance(5));
        assert_eq!(count(&answers, 201) + count(&answers, 400), 12);
        let items = merchant.all("/v1/refunds?limit=100").await;
        let pending: i64 = items
            .iter()
            .filter(|refund| refund["status"] == json!("pending"))
            .map(|refund| refund["amount"].as_i64().unwrap())
            .sum();
        assert!(items.iter().all(|refund| refund["status"] != json!("succeeded")));
        let order = merchant.get("/v1/orders/RETURNING").await.expect_data(200);
        assert_eq!(order["amount_refunded"], json!(pending));
        assert!(pending <= 900, "{pending}");
    }
    merchant.advance(5).await;
    let order = merchant.get("/v1/orders/RETURNING").await.expect_data(200);
    expect_fields(&order, &json!({"amount_refunded": 0, "status": "paid"}));
}
