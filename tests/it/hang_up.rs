//! A client that hangs up does not stop the work (contract, section 4).

use std::time::Duration;

use futures_util::future::{Either, select};
use serde_json::json;

use crate::support::client::{Call, order, refund};
use crate::support::{Answer, Merchant, wait_for};

/// Sends a call that takes a while, and hangs up once it is in progress. Its duplicate tells that, whichever of the
/// two came first.
async fn abandon(call: impl Fn() -> Call) {
    let slow = || tokio::spawn(call().header("X-Sandbox-Fault", "latency;delay_ms=3000").send());
    let (duplicate, running) = match select(slow(), slow()).await {
        Either::Left(ended) | Either::Right(ended) => ended,
    };
    duplicate.unwrap().expect_error(409, "idempotency_in_progress", "idempotency_in_progress");
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled(), "it was not answered yet");
}

/// The answer of a retry, once the work is done.
async fn retry(call: impl Fn() -> Call) -> Answer {
    wait_for(async || {
        let answer = call().send().await;
        if answer.status == 409 { Err("in progress") } else { Ok(answer) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_completes_and_the_retry_is_a_replay() {
    let merchant = Merchant::new();
    let create = || merchant.post("/v1/orders", &order("HUNG_UP", 2990)).key("hung_up");
    abandon(create).await;
    let retry = retry(create).await;
    retry.expect_data(201);
    assert!(retry.is_replay(), "the abandoned request's response was stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_completes_once() {
    let merchant = Merchant::new();
    merchant.paid_order("REFUNDED", 500).await;
    let create = || merchant.post("/v1/refunds", &refund("R", "REFUNDED", 200)).key("refund");
    abandon(create).await;
    for _ in 0..2 {
        // Whatever these are told, if they are told anything.
        let again = create().header("X-Sandbox-Fault", "latency;delay_ms=400");
        let _ = again.timeout(Duration::from_millis(100)).try_send().await;
    }
    let retry = retry(create).await;
    retry.expect_data(201);
    assert!(retry.is_replay());
    let order = merchant.get("/v1/orders/REFUNDED").await.expect_data(200);
    assert_eq!(order["amount_refunded"], json!(200));
}
