//! What a request must bring along for every endpoint that the router has: a key, a method that it takes, and a path
//! that leads somewhere (contract, section 1).

use reqwest::Method;
use serde_json::json;

use crate::support::client::order;
use crate::support::{Merchant, routes};

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
        let error = answer.expect_error(401, "authentication_error", code);
        assert!(!error.to_string().contains("12345678"), "the key is not repeated: {error}");
    }
}

#[tokio::test]
async fn every_well_formed_test_key_is_let_in() {
    let merchant = Merchant::new();
    for fits in ["kuko_test_", "-_"].map(|end| format!("{}{}", merchant.api_key, end)) {
        let call = merchant.anonymous(Method::GET, "/v1/orders").header("X-Api-Key", &fits);
        call.send().await.expect_data(200);
    }
}

#[tokio::test]
async fn every_route_wants_a_key() {
    let merchant = Merchant::new();
    for route in routes::with_key() {
        for method in &route.methods {
            let answer = merchant.anonymous(method.clone(), &route.example()).send().await;
            answer.expect_error(401, "authentication_error", "api_key_missing");
        }
    }
}

#[tokio::test]
async fn another_method_is_told_which_ones_there_are() {
    let merchant = Merchant::new();
    for route in routes::with_key() {
        let path = route.example();
        for method in route.other_methods() {
            let answer = merchant.call(method.clone(), &path).send().await;
            assert_eq!(answer.header("allow"), Some(route.allowed().as_str()), "{method} {path}");
            // What answers a HEAD has no body, and still its id.
            if method == Method::HEAD {
                assert_eq!(answer.status, 405, "{path}");
                assert!(answer.header("x-request-id").is_some_and(|id| id.starts_with("req_")));
            } else {
                answer.expect_error(405, "invalid_request_error", "method_not_allowed");
            }
        }
    }
}

#[tokio::test]
async fn a_page_is_told_which_methods_it_has_as_well() {
    let merchant = Merchant::new();
    for route in routes::all().iter().filter(|route| route.is_page()) {
        let path = route.example();
        for method in route.other_methods() {
            let answer = merchant.anonymous(method.clone(), &path).send().await;
            assert_eq!(answer.status, 405, "{method} {path}");
            assert_eq!(answer.header("allow"), Some(route.allowed().as_str()), "{method} {path}");
            assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn the_health_checks_take_head_as_well() {
    let merchant = Merchant::new();
    for path in ["/healthz", "/readyz"] {
        assert_eq!(merchant.anonymous(Method::HEAD, path).send().await.status, 200);
        for method in [Method::OPTIONS, Method::POST] {
            let answer = merchant.anonymous(method, path).send().await;
            answer.expect_error(405, "invalid_request_error", "method_not_allowed");
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
        let error = merchant.get(path).await.expect_not_found("endpoint_not_found");
        assert_eq!(error["message"], json!(format!("There is no such endpoint.{hint}")), "{path}");
        for method in [Method::POST, Method::OPTIONS] {
            merchant.call(method, path).send().await.expect_not_found("endpoint_not_found");
        }
        assert_eq!(merchant.call(Method::HEAD, path).send().await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_number_that_no_object_has_is_not_found() {
    let merchant = Merchant::new();
    for path in ["/v1/orders/%00", "/v1/orders/%ff", "/v1/orders/%2F", "/v1/orders/a%20b"] {
        merchant.get(path).await.expect_not_found("order_not_found");
    }
    merchant.get("/v1/refunds/%00").await.expect_not_found("refund_not_found");
    merchant.call(Method::POST, "/v1/orders/%ff/close").send().await.expect_not_found("order_not_found");
}
