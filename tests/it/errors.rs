//! The envelope of every error, and of every endpoint that takes a body: one of a fair size, announced as JSON, not
//! encoded, and a JSON object (contract, section 1). Keys, methods and paths are in `endpoints`.

use reqwest::Method;
use serde_json::json;

use crate::support::client::order;
use crate::support::{Merchant, raw, routes};

/// It looks at no body.
const WITHOUT_BODY: &str = "/sandbox/reset";

/// These take a call without a body, too.
const BODY_IS_OPTIONAL: [&str; 4] = [
    "/v1/orders/A1/close",
    "/sandbox/events/A1/redeliver",
    "/sandbox/webhook/rotate",
    "/sandbox/webhook/test",
];

/// Every call that takes a body.
fn calls_with_body() -> Vec<(Method, String)> {
    let takes_one = |method: &Method| [Method::POST, Method::PUT, Method::PATCH].contains(method);
    let routes = routes::with_key().filter(|route| route.path != WITHOUT_BODY);
    let calls = routes.flat_map(|route| {
        let path = route.example();
        route.methods.into_iter().filter(takes_one).map(move |method| (method, path.clone()))
    });
    calls.collect()
}

/// An order of this length, padded at its end.
fn padded(length: usize) -> String {
    let body = order("LARGE", 1).to_string();
    format!("{body}{}", " ".repeat(length - body.len()))
}

#[tokio::test]
async fn the_members_of_an_error_stand_in_their_order() {
    let merchant = Merchant::new();
    let answer = merchant.get("/v1/orders/NOWHERE").await;
    let id = answer.header("x-request-id").unwrap();
    answer.expect_bytes(&format!(
        r#"{{"request_id":"{id}","type":"invalid_request_error","code":"order_not_found",
            "message":"No order of this merchant has the trade_no or out_trade_no \"NOWHERE\"."}}"#
    ));
}

#[tokio::test]
async fn the_fields_at_fault_stand_behind_them() {
    let merchant = Merchant::new();
    let body = json!({"out_trade_no": "A1", "amount": 1, "currency": "USD"});
    let answer = merchant.post("/v1/orders", &body).send().await;
    let id = answer.header("x-request-id").unwrap();
    answer.expect_bytes(&format!(
        r#"{{"request_id":"{id}","type":"invalid_request_error","code":"subject_missing",
            "message":"subject is required.","param":"subject",
            "errors":[{{"param":"subject","code":"subject_missing","message":"subject is required."}}]}}"#
    ));
}

#[tokio::test]
async fn every_answer_has_an_id_of_its_own() {
    let merchant = Merchant::new();
    let (one, other) = (merchant.get("/v1/orders").await, merchant.get("/v1/orders").await);
    assert_ne!(one.expect_data(200), json!(null));
    assert_ne!(one.header("x-request-id"), other.header("x-request-id"));
}

#[tokio::test]
async fn a_body_may_have_64_kib() {
    let merchant = Merchant::new();
    merchant.post_bytes("/v1/orders", padded(64 * 1024)).send().await.expect_data(201);
}

#[tokio::test]
async fn a_larger_body_is_refused() {
    let merchant = Merchant::new();
    for (method, path) in calls_with_body() {
        for length in [64 * 1024 + 1, 1024 * 1024] {
            let call = merchant.call(method.clone(), &path).header("Content-Type", "application/json");
            let answer = call.bytes(padded(length)).send().await;
            answer.expect_error(413, "invalid_request_error", "body_too_large");
        }
    }
    assert_eq!(merchant.all("/v1/orders").await, [json!(null); 0]);
}

#[tokio::test]
async fn a_larger_body_is_refused_though_its_length_is_not_announced() {
    let merchant = Merchant::new();
    let request = format!(
        "POST /v1/orders HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Api-Key: {}\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n{}\r\n0\r\n\r\n",
        merchant.api_key,
        padded(0x10001)
    );
    let answer = raw(&merchant.base_url, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("\"body_too_large\""), "{answer}");
    assert_eq!(merchant.all("/v1/orders").await, [json!(null); 0]);
}

#[tokio::test]
async fn a_body_that_is_not_announced_as_json_is_refused() {
    let merchant = Merchant::new();
    let types: [&[&str]; 6] = [
        &[],
        &["application/x-www-form-urlencoded"],
        &["text/plain"],
        &["application/jsonx"],
        &[""],
        &["application/json", "application/json"],
    ];
    for (method, path) in calls_with_body() {
        for types in types {
            let call = merchant.call(method.clone(), &path).bytes(order("A1", 1).to_string());
            let call = types.iter().fold(call, |call, name| call.header("Content-Type", name));
            call.send().await.expect_error(415, "invalid_request_error", "content_type_not_json");
        }
    }
    assert_eq!(merchant.all("/v1/orders").await, [json!(null); 0]);
}

#[tokio::test]
async fn json_may_be_announced_with_a_charset_and_in_any_case() {
    let merchant = Merchant::new();
    let types = ["application/json; charset=utf-8", "Application/JSON;charset=UTF-8", " application/json "];
    for (n, name) in types.into_iter().enumerate() {
        let call = merchant.call(Method::POST, "/v1/orders").header("Content-Type", name);
        call.bytes(order(&format!("A{n}"), 1).to_string()).send().await.expect_data(201);
    }
}

