//! Paying over the API: every test card, and how the refunds go of what it has paid (contract, section
//! 5). The checkout page, which does the same, has tests of its own.

use serde_json::{Value, json};

use crate::support::client::refund;
use crate::support::{Merchant, expect_fields};

async fn attempt(merchant: &Merchant, no: &str, card: &str) -> Value {
    merchant.pay_with(no, &json!({"card": card})).await.expect_data(200)
}

#[tokio::test]
async fn cards_of_every_network_pay() {
    for (card, brand) in [
        ("4242424242424242", "visa"),
        ("5555555555554444", "mastercard"),
        ("378282246310005", "amex"),
        ("6200000000000005", "unionpay"),
        ("3566002020360505", "jcb"),
        ("4000000000007726", "visa"),
        ("4000000000005126", "visa"),
    ] {
        let merchant = Merchant::new();
        merchant.order("NETWORK", 2990).await;
        let paid = attempt(&merchant, "NETWORK", card).await;
        expect_fields(&paid, &json!({"status": "paid", "failure": null}));
        let last4 = &card[card.len() - 4..];
        assert_eq!(paid["payment"], json!({"method": "card", "brand": brand, "last4": last4}));
        assert_eq!(merchant.get("/v1/orders/NETWORK").await.expect_data(200), paid);
    }
}

#[tokio::test]
async fn a_declined_card_leaves_the_order_pending_with_the_reason() {
    let merchant = Merchant::new();
    merchant.order("DECLINED", 2990).await;
    for (card, code) in [
        ("4000000000000002", "card_declined"),
        ("4000000000009995", "insufficient_funds"),
        ("4000000000009987", "lost_card"),
        ("4000000000009979", "stolen_card"),
        ("4000000000000069", "expired_card"),
        ("4000000000000127", "incorrect_cvc"),
        ("4000000000000119", "processing_error"),
    ] {
        let order = attempt(&merchant, "DECLINED", card).await;
        expect_fields(&order, &json!({"status": "pending", "failure": {"code": code}}));
        assert!(order["failure"]["message"].as_str().is_some_and(|text| text.len() > 10), "{order}");
        expect_fields(&order, &json!({"payment": null, "paid_at": null}));
    }
    // The buyer tries again, and what went wrong before is over.
    let paid = attempt(&merchant, "DECLINED", "5555555555554444").await;
    expect_fields(&paid, &json!({"status": "paid", "failure": null}));
}

#[tokio::test]
async fn a_card_with_3d_secure_asks_the_buyer() {
    let merchant = Merchant::new();
    merchant.order("SECURE", 2990).await;
    let pay = async |authenticate: &str| {
        let body = json!({"card": "4000002500003155", "authenticate": authenticate});
        merchant.pay_with("SECURE", &body).await
    };
    let unasked = merchant.pay_with("SECURE", &json!({"card": "4000002500003155"})).await;
    assert_eq!(unasked.expect_refused("authentication_required")["param"], json!("authenticate"));
    pay("maybe").await.expect_refused("authenticate_invalid");
    assert_eq!(merchant.get("/v1/orders/SECURE").await.expect_data(200)["failure"], json!(null));
    let failed = pay("failed").await.expect_data(200);
    assert_eq!(failed["failure"]["code"], json!("authentication_failed"));
    let paid = pay("authorised").await.expect_data(200);
    expect_fields(&paid, &json!({"status": "paid", "payment": {"last4": "3155"}}));
}

#[tokio::test]
async fn no_other_card_is_taken() {
    let merchant = Merchant::new();
    merchant.order("OTHER_CARD", 2990).await;
    for (card, code) in [
        (json!("4242424242424241"), "invalid_card_number"),
        (json!("42424242424"), "invalid_card_number"),
        (json!(4_242_424_242_424_242_u64), "invalid_card_number"),
        (json!("4111111111111111"), "test_card_required"),
        (json!("5105105105105100"), "test_card_required"),
    ] {
        let error = merchant.pay_with("OTHER_CARD", &json!({"card": card})).await.expect_refused(code);
        let digits = card.to_string().trim_matches('"').to_owned();
        assert!(!error.to_string().contains(&digits), "{error}");
    }
    merchant.pay_with("OTHER_CARD", &json!({})).await.expect_refused("card_missing");
    merchant.pay("NONE").await.expect_not_found("order_not_found");
    assert_eq!(merchant.get("/v1/orders/OTHER_CARD").await.expect_data(200)["failure"], json!(null));
}

#[tokio::test]
async fn an_order_is_paid_once() {
    let merchant = Merchant::new();
    merchant.paid_order("ONCE", 2990).await;
    for card in ["4242424242424242", "4000000000000002"] {
        merchant.pay_with("ONCE", &json!({"card": card})).await.expect_refused("order_already_paid");
    }
    merchant.order("CLOSED", 2990).await;
    merchant.close("CLOSED").await.expect_data(200);
    merchant.pay("CLOSED").await.expect_refused("order_closed");
}

#[tokio::test]
async fn a_pending_refund_succeeds_after_five_seconds_of_the_merchants_time() {
    let merchant = Merchant::new();
    merchant.set_clock(&json!({"now": "2026-11-04T08:30:00Z", "frozen": true})).await.expect_data(200);
    merchant.order("SLOW", 1000).await;
    attempt(&merchant, "SLOW", "4000000000007726").await;
    let pending = merchant.post("/v1/refunds", &refund("SLOW_R", "SLOW", 1000)).send().await.expect_data(201);
    expect_fields(&pending, &json!({"status": "pending", "succeeded_at": null}));
    let order = merchant.get("/v1/orders/SLOW").await.expect_data(200);
    expect_fields(&order, &json!({"status": "paid", "amount_refunded": 1000}));
    let more = merchant.post("/v1/refunds", &refund("SLOW_MORE", "SLOW", 1)).send().await;
    more.expect_refused("refund_exceeds_remaining");

    merchant.advance(4).await;
    assert_eq!(merchant.get("/v1/refunds/SLOW_R").await.expect_data(200)["status"], json!("pending"));
    merchant.advance(1).await;
    let settled = merchant.get("/v1/refunds/SLOW_R").await.expect_data(200);
    expect_fields(&settled, &json!({"status": "succeeded", "succeeded_at": "2026-11-04T08:30:05.000Z"}));
    assert_eq!(merchant.get("/v1/orders/SLOW").await.expect_data(200)["status"], json!("refunded"));
}

#[tokio::test]
async fn a_failed_refund_gives_its_amount_back() {
    let merchant = Merchant::new();
    merchant.order("BACK", 1000).await;
    attempt(&merchant, "BACK", "4000000000005126").await;
    merchant.post("/v1/refunds", &refund("BACK_1", "BACK", 700)).send().await.expect_data(201);
    merchant
        .post("/v1/refunds", &refund("BACK_2", "BACK", 700))
        .send()
        .await
        .expect_refused("refund_exceeds_remaining");
    merchant.advance(5).await;
    let failed = merchant.get("/v1/refunds/BACK_1").await.expect_data(200);
    expect_fields(
        &failed,
        &json!({"status": "failed", "failure": {"code": "expired_or_canceled_card"}, "succeeded_at": null}),
    );
    let order = merchant.get("/v1/orders/BACK").await.expect_data(200);
    expect_fields(&order, &json!({"status": "paid", "amount_refunded": 0}));
    merchant.post("/v1/refunds", &refund("BACK_3", "BACK", 1000)).send().await.expect_data(201);
}
