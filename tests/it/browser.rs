//! The checkout page in a real browser: with and without scripts, by keyboard, on a phone, and in the hands
//! of buyers who click twice and go back (contract, section 5).

use fantoccini::key::Key;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::browser::Browser;
use crate::support::client::order;
use crate::support::{Merchant, wait_while};

const PAY: &str = "form button.primary";

/// A shop on another origin, to which the buyer returns.
fn shop(merchant: &Merchant) -> String {
    format!("{}/healthz?cart=7", merchant.base_url.replace("127.0.0.1", "localhost"))
}

/// The address of a new order's page.
async fn page(merchant: &Merchant, no: &str, fields: &Value) -> String {
    let mut body = order(no, 299_000);
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let order = merchant.post("/v1/orders", &body).send().await.expect_data(201);
    order["checkout_url"].as_str().unwrap().to_owned()
}

/// The address of a shop that sends everybody to another address.
async fn leads_on(to: String) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let answer =
            format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        while let Ok((mut socket, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                // Some of a request is enough: every one is answered alike.
                if socket.read(&mut [0; 4096]).await? > 0 {
                    socket.write_all(answer.as_bytes()).await?;
                }
                std::io::Result::Ok(())
            });
        }
    });
    format!("http://127.0.0.1:{port}/done")
}

/// The types of a merchant's events, the oldest first.
async fn told(merchant: &Merchant) -> Vec<Value> {
    let events = merchant.all("/sandbox/events").await;
    events.iter().rev().map(|event| event["type"].clone()).collect()
}