#[tokio::test]
async fn a_body_that_is_encoded_is_refused_by_the_header_that_says_so() {
    let merchant = Merchant::new();
    let compressed = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03";
    let json = "application/json";
    for (content_type, encodings, header) in [
        (json, &["gzip"][..], "Content-Encoding"),
        (json, &["br"], "Content-Encoding"),
        (json, &["identity, GZIP"], "Content-Encoding"),
        (json, &["identity", "deflate"], "Content-Encoding"),
        ("application/json; charset=gbk", &[], "Content-Type"),
        ("application/json; v=1; Charset=\"utf-16\"", &[], "Content-Type"),
        ("application/json;charset=", &[], "Content-Type"),
        ("application/json; charset=utf-8; charset=big5", &["identity"], "Content-Type"),
    ] {
        for (method, path) in calls_with_body() {
            let call = merchant.call(method, &path).header("Content-Type", content_type).key("encoded");
            let call =
                encodings.iter().fold(call, |call, encoding| call.header("Content-Encoding", encoding));
            let answer = call.bytes(compressed).send().await;
            let error = answer.expect_error(415, "invalid_request_error", "encoding_not_supported");
            let message = error["message"].as_str().unwrap();
            assert!(message.starts_with(&format!("The header {header} ")), "{message}");
        }
    }
    // Nothing ran, so the key is not bound.
    merchant.post("/v1/orders", &order("PLAIN", 1)).key("encoded").send().await.expect_data(201);
}

#[tokio::test]
async fn a_body_that_is_plain_may_be_announced_as_such() {
    let merchant = Merchant::new();
    let call =
        merchant.call(Method::POST, "/v1/orders").key("encoded").header("Content-Encoding", "Identity");
    let call = call.header("Content-Type", "application/json; charset=\"US-ASCII\"");
    call.bytes(order("PLAIN", 1).to_string()).send().await.expect_data(201);
}

#[tokio::test]
async fn where_there_is_no_body_nothing_is_encoded() {
    let merchant = Merchant::new();
    merchant.order("PLAIN", 1).await;
    let close = merchant.call(Method::POST, "/v1/orders/PLAIN/close").header("Content-Encoding", "gzip");
    close.send().await.expect_data(200);
}

#[tokio::test]
async fn a_body_under_another_transfer_coding_is_refused() {
    let merchant = Merchant::new();
    let head = |coding: &str| {
        format!(
            "POST /v1/orders HTTP/1.1\r\nHost: sandbox\r\nX-Api-Key: {}\r\nContent-Type: application/json\r\n\
             Connection: close\r\nTransfer-Encoding: {coding}\r\n\r\n",
            merchant.api_key
        )
    };
    let body = order("CHUNKED", 1).to_string();
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let answer = raw(&merchant.base_url, format!("{}{chunked}", head("gzip, chunked")).as_bytes()).await;
    assert!(
        answer.starts_with("HTTP/1.1 415") && answer.contains("The header Transfer-Encoding "),
        "{answer}"
    );
    let answer = raw(&merchant.base_url, format!("{}{chunked}", head("chunked")).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

#[tokio::test]
async fn names_of_ignored_fields_make_no_header_that_a_client_refuses() {
    let merchant = Merchant::new();
    let mut body = order("IGNORED", 1);
    for n in 10..40 {
        body[format!("{n}{}\r\n, \u{7f}", "𝄞".repeat(57))] = json!(1);
    }
    let answer = merchant.post("/v1/orders", &body).send().await;
    answer.expect_data(201);
    let ignored = answer.header("x-sandbox-ignored-fields").unwrap();
    let names: Vec<_> = ignored.split(", ").collect();
    assert!(ignored.len() < 2100 && names.len() == 2, "{ignored}");
    assert!(names.iter().all(|name| name.ends_with("%0D%0A%2C%20%7F")), "{ignored}");
}

#[tokio::test]
async fn a_body_that_is_no_json_object_says_what_it_is() {
    let merchant = Merchant::new();
    let deep = format!("{{\"metadata\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let twice = br#"{"out_trade_no":"A1","amount":1,"amount":2,"currency":"USD","subject":"x"}"#;
    let bodies: [(&[u8], &str); 12] = [
        (b" \n", "the body is empty"),
        (b"[]", "an array was sent"),
        (b"\"x\"", "a string was sent"),
        (b"null", "null was sent"),
        (b"{\"out_trade_no\":\"A1\",\"amount\":29", "not valid JSON"),
        (twice, "\"amount\" stands twice"),
        (deep.as_bytes(), "recursion limit"),
        (b"{\"subject\":\"\xff\"}", "not valid UTF-8 from byte 12"),
        (b"\xef\xbb\xbf{\"out_trade_no\":\"A1\"}", "byte-order mark"),
        (b"{} {}", "trailing characters"),
        (b"{\"subject\":\"\\ud800\"}", "surrogate"),
        (b"out_trade_no=A1&amount=1&currency=USD&subject=x", "not valid JSON"),
    ];
    for (method, path) in calls_with_body() {
        for (body, reason) in bodies {
            let call = merchant.call(method.clone(), &path).header("Content-Type", "application/json");
            let answer = call.bytes(body).send().await;
            let error = answer.expect_refused("malformed_request");
            assert!(error["message"].as_str().unwrap().contains(reason), "{reason}: {error}");
            assert_eq!(error.get("param"), None);
        }
    }
    assert_eq!(merchant.all("/v1/orders").await, [json!(null); 0]);
}

#[tokio::test]
async fn a_body_that_must_be_there_is_missed() {
    let merchant = Merchant::new();
    for (method, path) in calls_with_body() {
        if BODY_IS_OPTIONAL.contains(&path.as_str()) {
            continue;
        }
        let call = merchant.call(method, &path).header("Content-Type", "application/json");
        let error = call.bytes("").send().await.expect_refused("malformed_request");
        assert!(error["message"].as_str().unwrap().contains("the body is empty"), "{error}");
        assert_eq!(error.get("param"), None);
    }
}
