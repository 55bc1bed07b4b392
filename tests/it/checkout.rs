//! The checkout page over HTTP, as a browser without scripts asks for it: both languages, every state of an
//! order, every card (contract, section 5). What it must never do is in `checkout_safety`; a real browser
//! is in `browser`.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::client::{order, refund};
use crate::support::{Answer, Merchant, expect_fields};

/// An order with more fields, and the path of its page.
async fn page_of(merchant: &Merchant, no: &str, fields: &Value) -> String {
    let mut body = order(no, 299_000);
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let order = merchant.post("/v1/orders", &body).send().await.expect_data(201);
    merchant.checkout_path(&order)
}

/// What a browser gets, which has no API key.
async fn expect_page(merchant: &Merchant, path: &str, language: &str) -> String {
    let answer = merchant.anonymous(Method::GET, path).header("Accept-Language", language).send().await;
    assert_eq!(answer.status, 200);
    expect_html(&answer)
}

fn expect_html(answer: &Answer) -> String {
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    String::from_utf8(answer.bytes.clone()).unwrap()
}

async fn post(merchant: &Merchant, path: &str, form: &str) -> Answer {
    let call = merchant.anonymous(Method::POST, path).bytes(form);
    call.header("Content-Type", "application/x-www-form-urlencoded").send().await
}

/// The path that a form is redirected to, on the same server.
#[track_caller]
fn expect_redirect(answer: &Answer, from: &str) -> String {
    assert_eq!(answer.status, 303);
    let base = url::Url::parse("http://sandbox").unwrap().join(from).unwrap();
    let to = base.join(answer.header("location").unwrap()).unwrap();
    to.as_str().strip_prefix("http://sandbox").map_or_else(|| to.to_string(), str::to_owned)
}

fn card_form(number: &str) -> String {
    format!("number={}&expiry=12%2F34&cvc=123", number.replace(' ', "+"))
}

#[tokio::test]
async fn a_page_shows_what_is_paid_and_the_test_cards() {
    let merchant = Merchant::new();
    merchant.set_clock(&json!({"now": "2026-11-04T08:30:00Z", "frozen": true})).await.expect_data(200);
    let path = page_of(&merchant, "SHOWN", &json!({"subject": "Pro 年度訂閲 🎉", "currency": "HKD"})).await;
    let page = expect_page(&merchant, &path, "en").await;
    for shown in [
        "Pro 年度訂閲 🎉",
        "HK$2,990.00",
        "SHOWN",
        "<html lang=\"en\">",
        "datetime=\"2026-11-04T10:30:00Z\"",
        "2026-11-04 10:30 UTC",
        "data-seconds=\"7200\"",
        "4242 4242 4242 4242",
        "3782 822463 10005",
        "4000 0025 0000 3155",
        "4000 0000 0000 5126",
        "Only test cards work here",
    ] {
        assert!(page.contains(shown), "{shown}");
    }
}

#[tokio::test]
async fn time_that_stands_still_is_shown_and_does_not_run_down() {
    let merchant = Merchant::new();
    merchant.set_clock(&json!({"now": "2026-11-04T08:30:00Z", "frozen": true})).await.expect_data(200);
    let path = page_of(&merchant, "FROZEN", &json!({})).await;
    merchant.advance(60).await;
    assert!(expect_page(&merchant, &path, "en").await.contains("data-seconds=\"7140\" data-frozen"));
    merchant.set_clock(&json!({"frozen": false})).await.expect_data(200);
    assert!(!expect_page(&merchant, &path, "en").await.contains("data-frozen"));
}

