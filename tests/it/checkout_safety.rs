//! What the checkout page must never do: open for a token that is not its own, pay twice, let text become
//! markup, load anything from elsewhere, or keep a card's number (contract, section 5).

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;

use crate::support::client::order;
use crate::support::{Answer, Merchant, Process, raw};

const FORM: &str = "number=4242424242424242&expiry=12%2F34&cvc=123";

async fn get(merchant: &Merchant, path: &str) -> Answer {
    merchant.anonymous(Method::GET, path).send().await
}

/// Posts a form without following where it leads.
async fn post(merchant: &Merchant, path: &str, form: &str) -> String {
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: sandbox\r\nConnection: close\r\nContent-Type: \
         application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    raw(&merchant.base_url, request.as_bytes()).await
}

#[tokio::test]
async fn a_token_opens_its_own_page_only_and_all_others_look_alike() {
    let merchant = Merchant::new();
    let path = merchant.checkout_path(&merchant.order("A", 100).await);
    let other = merchant.checkout_path(&merchant.order("B", 100).await);
    let strange = Merchant::new().checkout_path(&Merchant::new().order("A", 100).await);
    let token = |path: &str| path.strip_prefix("/checkout/").unwrap().to_owned();
    let (own, other, strange) = (token(&path), token(&other), token(&strange));
    let mut answers = Vec::new();
    for tampered in [
        format!("{}{}", &own[..64], &other[64..]),
        format!("{}{}", &other[..64], &own[64..]),
        format!("{}{}", &strange[..32], &own[32..]),
        own[..95].to_owned(),
        format!("{own}0"),
        own.to_uppercase(),
        "nothing".to_owned(),
        "%00".to_owned(),
        "%ff".to_owned(),
    ] {
        let answer = get(&merchant, &format!("/checkout/{tampered}")).await;
        assert_eq!(answer.status, 404, "{tampered}");
        answers.push(String::from_utf8(answer.bytes).unwrap());
        let paid = post(&merchant, &format!("/checkout/{tampered}"), FORM).await;
        assert!(paid.starts_with("HTTP/1.1 404"), "{paid}");
    }
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.contains("Page not found")));
    assert_eq!(merchant.get("/v1/orders/A").await.expect_data(200)["status"], json!("pending"));
}

#[tokio::test]
async fn every_page_carries_the_headers_that_keep_it_safe_and_nothing_from_elsewhere() {
    let merchant = Merchant::new();
    let mut body = order("HEADERS", 100);
    body["return_url"] = json!("https://shop.example.com:8443/done?a=1");
    let path = merchant.checkout_path(&merchant.post("/v1/orders", &body).send().await.expect_data(201));
    let policy = |shop: &str| {
        format!(
            "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; form-action 'self' {shop}; \
             base-uri 'none'; frame-ancestors 'none'"
        )
    };
    let challenge = format!("{path}/authenticate?card=visa-3155");
    let shop = "https://shop.example.com:8443";
    for (path, shop) in [(path.as_str(), shop), (&challenge, shop), ("/checkout/none", "")] {
        let page = get(&merchant, path).await;
        for (name, value) in [
            ("content-security-policy", policy(shop).as_str()),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(page.header(name), Some(value), "{path}");
        }
        assert!(page.header("x-request-id").unwrap().starts_with("req_"));
        let text = String::from_utf8(page.bytes).unwrap();
        assert!(!text.contains("style=") && !text.contains("<style") && !text.contains("onclick"), "{path}");
        let sources: Vec<_> =
            text.split("src=\"").skip(1).chain(text.split("stylesheet\" href=\"").skip(1)).collect();
        assert!(sources.iter().all(|source| source.contains("assets/")), "{sources:?}");
    }
}

