//! A client that hangs up does not stop the work (contract, section 4).

use std::time::Duration;

use serde_json::json;

use crate::support::Merchant;
use crate::support::client::{order, refund};

#[tokio::test(flavor = "multi_thread")]
async fn an_order_completes_and_the_retry_is_a_replay() {
    let merchant = Merchant::new();
    let body = order("HUNG_UP", 2990);
    let abandoned = merchant
        .post("/v1/orders", &body)
        .key("hung_up")
        .header("X-Sandbox-Fault", "latency;delay_ms=700")
        .timeout(Duration::from_millis(300));
    assert!(abandoned.try_send().await.unwrap_err().is_timeout());

    let retry = loop {
        let answer = merchant.post("/v1/orders", &body).key("hung_up").send().await;
        if answer.status != 409 {
            break answer;
        }
    };
    retry.data(201);
    assert!(retry.is_replay(), "the abandoned request's response was stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_completes_once() {
    let merchant = Merchant::new();
    merchant.paid_order("REFUNDED", 500).await;
    let body = refund("R", "REFUNDED", 200);
    for _ in 0..3 {
        let call = merchant
            .post("/v1/refunds", &body)
            .key("refund")
            .header("X-Sandbox-Fault", "latency;delay_ms=400");
        let _ = call.timeout(Duration::from_millis(100)).try_send().await;
    }
    let answer = loop {
        let answer = merchant.post("/v1/refunds", &body).key("refund").send().await;
        if answer.status != 409 {
            break answer;
        }
    };
    assert!(answer.is_replay());
    let order = merchant.get("/v1/orders/REFUNDED").await.data(200);
    assert_eq!(order["amount_refunded"], json!(200));
}
