//! The envelope of every error, and what a request must bring along before anything runs: a key, a
//! path, a method, a body of a fair size that is JSON (contract, section 1).

use reqwest::Method;
use serde_json::json;

use crate::support::client::order;
use crate::support::{Merchant, raw};

/// Every route under a key, and what its 405 allows.
const ROUTES: [(&str, &str); 6] = [
    ("/v1/orders", "GET, POST"),
    ("/v1/orders/A1", "GET"),
    ("/v1/orders/A1/close", "POST"),
    ("/v1/refunds", "GET, POST"),
    ("/v1/refunds/R1", "GET"),
    ("/sandbox/orders/A1/pay", "POST"),
];

#[tokio::test]
async fn the_members_of_an_error_stand_in_their_order() {
    let merchant = Merchant::new();
    let answer = merchant.get("/v1/orders/NOWHERE").await;
    let id = answer.header("x-request-id").unwrap();
    let expected = format!(
        r#"{{"request_id":"{id}","type":"invalid_request_error","code":"order_not_found","message":"No order of this merchant has the trade_no or out_trade_no \"NOWHERE\"."}}"#
    );
    assert_eq!(answer.bytes, expected.as_bytes());

    let answer = merchant.post("/v1/orders", &json!({"out_trade_no": "A1", "amount": 1, "currency": "USD"}));
    let answer = answer.send().await;
    let id = answer.header("x-request-id").unwrap();
    let expected = format!(
        r#"{{"request_id":"{id}","type":"invalid_request_error","code":"subject_missing","message":"subject is required.","param":"subject","errors":[{{"param":"subject","code":"subject_missing","message":"subject is required."}}]}}"#
    );
    assert_eq!(answer.bytes, expected.as_bytes());
}

#[tokio::test]
async fn every_answer_has_an_id_of_its_own() {
    let merchant = Merchant::new();
    let (one, other) = (merchant.get("/v1/orders").await, merchant.get("/v1/orders").await);
    assert_ne!(one.data(200), json!(null));
    assert_ne!(one.header("x-request-id"), other.header("x-request-id"));
}

#[tokio::test]
async fn only_a_test_key_is_let_in() {
    let merchant = Merchant::new();
    let (short, long) = ("kuko_test_1234567".to_owned(), format!("kuko_test_{}", "a".repeat(65)));
    let keys: [(&[&str], &str); 11] = [
        (&[], "api_key_missing"),
        (&[""], "api_key_invalid"),
        (&[&merchant.api_key, &merchant.api_key], "api_key_invalid"),
        (&["kuko_live_12345678"], "live_key_not_allowed"),
        (&["kuko_live_"], "live_key_not_allowed"),
        (&["sk_test_12345678"], "api_key_invalid"),
        (&["KUKO_TEST_12345678"], "api_key_invalid"),
        (&["kuko_test_1234 5678"], "api_key_invalid"),
        (&["kuko_test_schlüssel"], "api_key_invalid"),
        (&[&short], "api_key_invalid"),
        (&[&long], "api_key_invalid"),
    ];
    for (keys, code) in keys {
        let call = merchant.anonymous(Method::POST, "/v1/orders").header("Content-Type", "application/json");
        let call = call.bytes(order("A1", 1).to_string());
        let answer = keys.iter().fold(call, |call, key| call.header("X-Api-Key", key)).send().await;
        let error = answer.is_error(401, "authentication_error", code);
        assert!(!error.to_string().contains("12345678"), "the key is not repeated: {error}");
    }
    for fits in ["kuko_test_", "-_"].map(|end| format!("{}{}", merchant.api_key, end)) {
        let call = merchant.anonymous(Method::GET, "/v1/orders").header("X-Api-Key", &fits);
        call.send().await.data(200);
    }
}

#[tokio::test]
async fn every_route_wants_a_key() {
    let merchant = Merchant::new();
    for (path, allowed) in ROUTES {
        for method in allowed.split(", ") {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let answer = merchant.anonymous(method, path).send().await;
            answer.is_error(401, "authentication_error", "api_key_missing");
        }
    }
}

#[tokio::test]
async fn another_method_is_told_which_ones_there_are() {
    let merchant = Merchant::new();
    for (path, allowed) in ROUTES {
        for method in [Method::OPTIONS, Method::PUT, Method::PATCH, Method::DELETE, Method::TRACE] {
            let answer = merchant.call(method, path).send().await;
            answer.is_error(405, "invalid_request_error", "method_not_allowed");
            assert_eq!(answer.header("allow"), Some(allowed), "{path}");
        }
        // A HEAD has no body, and still its id.
        let answer = merchant.call(Method::HEAD, path).send().await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)), "{path}");
        assert!(answer.header("x-request-id").is_some_and(|id| id.starts_with("req_")));
    }
    let wrong = merchant.post("/v1/orders/A1", &json!({})).send().await;
    wrong.is_error(405, "invalid_request_error", "method_not_allowed");
}