#[tokio::test]
async fn the_order_decides_on_the_language_and_else_the_browser() {
    let merchant = Merchant::new();
    let language = async |path: &str, accepted: &str| {
        let page = expect_page(&merchant, path, accepted).await;
        page.split("<html lang=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let open = page_of(&merchant, "OPEN", &json!({})).await;
    let zh = page_of(&merchant, "ZH", &json!({"locale": "zh"})).await;
    let en = page_of(&merchant, "EN", &json!({"locale": "en"})).await;
    assert_eq!(language(&open, "zh-TW,zh;q=0.9,en;q=0.8").await, "zh-Hant");
    assert_eq!(language(&open, "en-GB,zh;q=0.5").await, "en");
    assert_eq!(language(&open, "fr").await, "en");
    assert_eq!(language(&zh, "en").await, "zh-Hant");
    assert_eq!(language(&en, "zh").await, "en");
    assert!(expect_page(&merchant, &zh, "en").await.contains("此處只接受測試卡"));
}

#[tokio::test]
async fn cards_that_pay_send_the_buyer_back_to_the_shop() {
    for card in [
        "4242 4242 4242 4242",
        "5555-5555-5555-4444",
        "378282246310005",
        "6200000000000005",
        "3566002020360505",
        "4000000000007726",
        "4000000000005126",
    ] {
        let merchant = Merchant::new();
        let shop = json!({"return_url": "https://shop.example.com/done?cart=7#top"});
        let path = page_of(&merchant, "PAID", &shop).await;
        let order = merchant.get("/v1/orders/PAID").await.expect_data(200);
        let answer = post(&merchant, &path, &card_form(card)).await;
        let trade_no = order["trade_no"].as_str().unwrap();
        let expected =
            format!("https://shop.example.com/done?cart=7&out_trade_no=PAID&trade_no={trade_no}#top");
        assert_eq!(answer.status, 303);
        assert_eq!(answer.header("location"), Some(expected.as_str()));
        let paid = merchant.get("/v1/orders/PAID").await.expect_data(200);
        let last4 = &card[card.len() - 4..];
        expect_fields(&paid, &json!({"status": "paid", "payment": {"last4": last4}}));
        // The page is still there, and leads to the shop.
        let page = expect_page(&merchant, &path, "en").await;
        assert!(page.contains("Payment complete") && page.contains("out_trade_no=PAID"), "{page}");
    }
}

#[tokio::test]
async fn without_a_return_url_the_page_itself_tells_the_result() {
    let merchant = Merchant::new();
    let path = page_of(&merchant, "HERE", &json!({})).await;
    let answer = post(&merchant, &path, &card_form("4242424242424242")).await;
    assert_eq!(expect_redirect(&answer, &path), path);
    let page = expect_page(&merchant, &path, "en").await;
    assert!(page.contains("Payment complete") && page.contains("Visa •••• 4242"), "{page}");
}

#[tokio::test]
async fn a_declined_card_is_told_and_another_one_pays() {
    let merchant = Merchant::new();
    let path = page_of(&merchant, "DECLINED", &json!({})).await;
    for (card, told) in [
        ("4000000000000002", "The card was declined."),
        ("4000000000009995", "There is not enough money on the card."),
        ("4000000000009987", "The card was reported lost."),
        ("4000000000009979", "The card was reported stolen."),
        ("4000000000000069", "The card has expired."),
        ("4000000000000127", "The CVC is not correct."),
        ("4000000000000119", "The bank could not process the card."),
    ] {
        let answer = post(&merchant, &path, &card_form(card)).await;
        assert_eq!(expect_redirect(&answer, &path), path);
        let page = expect_page(&merchant, &path, "en").await;
        assert!(page.contains("role=\"alert\"") && page.contains(told), "{told}");
    }
    post(&merchant, &path, &card_form("4242424242424242")).await;
    assert_eq!(merchant.get("/v1/orders/DECLINED").await.expect_data(200)["status"], json!("paid"));
}

#[tokio::test]
async fn a_card_with_3d_secure_asks_first() {
    let merchant = Merchant::new();
    let path = page_of(&merchant, "SECURE", &json!({})).await;
    let answer = post(&merchant, &path, &card_form("4000002500003155")).await;
    let challenge = expect_redirect(&answer, &path);
    assert_eq!(challenge, format!("{path}/authenticate?card=visa-3155"));
    let page = expect_page(&merchant, &challenge, "en").await;
    assert!(page.contains("Authorise") && page.contains("Fail") && page.contains("Visa •••• 3155"), "{page}");
    assert_eq!(merchant.get("/v1/orders/SECURE").await.expect_data(200)["status"], json!("pending"));
}

#[tokio::test]
async fn after_a_failed_challenge_the_buyer_is_told_and_another_one_pays() {
    let merchant = Merchant::new();
    let path = page_of(&merchant, "SECURE", &json!({})).await;
    let decide = format!("{path}/authenticate");
    let failed = post(&merchant, &decide, "card=visa-3155&authenticate=failed").await;
    assert_eq!(expect_redirect(&failed, &decide), path);
    assert!(
        expect_page(&merchant, &path, "en").await.contains("The payment was not confirmed (3-D Secure).")
    );
    let paid = post(&merchant, &decide, "card=visa-3155&authenticate=authorised").await;
    assert_eq!(expect_redirect(&paid, &decide), path);
    assert_eq!(merchant.get("/v1/orders/SECURE").await.expect_data(200)["payment"]["last4"], json!("3155"));
    // There is nothing to confirm any more.
    let challenge = format!("{path}/authenticate?card=visa-3155");
    let answer = merchant.anonymous(Method::GET, &challenge).send().await;
    assert_eq!(expect_redirect(&answer, &challenge), path);
}

#[tokio::test]
async fn what_the_form_of_a_challenge_does_not_offer_changes_nothing() {
    let merchant = Merchant::new();
    let path = page_of(&merchant, "SECURE", &json!({})).await;
    let decide = format!("{path}/authenticate");
    for form in
        ["", "card=visa-3155", "card=visa-4242&authenticate=authorised", "card=visa-3155&authenticate=yes"]
    {
        assert_eq!(expect_redirect(&post(&merchant, &decide, form).await, &decide), path);
    }
    assert_eq!(merchant.get("/v1/orders/SECURE").await.expect_data(200)["status"], json!("pending"));
}

/// The page that a form leads to.
async fn page_after(merchant: &Merchant, path: &str, form: &str) -> String {
    let answer = post(merchant, path, form).await;
    expect_page(merchant, &expect_redirect(&answer, path), "en").await
}

#[tokio::test]
async fn every_missing_field_is_told_beside_it_and_in_the_alert() {
    let merchant = Merchant::new();
    let path = page_of(&merchant, "FIELDS", &json!({})).await;
    let page = page_after(&merchant, &path, "").await;
    for error in ["Enter a card number.", "Enter the month and year of expiry.", "Enter the CVC."] {
        assert!(page.contains(error), "{error}");
    }
    assert_eq!(page.matches("aria-invalid=\"true\"").count(), 3);
    for field in ["number", "expiry", "cvc"] {
        let described = format!("aria-describedby=\"{field}-hint {field}-error\"");
        assert!(page.contains(&described) && page.contains(&format!("id=\"{field}-error\"")), "{field}");
    }
    // The alert names each field, and leads there.
    let alert = page.split("role=\"alert\"").nth(1).unwrap().split("</div>").next().unwrap();
    assert!(alert.contains("<a href=\"#number\">Card number</a>"), "{alert}");
    assert_eq!(alert.matches("<li>").count(), 3);
    assert_eq!(merchant.get("/v1/orders/FIELDS").await.expect_data(200)["failure"], json!(null));
}

#[tokio::test]
async fn every_bad_field_is_told_beside_it() {
    let merchant = Merchant::new();
    let path = page_of(&merchant, "FIELDS", &json!({})).await;
    let page = page_after(&merchant, &path, "number=4242424242424241&expiry=01%2F20&cvc=12").await;
    for error in ["This card number is not valid.", "This month is over.", "The CVC has 3 or 4 digits."] {
        assert!(page.contains(error), "{error}");
    }
    let page = page_after(&merchant, &path, "number=4242424242424242&expiry=13%2F34&cvc=123").await;
    assert!(page.contains("Enter the expiry as MM/YY."));
    assert_eq!(merchant.get("/v1/orders/FIELDS").await.expect_data(200)["failure"], json!(null));
}

#[tokio::test]
async fn a_real_card_is_refused_and_not_repeated() {
    let merchant = Merchant::new();
    let path = page_of(&merchant, "FIELDS", &json!({})).await;
    let real = page_after(&merchant, &path, &card_form("4111111111111111")).await;
    assert!(real.contains("This is not a test card.") && !real.contains("4111"), "{real}");
    assert_eq!(merchant.get("/v1/orders/FIELDS").await.expect_data(200)["failure"], json!(null));
}

#[tokio::test]
async fn a_link_fills_in_a_card_where_there_are_no_scripts() {
    let merchant = Merchant::new();
    let path = page_of(&merchant, "FILLED", &json!({})).await;
    let page = expect_page(&merchant, &path, "en").await;
    let token = path.strip_prefix("/checkout/").unwrap();
    assert!(page.contains(&format!("href=\"{token}?card=amex-0005\"")));
    let page = expect_page(&merchant, &format!("{path}?card=amex-0005"), "en").await;
    assert!(page.contains("value=\"3782 822463 10005\"") && page.contains("value=\"1234\""), "{page}");
    let page = expect_page(&merchant, &format!("{path}?card=unionpay-0005"), "en").await;
    assert!(page.contains("value=\"6200 0000 0000 0005\"") && page.contains("value=\"123\""), "{page}");
}

#[tokio::test]
async fn a_closed_order_has_its_page() {
    let merchant = Merchant::new();
    let closed = page_of(&merchant, "CLOSED", &json!({})).await;
    merchant.close("CLOSED").await.expect_data(200);
    assert!(expect_page(&merchant, &closed, "en").await.contains("Order closed"));
}

#[tokio::test]
async fn a_refunded_order_has_its_page() {
    let merchant = Merchant::new();
    let refunded = page_of(&merchant, "REFUNDED", &json!({"return_url": "https://shop.example.com/"})).await;
    merchant.pay("REFUNDED").await.expect_data(200);
    merchant.post("/v1/refunds", &refund("PART", "REFUNDED", 100)).send().await.expect_data(201);
    let page = expect_page(&merchant, &refunded, "en").await;
    assert!(page.contains("Payment complete") && page.contains("US$1.00"), "{page}");
    merchant.post("/v1/refunds", &refund("REST", "REFUNDED", 298_900)).send().await.expect_data(201);
    assert!(expect_page(&merchant, &refunded, "en").await.contains("all of it has been refunded"));
}

#[tokio::test]
async fn an_expired_order_has_its_page_and_takes_no_card() {
    let merchant = Merchant::new();
    let expired = page_of(&merchant, "EXPIRED", &json!({"locale": "zh"})).await;
    merchant.advance(7_200).await;
    let page = expect_page(&merchant, &expired, "en").await;
    assert!(page.contains("訂單已逾期") && !page.contains("<form"), "{page}");
    let late = post(&merchant, &expired, &card_form("4242424242424242")).await;
    assert_eq!(expect_redirect(&late, &expired), expired);
    assert_eq!(merchant.get("/v1/orders/EXPIRED").await.expect_data(200)["status"], json!("closed"));
}
