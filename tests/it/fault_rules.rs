//! `/sandbox/faults`: rules that make the next matching calls go wrong, counted exactly (contract, section
//! 7). What each kind does is in `faults`.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::client::{is_id, order};
use crate::support::{Answer, Merchant, Process, server};

async fn rule(merchant: &Merchant, rule: &Value) -> Value {
    merchant.post("/sandbox/faults", rule).send().await.expect_data(201)
}

async fn create(merchant: &Merchant, no: &str) -> Answer {
    merchant.post("/v1/orders", &order(no, 100)).send().await
}

async fn fired(merchant: &Merchant, id: &Value) -> Value {
    merchant.get(&format!("/sandbox/faults/{}", id.as_str().unwrap())).await.expect_data(200)["fired"].clone()
}

#[tokio::test]
async fn a_rule_has_exactly_these_members() {
    let merchant = Merchant::new();
    let made = rule(
        &merchant,
        &json!({"kind": "response_lost", "method": "POST", "path": "/v1/orders", "out_trade_no": "A1", "times": 1}),
    )
    .await;
    assert!(is_id("flt_", &made["id"]), "{made}");
    let expected = json!({
        "id": made["id"], "kind": "response_lost", "method": "POST", "path": "/v1/orders", "out_trade_no": "A1",
        "out_refund_no": null, "event_type": null, "delay_ms": null, "status": null, "retry_after": null,
        "times": 1, "probability": null, "seed": null, "fired": 0, "created_at": made["created_at"]
    });
    assert_eq!(made, expected);
    let path = format!("/sandbox/faults/{}", made["id"].as_str().unwrap());
    assert_eq!(merchant.get(&path).await.expect_data(200), expected);
    assert_eq!(merchant.all("/sandbox/faults").await, std::slice::from_ref(&expected));
    assert_eq!(merchant.call(Method::DELETE, &path).send().await.expect_data(200), expected);
    merchant.get(&path).await.expect_not_found("fault_not_found");
    create(&merchant, "A1").await.expect_data(201);
}

#[tokio::test]
async fn a_rule_strikes_what_it_matches_and_nothing_else() {
    let merchant = Merchant::new();
    let made = rule(
        &merchant,
        &json!({"kind": "error_before", "status": 502, "method": "POST", "path": "/v1/orders/*", "out_trade_no": "A",
                "times": null}),
    )
    .await;
    create(&merchant, "A").await.expect_data(201);
    create(&merchant, "B").await.expect_data(201);
    merchant.close("B").await.expect_data(200);
    merchant.get("/v1/orders/A").await.expect_data(200);
    merchant.close("A").await.expect_error(502, "api_connection_error", "sandbox_fault");
    merchant.close("A").await.expect_error(502, "api_connection_error", "sandbox_fault");
    assert_eq!(fired(&merchant, &made["id"]).await, json!(2));
    let other = Merchant::new();
    create(&other, "A").await.expect_data(201);
    other.close("A").await.expect_data(200);
    assert_eq!(
        merchant.call(Method::DELETE, "/sandbox/faults").send().await.expect_data(200),
        json!({"deleted": 1})
    );
    merchant.close("A").await.expect_data(200);
}

#[tokio::test]
async fn of_two_rules_the_older_one_strikes_first() {
    let merchant = Merchant::new();
    rule(&merchant, &json!({"kind": "error_before", "status": 501})).await;
    rule(&merchant, &json!({"kind": "error_before", "status": 504, "times": 2})).await;
    let mut statuses = Vec::new();
    for n in 0..4 {
        statuses.push(create(&merchant, &format!("N{n}")).await.status);
    }
    assert_eq!(statuses, [501, 504, 504, 201]);
}