fn card(name: &str) -> String {
    format!(".cards a[href$='card={name}']")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_click_fills_in_a_card_and_the_buyer_returns_to_the_shop() {
    let Some(browser) = Browser::start(&json!({})).await else { return };
    let merchant = Merchant::new();
    let page = page(&merchant, "CLICKED", &json!({"return_url": shop(&merchant)})).await;
    browser.goto(&page).await;
    browser.click(&card("amex-0005")).await;
    assert_eq!(browser.value("#number").await, "3782 822463 10005");
    assert_eq!(browser.value("#cvc").await, "1234");
    assert_eq!(browser.client.current_url().await.unwrap().as_str(), page, "nothing was loaded anew");
    browser.click(PAY).await;
    let trade_no = merchant.get("/v1/orders/CLICKED").await.expect_data(200)["trade_no"].clone();
    let returned = browser.expect_address("/healthz").await;
    let expected =
        format!("{}&out_trade_no=CLICKED&trade_no={}", shop(&merchant), trade_no.as_str().unwrap());
    assert_eq!(returned, expected);
    assert_eq!(told(&merchant).await, ["payment.succeeded"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shop_that_leads_on_to_another_address_does_not_strand_its_buyer() {
    let Some(browser) = Browser::start(&json!({})).await else { return };
    let merchant = Merchant::new();
    let first = leads_on(shop(&merchant)).await;
    let page = page(&merchant, "LED_ON", &json!({"return_url": first})).await;
    browser.goto(&page).await;
    browser.click(&card("visa-3155")).await;
    browser.click(PAY).await;
    browser.click("button[value='authorised']").await;
    // The policy ends the way from the form; the link beside the result leads all the way.
    browser.expect_text("Payment complete").await;
    browser.click("a.primary").await;
    browser.expect_address("/healthz?cart=7").await;
    assert_eq!(told(&merchant).await, ["payment.succeeded"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn digits_are_grouped_while_they_are_typed() {
    let Some(browser) = Browser::start(&json!({})).await else { return };
    let merchant = Merchant::new();
    browser.goto(&page(&merchant, "TYPED", &json!({})).await).await;
    browser.write("#number", "4242424242424242").await;
    browser.write("#expiry", "1234").await;
    assert_eq!(browser.value("#number").await, "4242 4242 4242 4242");
    assert_eq!(browser.value("#expiry").await, "12/34");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_that_is_left_runs_down() {
    let Some(browser) = Browser::start(&json!({})).await else { return };
    let merchant = Merchant::new();
    browser.goto(&page(&merchant, "TICKS", &json!({})).await).await;
    browser.expect_text("01:59:").await;
    let first = browser.run("return document.querySelector('.countdown dd').textContent").await;
    wait_while("the time stands still", async || {
        browser.run("return document.querySelector('.countdown dd').textContent").await == first
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_turns_by_itself_when_the_time_is_over() {
    let Some(browser) = Browser::start(&json!({})).await else { return };
    let merchant = Merchant::new();
    let page = page(&merchant, "WATCHED", &json!({})).await;
    merchant.advance(7_195).await;
    browser.goto(&page).await;
    browser.expect_text("Order expired").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_decline_and_a_failed_challenge_the_buyer_pays() {
    let Some(browser) = Browser::start(&json!({})).await else { return };
    let merchant = Merchant::new();
    browser.goto(&page(&merchant, "AGAIN", &json!({"locale": "zh"})).await).await;
    browser.click(&card("visa-9995")).await;
    browser.click(PAY).await;
    browser.expect_text("卡片餘額或額度不足。").await;
    browser.click(&card("visa-3155")).await;
    browser.click(PAY).await;
    browser.click("button[value='failed']").await;
    browser.expect_text("未通過身分驗證").await;
    browser.click(&card("visa-3155")).await;
    browser.click(PAY).await;
    browser.click("button[value='authorised']").await;
    browser.expect_text("付款完成").await;
    assert_eq!(told(&merchant).await, ["payment.failed", "payment.failed", "payment.succeeded"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clicks_two_tabs_and_going_back_pay_once() {
    let Some(browser) = Browser::start(&json!({})).await else { return };
    let merchant = Merchant::new();
    let page = page(&merchant, "ONCE", &json!({})).await;
    browser.goto(&page).await;
    let first_tab = browser.client.window().await.unwrap();
    let second_tab = browser.client.new_window(true).await.unwrap().handle;
    browser.client.switch_to_window(second_tab.clone()).await.unwrap();
    browser.goto(&page).await;
    browser.click(&card("visa-4242")).await;
    browser.client.switch_to_window(first_tab).await.unwrap();
    browser.click(&card("visa-4242")).await;
    browser.run("const pay = document.querySelector('form button.primary'); pay.click(); pay.click();").await;
    browser.expect_text("Payment complete").await;
    browser.client.back().await.unwrap();
    browser.expect_text("Payment complete").await;
    browser.client.switch_to_window(second_tab).await.unwrap();
    browser.click(PAY).await;
    browser.expect_text("Payment complete").await;
    browser.client.refresh().await.unwrap();
    browser.expect_text("Payment complete").await;
    assert_eq!(told(&merchant).await, ["payment.succeeded"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keyboard_is_enough() {
    let Some(browser) = Browser::start(&json!({})).await else { return };
    let merchant = Merchant::new();
    browser.goto(&page(&merchant, "KEYS", &json!({})).await).await;
    let press = async |keys: &str| {
        browser.client.active_element().await.unwrap().send_keys(keys).await.unwrap();
    };
    let (tab, enter) = (String::from(char::from(Key::Tab)), String::from(char::from(Key::Enter)));
    let focus = async || browser.run("return document.activeElement.id").await;
    // The first stop leads past the head of the page, the next ones are the fields in their order.
    press(&tab).await;
    assert_eq!(browser.run("return document.activeElement.className").await, json!("skip"));
    press(&enter).await;
    press(&tab).await;
    assert_eq!(focus().await, json!("number"));
    press("4242424242424241").await;
    press(&tab).await;
    press("1234").await;
    press(&tab).await;
    press("123").await;
    press(&enter).await;
    browser.expect_text("This card number is not valid.").await;
    // The field that is wrong has the focus.
    assert_eq!(focus().await, json!("number"));
    press("4242424242424242").await;
    press(&tab).await;
    press("1234").await;
    press(&tab).await;
    press("123").await;
    press(&tab).await;
    press(&enter).await;
    browser.expect_text("Payment complete").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_script_is_needed() {
    let options = json!({"prefs": {"profile.managed_default_content_settings.javascript": 2}});
    let Some(browser) = Browser::start(&options).await else { return };
    let merchant = Merchant::new();
    browser.goto(&page(&merchant, "PLAIN", &json!({"return_url": shop(&merchant)})).await).await;
    browser.click(&card("visa-0002")).await;
    browser.expect_address("card=visa-0002").await;
    browser.click(PAY).await;
    browser.expect_text("The card was declined.").await;
    browser.click(&card("visa-3155")).await;
    browser.expect_address("card=visa-3155").await;
    browser.click(PAY).await;
    browser.click("button[value='authorised']").await;
    browser.expect_address("/healthz").await;
    assert_eq!(told(&merchant).await, ["payment.failed", "payment.succeeded"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_phone_shows_it_without_scrolling_sideways() {
    let small =
        json!({"mobileEmulation": {"deviceMetrics": {"width": 320, "height": 640, "pixelRatio": 2.0}}});
    let Some(browser) = Browser::start(&small).await else { return };
    let merchant = Merchant::new();
    let long = "W".repeat(64);
    for locale in ["en", "zh"] {
        let no = format!("{}{locale}", &long[..62]);
        let url = page(&merchant, &no, &json!({"locale": locale, "subject": long})).await;
        for path in ["", "?number=invalid&expiry=past&cvc=missing", "/authenticate?card=visa-3155"] {
            browser.goto(&format!("{url}{path}")).await;
            let width = browser.run("return document.documentElement.scrollWidth").await;
            assert_eq!(width, json!(320), "{locale} {path}");
            let small = browser
                .run(
                    "return [...document.querySelectorAll('button, input:not([type=hidden]), main a')]
                        .map((element) => element.getBoundingClientRect())
                        .filter(({ width, height }) => width < 44 || height < 44).length",
                )
                .await;
            assert_eq!(small, json!(0), "{locale} {path}");
        }
    }
}
