//! The fields of an order: what is refused, what is taken, and what of it comes back (contract,
//! section 2). Nothing that is refused leaves an order behind.

use serde_json::{Value, json};

use crate::support::Merchant;
use crate::support::client::order;

/// The body of an order as text, with one field written as `literal`; left out where that is empty.
fn body_with(field: &str, literal: &str) -> String {
    let sound = [
        ("out_trade_no", r#""FIELDS""#),
        ("amount", "2990"),
        ("currency", r#""USD""#),
        ("subject", r#""Pro""#),
    ];
    let others = sound.iter().filter(|(name, _)| *name != field).copied();
    let members = others.chain(Some((field, literal)).filter(|(_, literal)| !literal.is_empty()));
    let members: Vec<_> = members.map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

fn text(text: &str) -> String {
    Value::from(text).to_string()
}

fn pairs(count: usize, key_length: usize, value: &str) -> String {
    let pair = |n| format!("\"{n:0>key_length$}\":\"{value}\"");
    format!("{{{}}}", (0..count).map(pair).collect::<Vec<_>>().join(","))
}

#[tokio::test]
async fn a_value_that_breaks_its_rule_is_refused_and_makes_nothing() {
    let merchant = Merchant::new();
    let amounts = [
        "29.9",
        "2990.0",
        "1e3",
        "\"2990\"",
        "-1",
        "0",
        "-0",
        "10000000000",
        "99999999999999999999",
        "true",
        "[2990]",
    ];
    let numbers =
        [&text(&"a".repeat(65)), "\"\"", "\"A 1\"", "\"A/1\"", "\"訂單\"", "\"A\\u0000\"", "1", "{}"];
    let currencies = ["\"usd\"", "\"EUR\"", "\"\"", "\" USD\"", "840"];
    let subjects = [
        "\"\"",
        &text(&"x".repeat(257)),
        &text(&"界".repeat(257)),
        "\"a\\u0000b\"",
        "\"a\\nb\"",
        "\"a\\u007fb\"",
        "\"a\\u0085b\"",
        "1",
        "false",
    ];
    let urls = [
        "\"\"",
        "\"/done\"",
        "\"shop.test\"",
        "\"ftp://shop.test/\"",
        "\"javascript:alert(1)\"",
        "\"https://shop.test/a b\"",
        "\"https://shop.test/\\n\"",
        &text(&format!("https://shop.test/{}", "a".repeat(2031))),
        "1",
    ];
    let locales = ["\"fr\"", "\"zh-HK\"", "\"EN\"", "\"\"", "1"];
    let metadata = [
        "[]",
        "\"x\"",
        "{\"a\":1}",
        "{\"a\":null}",
        "{\"a\":{}}",
        "{\"\":\"x\"}",
        "{\"a\":\"\\u0000\"}",
        &pairs(51, 2, ""),
        &pairs(1, 41, ""),
        &pairs(1, 1, &"界".repeat(501)),
    ];
    let rules: [(&str, &[&str]); 8] = [
        ("out_trade_no", &numbers),
        ("amount", &amounts),
        ("currency", &currencies),
        ("subject", &subjects),
        ("return_url", &urls),
        ("notify_url", &urls),
        ("locale", &locales),
        ("metadata", &metadata),
    ];
    for (field, literals) in rules {
        for literal in literals {
            let body = body_with(field, literal);
            let error = merchant.post_bytes("/v1/orders", body).send().await;
            let error = error.expect_refused(&format!("{field}_invalid"));
            assert_eq!(error["param"], json!(field), "{literal}");
            assert_eq!(error["errors"].as_array().unwrap().len(), 1);
            assert!(error["message"].as_str().unwrap().starts_with(field), "{error}");
        }
    }
    assert_eq!(merchant.all("/v1/orders").await, [json!(null); 0]);
}

#[tokio::test]
async fn a_field_that_must_be_there_is_missed() {
    let merchant = Merchant::new();
    for field in ["out_trade_no", "amount", "currency", "subject"] {
        for literal in ["", "null"] {
            let answer = merchant.post_bytes("/v1/orders", body_with(field, literal)).send().await;
            let error = answer.expect_refused(&format!("{field}_missing"));
            assert_eq!(error["param"], json!(field));
        }
    }
    assert_eq!(merchant.all("/v1/orders").await, [json!(null); 0]);
}

#[tokio::test]
async fn what_no_parser_holds_is_no_value_at_all() {
    let merchant = Merchant::new();
    // Half of a pair of escapes is no text, and a number of that size is none.
    for (field, literal) in [("subject", r#""\ud800""#), ("amount", "1e400")] {
        let answer = merchant.post_bytes("/v1/orders", body_with(field, literal)).send().await;
        answer.expect_refused("malformed_request");
    }
    assert_eq!(merchant.all("/v1/orders").await, [json!(null); 0]);
}

#[tokio::test]
async fn a_value_at_its_limit_is_taken_and_comes_back() {
    let merchant = Merchant::new();
    let rules: [(&str, &[&str]); 7] = [
        ("amount", &["1", "9999999999"]),
        ("currency", &["\"USD\"", "\"HKD\"", "\"CNY\""]),
        (
            "subject",
            &[
                "\"x\"",
                &text(&"x".repeat(256)),
                &text(&"界".repeat(256)),
                "\"👨‍👩‍👧\"",
                r#""\ud83d\ude00""#,
                "\"'; DROP TABLE orders; --\"",
                "\"<b>\\\\\"",
            ],
        ),
        (
            "return_url",
            &[
                "\"http://127.0.0.1:3000/done?a=1\"",
                &text(&format!("https://shop.test/{}", "a".repeat(2030))),
            ],
        ),
        ("notify_url", &["\"http://localhost/hook\"", "\"https://shop.test/hook\"", "\"https://[::1]/\""]),
        ("locale", &["\"zh\"", "\"en\""]),
        (
            "metadata",
            &[
                "{}",
                "{\"a\":\"\",\"b\":\"line\\nbreak\"}",
                &pairs(50, 40, &"x".repeat(500)),
                &pairs(1, 1, &"界".repeat(500)),
            ],
        ),
    ];
    let values =
        rules.iter().flat_map(|(field, literals)| literals.iter().map(move |literal| (*field, literal)));
    for (n, (field, literal)) in values.enumerate() {
        let body = body_with(field, literal).replace("\"FIELDS\"", &format!("\"FIELDS_{n}\""));
        let order = merchant.post_bytes("/v1/orders", body).send().await.expect_data(201);
        let sent: Value = serde_json::from_str(literal).unwrap();
        assert_eq!(order[field], sent, "{field}");
        assert_eq!(merchant.get(&format!("/v1/orders/FIELDS_{n}")).await.expect_data(200), order);
    }
}

#[tokio::test]
async fn a_number_at_its_limit_is_taken_and_comes_back() {
    let merchant = Merchant::new();
    for number in ["1", "A.b-c_9", "12345678901234567890123456789012", &"a".repeat(64)] {
        assert_eq!(merchant.order(number, 1).await["out_trade_no"], json!(number));
    }
}

#[tokio::test]
async fn every_bad_field_is_named_at_once() {
    let merchant = Merchant::new();
    let body = json!({
        "metadata": {"a": 1}, "locale": "fr", "notify_url": "x", "return_url": "x", "currency": "usd",
        "amount": 29.9, "out_trade_no": "A 1",
    });
    let error = merchant.post("/v1/orders", &body).send().await.expect_refused("out_trade_no_invalid");
    let errors = error["errors"].as_array().unwrap();
    let codes: Vec<_> = errors.iter().map(|error| error["code"].as_str().unwrap()).collect();
    let expected = [
        "out_trade_no_invalid",
        "amount_invalid",
        "currency_invalid",
        "subject_missing",
        "return_url_invalid",
        "notify_url_invalid",
        "locale_invalid",
        "metadata_invalid",
    ];
    assert_eq!(codes, expected);
    assert!(error["message"].as_str().unwrap().ends_with(" 7 more in errors."));
}

/// An order with fields that are not known.
fn with_unknown_fields(amount: i64) -> Value {
    let mut body = order("UNKNOWN", amount);
    body["notfy_url"] = json!("http://127.0.0.1/");
    body["amount "] = json!(1);
    body["版本"] = json!({"a": [1]});
    body["a,b\n"] = json!(null);
    body
}

/// Their names in a header.
const UNKNOWN: &str = "a%2Cb%0A, amount%20, notfy_url, %E7%89%88%E6%9C%AC";

#[tokio::test]
async fn fields_that_are_not_known_are_ignored_and_named() {
    let merchant = Merchant::new();
    let body = with_unknown_fields(100);
    let answer = merchant.post("/v1/orders", &body).send().await;
    assert_eq!(answer.expect_data(201)["notify_url"], json!(null));
    assert_eq!(answer.header("x-sandbox-ignored-fields"), Some(UNKNOWN));
}

#[tokio::test]
async fn fields_that_are_not_known_are_named_beside_a_refusal_too() {
    let merchant = Merchant::new();
    let refused = merchant.post("/v1/orders", &with_unknown_fields(0)).send().await;
    refused.expect_refused("amount_invalid");
    assert_eq!(refused.header("x-sandbox-ignored-fields"), Some(UNKNOWN));
}

#[tokio::test]
async fn fields_that_are_not_known_are_no_part_of_the_orders_content() {
    let merchant = Merchant::new();
    merchant.post("/v1/orders", &with_unknown_fields(100)).send().await.expect_data(201);
    let plain = merchant.post("/v1/orders", &order("UNKNOWN", 100)).send().await;
    plain.expect_data(200);
    assert_eq!(plain.header("x-sandbox-ignored-fields"), None);
}