#[tokio::test]
async fn the_health_checks_take_head_as_well() {
    let merchant = Merchant::new();
    for path in ["/healthz", "/readyz"] {
        assert_eq!(merchant.anonymous(Method::HEAD, path).send().await.status, 200);
        for method in [Method::OPTIONS, Method::POST] {
            let answer = merchant.anonymous(method, path).send().await;
            answer.is_error(405, "invalid_request_error", "method_not_allowed");
            assert_eq!(answer.header("allow"), Some("GET,HEAD"));
        }
    }
}

#[tokio::test]
async fn a_path_that_is_none_is_not_found_with_any_method() {
    let merchant = Merchant::new();
    let variants = [
        ("/v1/orders/", " Did you mean GET /v1/orders?"),
        ("//v1/orders", " Did you mean GET /v1/orders?"),
        ("/v1//orders", " Did you mean GET /v1/orders?"),
        ("/v1/orders/A1/", " Did you mean GET /v1/orders/A1?"),
        ("/", ""),
        ("/v1", ""),
        ("/v1/order", ""),
        ("/V1/orders", ""),
        ("/v2/orders", ""),
        ("/v1/orders/A1/pay", ""),
        ("/sandbox", ""),
        ("/%00", ""),
        ("/%ff", ""),
    ];
    for (path, hint) in variants {
        let error = merchant.get(path).await.is_not_found("endpoint_not_found");
        assert_eq!(error["message"], json!(format!("There is no such endpoint.{hint}")), "{path}");
        for method in [Method::POST, Method::OPTIONS] {
            merchant.call(method, path).send().await.is_not_found("endpoint_not_found");
        }
        assert_eq!(merchant.call(Method::HEAD, path).send().await.status, 404, "{path}");
    }
    for path in ["/v1/orders/%00", "/v1/orders/%ff", "/v1/orders/%2F", "/v1/orders/a%20b"] {
        merchant.get(path).await.is_not_found("order_not_found");
    }
    merchant.get("/v1/refunds/%00").await.is_not_found("refund_not_found");
    merchant.call(Method::POST, "/v1/orders/%ff/close").send().await.is_not_found("order_not_found");
}

#[tokio::test]
async fn a_body_may_have_64_kib() {
    let merchant = Merchant::new();
    let padded = |length: usize| {
        let body = order("LARGE", 1).to_string();
        format!("{body}{}", " ".repeat(length - body.len()))
    };
    for length in [64 * 1024 + 1, 1024 * 1024] {
        let answer = merchant.post_bytes("/v1/orders", padded(length)).send().await;
        answer.is_error(413, "invalid_request_error", "body_too_large");
    }
    // Nor does it help not to announce the length.
    let request = format!(
        "POST /v1/orders HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Api-Key: {}\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n{}\r\n0\r\n\r\n",
        merchant.api_key,
        padded(0x10001)
    );
    let answer = raw(&merchant.base_url, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("\"body_too_large\""), "{answer}");

    assert_eq!(merchant.all("/v1/orders").await, [json!(null); 0]);
    merchant.post_bytes("/v1/orders", padded(64 * 1024)).send().await.data(201);
}

#[tokio::test]
async fn a_body_must_be_announced_as_json() {
    let merchant = Merchant::new();
    let types: [&[&str]; 6] = [
        &[],
        &["application/x-www-form-urlencoded"],
        &["text/plain"],
        &["application/jsonx"],
        &[""],
        &["application/json", "application/json"],
    ];
    for types in types {
        let call = merchant.call(Method::POST, "/v1/orders").bytes(order("A1", 1).to_string());
        let call = types.iter().fold(call, |call, name| call.header("Content-Type", name));
        call.send().await.is_error(415, "invalid_request_error", "content_type_not_json");
    }
    assert_eq!(merchant.all("/v1/orders").await, [json!(null); 0]);
    let types = ["application/json; charset=utf-8", "Application/JSON;charset=UTF-8", " application/json "];
    for (n, name) in types.into_iter().enumerate() {
        let call = merchant.call(Method::POST, "/v1/orders").header("Content-Type", name);
        call.bytes(order(&format!("A{n}"), 1).to_string()).send().await.data(201);
    }
}

#[tokio::test]
async fn a_body_that_is_no_json_object_says_what_it_is() {
    let merchant = Merchant::new();
    let deep = format!("{{\"metadata\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let twice = br#"{"out_trade_no":"A1","amount":1,"amount":2,"currency":"USD","subject":"x"}"#;
    let bodies: [(&[u8], &str); 13] = [
        (b"", "the body is empty"),
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
    for path in ["/v1/orders", "/v1/refunds", "/sandbox/orders/A1/pay"] {
        for (body, reason) in bodies {
            let answer = merchant.post_bytes(path, body).send().await;
            let error = answer.is_refused("malformed_request");
            assert!(error["message"].as_str().unwrap().contains(reason), "{reason}: {error}");
            assert_eq!(error.get("param"), None);
        }
    }
    assert_eq!(merchant.all("/v1/orders").await, [json!(null); 0]);
}