#[tokio::test]
async fn styles_are_kept_by_the_browser_for_as_long_as_they_stay_the_same() {
    let merchant = Merchant::new();
    let path = merchant.checkout_path(&merchant.order("STYLED", 100).await);
    let text = String::from_utf8(get(&merchant, &path).await.bytes).unwrap();
    let style = text.split("stylesheet\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    let asset = get(&merchant, &format!("/checkout/{style}")).await;
    assert_eq!(asset.header("content-type"), Some("text/css; charset=utf-8"));
    assert_eq!(asset.header("cache-control"), Some("public, max-age=31536000, immutable"));
    assert_eq!(asset.header("x-content-type-options"), Some("nosniff"));
}

#[tokio::test]
async fn no_address_of_a_shop_changes_the_policy() {
    let merchant = Merchant::new();
    for (n, host) in
        ["a;sandbox", "a,default-src", "*", "'self'", "a\"b", "x;script-src%20*"].iter().enumerate()
    {
        let mut body = order(&format!("POLICY_{n}"), 100);
        body["return_url"] = json!(format!("https://{host}/"));
        let answer = merchant.post("/v1/orders", &body).send().await;
        // A host that the parser of URLs refuses goes nowhere.
        if answer.status == 400 {
            answer.expect_refused("return_url_invalid");
            continue;
        }
        let page = get(&merchant, &merchant.checkout_path(&answer.expect_data(201))).await;
        let policies: Vec<_> = page.headers.get_all("content-security-policy").iter().collect();
        let policy = policies[0].to_str().unwrap();
        assert_eq!(policies.len(), 1);
        let directives: Vec<_> =
            policy.split(';').map(|directive| directive.trim().split(' ').next().unwrap()).collect();
        let known = [
            "default-src",
            "style-src",
            "script-src",
            "img-src",
            "form-action",
            "base-uri",
            "frame-ancestors",
        ];
        assert_eq!(directives, known, "{host}");
        assert!(policy.contains("form-action 'self' https:;") && !policy.contains(','), "{policy}");
        // The buyer still reaches the shop.
        let paid = merchant.anonymous(Method::POST, &merchant.checkout_path(&answer.expect_data(201)));
        let paid = paid.header("Content-Type", "application/x-www-form-urlencoded").bytes(FORM).send().await;
        assert!(
            paid.header("location").unwrap().starts_with(&format!("https://{host}/?out_trade_no=")),
            "{paid:?}"
        );
    }
}

#[tokio::test]
async fn a_page_that_is_not_found_finds_its_style_at_any_depth() {
    let merchant = Merchant::new();
    for lost in ["/checkout/a", "/checkout/a/b", "/checkout/a/b/c/d"] {
        let page = String::from_utf8(get(&merchant, lost).await.bytes).unwrap();
        let style = page.split("stylesheet\" href=\"").nth(1).unwrap().split('"').next().unwrap();
        let style = url::Url::parse("http://sandbox").unwrap().join(lost).unwrap().join(style).unwrap();
        assert_eq!(get(&merchant, style.path()).await.status, 200, "{lost}: {style}");
    }
}

#[tokio::test]
async fn errors_below_checkout_are_pages_in_the_language_of_the_browser() {
    let merchant = Merchant::new();
    let path = merchant.checkout_path(&merchant.order("ERRORS", 100).await);
    let call = |method: Method, path: &str| merchant.anonymous(method, path).header("Accept-Language", "zh");
    for (answer, status) in [
        (call(Method::GET, "/checkout/a/b/c/d").send().await, 404),
        (call(Method::DELETE, &path).send().await, 405),
        (call(Method::POST, "/checkout/assets/0/checkout.css").send().await, 405),
        (call(Method::POST, &path).bytes("x".repeat(70_000)).send().await, 413),
    ] {
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(String::from_utf8(answer.bytes).unwrap().contains("<html lang=\"zh-Hant\">"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_paid_once_however_often_its_form_is_sent() {
    let merchant = Merchant::new();
    let mut body = order("ONCE", 100);
    body["return_url"] = json!("https://shop.example.com/done");
    let path = merchant.checkout_path(&merchant.post("/v1/orders", &body).send().await.expect_data(201));
    let forms = join_all((0..12).map(|_| post(&merchant, &path, FORM)));
    let calls = join_all((0..6).map(|_| merchant.pay("ONCE")));
    let (forms, calls) = tokio::join!(forms, calls);
    // Whichever it was that paid: each buyer's browser goes to the shop.
    assert!(
        forms
            .iter()
            .all(|answer| answer.contains("location: https://shop.example.com/done?out_trade_no=ONCE"))
    );
    assert!(calls.iter().filter(|answer| answer.status == 200).count() <= 1);
    let events = merchant.all("/sandbox/events").await;
    let types: Vec<_> = events.iter().map(|event| event["type"].clone()).collect();
    assert_eq!(types, ["payment.succeeded"]);
}

#[tokio::test]
async fn text_of_the_merchant_never_becomes_markup() {
    let merchant = Merchant::new();
    let mut body = order("MARKUP", 100);
    body["subject"] = json!("\"><script>alert('1')</script>&amp;");
    body["return_url"] = json!("https://shop.example.com/?a=\"><script>");
    let path = merchant.checkout_path(&merchant.post("/v1/orders", &body).send().await.expect_data(201));
    let open = String::from_utf8(get(&merchant, &path).await.bytes).unwrap();
    merchant.pay("MARKUP").await.expect_data(200);
    let paid = String::from_utf8(get(&merchant, &path).await.bytes).unwrap();
    for page in [open, paid] {
        assert!(!page.contains("<script>") && page.contains("alert("), "{page}");
    }
}

#[tokio::test]
async fn text_of_the_address_never_becomes_markup() {
    let merchant = Merchant::new();
    let path = merchant.checkout_path(&merchant.order("MARKUP", 100).await);
    let query =
        String::from_utf8(get(&merchant, &format!("{path}?card=%22%3E%3Cb%3E&number=%3Cb%3E")).await.bytes);
    assert!(!query.unwrap().contains("<b>"));
}

#[tokio::test]
async fn no_card_number_is_kept_or_told() {
    let directory = tempfile::tempdir().unwrap();
    let mut command =
        crate::support::process::command(&["--data-dir", directory.path().to_str().unwrap(), "--port", "0"]);
    command.env("RUST_LOG", "trace,sqlx=trace");
    let process = Process::run(command);
    let merchant = Merchant::at(&process.base_url);
    let path = merchant.checkout_path(&merchant.order("KEPT", 100).await);
    let real = "4111111111111111";
    let cards = [real, "4000000000009995", "4242424242424241", "5555555555554444"];
    for card in cards {
        post(&merchant, &path, &format!("number={card}&expiry=12%2F34&cvc=987")).await;
        merchant.pay_with("KEPT", &json!({"card": card})).await;
    }
    assert_eq!(merchant.get("/v1/orders/KEPT").await.expect_data(200)["status"], json!("paid"));
    let journal = String::from_utf8(merchant.get("/sandbox/requests").await.bytes).unwrap();
    let log = process.end();
    for card in cards {
        assert!(!log.contains(card) && !journal.contains(card), "{card}");
        let mut grep = tokio::process::Command::new("grep");
        let found = grep.args(["-rlaF", card]).arg(directory.path()).output().await.unwrap();
        assert_eq!(String::from_utf8(found.stdout).unwrap(), "", "{card}");
    }
}

#[tokio::test]
async fn the_log_does_not_tell_how_to_open_a_page() {
    let process = Process::start(&["--ephemeral"]);
    let merchant = Merchant::at(&process.base_url);
    let path = merchant.checkout_path(&merchant.order("LOGGED", 100).await);
    let secret = &path[path.len() - 32..];
    let challenge = format!("{path}/authenticate");
    for path in [path.as_str(), &challenge, &format!("/{path}"), &format!("{path}x"), &format!("{path}/a")] {
        get(&merchant, path).await;
        post(&merchant, path, FORM).await;
    }
    let log = process.end();
    assert!(log.contains("/checkout/…/authenticate") && !log.contains(secret), "{log}");
}