#[tokio::test]
async fn rules_are_listed_newest_first_page_by_page() {
    let merchant = Merchant::new();
    rule(&merchant, &json!({"kind": "error_before", "status": 501})).await;
    rule(&merchant, &json!({"kind": "error_before", "status": 504, "times": 2})).await;
    let page = merchant.get("/sandbox/faults?limit=1").await.expect_data(200);
    assert_eq!(page["has_more"], json!(true));
    assert_eq!(page["items"][0]["status"], json!(504));
    let after = page["items"][0]["id"].as_str().unwrap();
    let next =
        merchant.get(&format!("/sandbox/faults?limit=1&starting_after={after}")).await.expect_data(200);
    assert_eq!(next["has_more"], json!(false));
    assert_eq!(next["items"][0]["status"], json!(501));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_calls_at_once_exactly_one_is_struck() {
    let merchant = Merchant::new();
    let made = rule(&merchant, &json!({"kind": "response_lost", "path": "/v1/orders", "times": 1})).await;
    let calls = (0..100).map(|n| merchant.post("/v1/orders", &order(&format!("N{n}"), 1)).try_send());
    let lost = join_all(calls).await.iter().filter(|answer| answer.is_err()).count();
    assert_eq!(lost, 1);
    assert_eq!(fired(&merchant, &made["id"]).await, json!(1));
    assert_eq!(merchant.all("/v1/orders?limit=100").await.len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_count_together() {
    let Some(url) = server::database_url() else { return };
    let instances = [(); 2].map(|()| Process::start(&["--database-url", &url]));
    let merchant = Merchant::at(&instances[0].base_url);
    let there = merchant.moved_to(&instances[1].base_url);
    // Both have been asked before, and know of no rule.
    create(&merchant, "BEFORE_1").await.expect_data(201);
    create(&there, "BEFORE_2").await.expect_data(201);
    let made = rule(&merchant, &json!({"kind": "error_before", "times": 3})).await;
    let calls = (0..60).map(|n| {
        let merchant = if n % 2 == 0 { there.clone() } else { merchant.clone() };
        async move { create(&merchant, &format!("N{n}")).await.status }
    });
    let struck = join_all(calls).await.into_iter().filter(|status| *status == 500).count();
    assert_eq!(struck, 3);
    assert_eq!(fired(&there, &made["id"]).await, json!(3));
}

#[tokio::test]
async fn the_same_seed_gives_the_same_sequence_again() {
    let sequence = async |seed: i64| {
        let merchant = Merchant::new();
        let chaos = json!({"kind": "error_before", "times": null, "probability": 0.5, "seed": seed});
        let made = rule(&merchant, &chaos).await;
        let mut statuses = Vec::new();
        for n in 0..24 {
            statuses.push(create(&merchant, &format!("N{n}")).await.status);
        }
        let struck = statuses.iter().filter(|status| **status == 500).count();
        assert_eq!(fired(&merchant, &made["id"]).await, json!(struck));
        statuses
    };
    let first = sequence(7).await;
    assert_eq!(sequence(7).await, first);
    assert!(first.contains(&500) && first.contains(&201));
}

#[tokio::test]
async fn a_seed_that_was_not_named_is_told_so_that_what_happened_can_be_had_again() {
    let merchant = Merchant::new();
    assert!(
        rule(&merchant, &json!({"kind": "latency", "delay_ms": 1, "probability": 0.1})).await["seed"]
            .is_i64()
    );
}

#[tokio::test]
async fn a_rule_that_makes_no_sense_is_refused() {
    let merchant = Merchant::new();
    for (body, code) in [
        (json!({}), "kind_missing"),
        (json!({"kind": "crash"}), "kind_invalid"),
        (json!({"kind": "latency"}), "delay_ms_invalid"),
        (json!({"kind": "latency", "delay_ms": 60_001}), "delay_ms_invalid"),
        (json!({"kind": "error_after", "status": 400}), "status_invalid"),
        (json!({"kind": "response_lost", "status": 500}), "status_invalid"),
        (json!({"kind": "response_lost", "times": 0}), "times_invalid"),
        (json!({"kind": "response_lost", "probability": 1.1}), "probability_invalid"),
        (json!({"kind": "response_lost", "seed": "x"}), "seed_invalid"),
        (json!({"kind": "response_lost", "method": "PATCH"}), "method_invalid"),
        (json!({"kind": "response_lost", "path": "/sandbox/clock"}), "path_invalid"),
        (json!({"kind": "response_lost", "out_trade_no": "A 1"}), "out_trade_no_invalid"),
        (json!({"kind": "response_lost", "event_type": "order.closed"}), "event_type_invalid"),
        (json!({"kind": "webhook_lost", "path": "/v1/orders"}), "path_invalid"),
        (json!({"kind": "webhook_lost", "event_type": "order.opened"}), "event_type_invalid"),
        (json!({"kind": "webhook_delay"}), "delay_ms_invalid"),
    ] {
        merchant.post("/sandbox/faults", &body).send().await.expect_refused(code);
    }
    assert_eq!(merchant.all("/sandbox/faults").await.len(), 0);
}

#[tokio::test]
async fn a_member_that_is_not_known_is_ignored_and_named() {
    let merchant = Merchant::new();
    let typo = json!({"kind": "response_lost", "tmies": 2});
    let answer = merchant.post("/sandbox/faults", &typo).send().await;
    assert_eq!(answer.header("x-sandbox-ignored-fields"), Some("tmies"));
    assert_eq!(merchant.all("/sandbox/faults").await.len(), 1);
}

#[tokio::test]
async fn a_merchant_can_have_a_hundred_rules() {
    let merchant = Merchant::new();
    let body = json!({"kind": "error_before", "out_trade_no": "NEVER"});
    let made = join_all((0..100).map(|_| rule(&merchant, &body))).await;
    assert_eq!(made.len(), 100);
    merchant.post("/sandbox/faults", &body).send().await.expect_refused("too_many_faults");
    create(&merchant, "A").await.expect_data(201);
    // Those that may strike no more make room.
    assert_eq!(create(&merchant, "NEVER").await.status, 500);
    let newest = rule(&merchant, &body).await;
    let rules = merchant.all("/sandbox/faults?limit=100").await;
    assert_eq!(rules.len(), 100);
    assert_eq!(rules[0], newest);
    merchant.post("/sandbox/faults", &body).send().await.expect_refused("too_many_faults");
}
