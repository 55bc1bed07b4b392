//! Refunds: in parts up to the order's amount, once for each number, found by either number (contract,
//! section 3). Refunds that arrive at once are in `races`, the list is in `lists`.

use serde_json::{Value, json};

use crate::support::Merchant;
use crate::support::client::{is_id, refund};

/// The order's status and how much of it was refunded.
async fn state(merchant: &Merchant, no: &str) -> (Value, Value) {
    let order = merchant.get(&format!("/v1/orders/{no}")).await.expect_data(200);
    (order["status"].clone(), order["amount_refunded"].clone())
}

#[tokio::test]
async fn a_refund_has_exactly_these_members_in_this_order() {
    let merchant = Merchant::new();
    let order = merchant.paid_order("SHAPE", 2990).await;
    let mut body = refund("R_SHAPE", "SHAPE", 990);
    body["reason"] = json!("客戶\n取消");
    body["notify_url"] = json!("http://127.0.0.1:3000/hook");
    body["metadata"] = json!({"clerk": "7"});
    let answer = merchant.post("/v1/refunds", &body).send().await;
    let refund = answer.expect_data(201);
    let request_id = answer.header("x-request-id").unwrap();
    let trade_no = order["trade_no"].as_str().unwrap();
    let [refund_no, created_at, succeeded_at] =
        ["refund_no", "created_at", "succeeded_at"].map(|name| refund[name].as_str().unwrap());
    answer.expect_bytes(&format!(
        r#"{{"request_id":"{request_id}","data":{{"object":"refund",
            "refund_no":"{refund_no}","out_refund_no":"R_SHAPE",
            "trade_no":"{trade_no}","out_trade_no":"SHAPE",
            "amount":990,"currency":"USD","reason":"客戶\n取消","status":"succeeded","failure":null,
            "metadata":{{"clerk":"7"}},"livemode":false,
            "created_at":"{created_at}","succeeded_at":"{succeeded_at}"}}}}"#
    ));
    assert!(is_id("rfd_", &refund["refund_no"]));
    assert!(created_at.ends_with('Z') && created_at.len() == "2026-11-04T08:30:00.000Z".len());
}

#[tokio::test]
async fn parts_add_up_to_the_whole_order_and_no_further() {
    let merchant = Merchant::new();
    merchant.paid_order("PARTS", 1000).await;
    let send = async |no: &str, amount: i64| {
        merchant.post("/v1/refunds", &refund(no, "PARTS", amount)).key(no).send().await
    };
    send("R1", 400).await.expect_data(201);
    assert_eq!(state(&merchant, "PARTS").await, (json!("paid"), json!(400)));

    let error = send("R2", 601).await.expect_refused("refund_exceeds_remaining");
    assert_eq!(error["param"], json!("amount"));
    assert!(error["message"].as_str().unwrap().contains("600 minor units of USD"), "{error}");
    assert_eq!(state(&merchant, "PARTS").await, (json!("paid"), json!(400)));
    merchant.get("/v1/refunds/R2").await.expect_not_found("refund_not_found");

    send("R3", 600).await.expect_data(201);
    assert_eq!(state(&merchant, "PARTS").await, (json!("refunded"), json!(1000)));
    let error = send("R4", 1).await.expect_refused("refund_exceeds_remaining");
    assert!(error["message"].as_str().unwrap().contains(" 0 minor units"), "{error}");
    assert_eq!(merchant.all("/v1/refunds").await.len(), 2);
}

#[tokio::test]
async fn only_a_paid_order_can_be_refunded() {
    let merchant = Merchant::new();
    merchant.order("PENDING", 100).await;
    merchant.order("CLOSED", 100).await;
    merchant.close("CLOSED").await.expect_data(200);
    for no in ["PENDING", "CLOSED"] {
        let before = state(&merchant, no).await;
        merchant.post("/v1/refunds", &refund("R", no, 100)).send().await.expect_refused("order_not_paid");
        assert_eq!(state(&merchant, no).await, before);
    }
    // A refusal does not take the number.
    merchant.pay("PENDING").await.expect_data(200);
    merchant.post("/v1/refunds", &refund("R", "PENDING", 100)).send().await.expect_data(201);
}

#[tokio::test]
async fn the_order_is_named_by_exactly_one_number() {
    let merchant = Merchant::new();
    let trade_no = merchant.paid_order("NAMED", 100).await["trade_no"].clone();
    let bodies = [
        (json!({"out_trade_no": "NAMED", "trade_no": trade_no}), "trade_no_invalid"),
        (json!({}), "out_trade_no_missing"),
        (json!({"out_trade_no": null, "trade_no": null}), "out_trade_no_missing"),
        (json!({"out_trade_no": "N 1"}), "out_trade_no_invalid"),
        (json!({"trade_no": 1}), "trade_no_invalid"),
        (json!({"out_trade_no": "NOWHERE"}), "order_not_found"),
        (json!({"out_trade_no": trade_no}), "order_not_found"),
        (json!({"trade_no": "NAMED"}), "order_not_found"),
        (json!({"trade_no": "trd_00000000000000000000000000000000"}), "order_not_found"),
        (json!({"trade_no": "\u{0}"}), "order_not_found"),
    ];
    for (mut body, code) in bodies {
        body["out_refund_no"] = json!("R");
        body["amount"] = json!(1);
        let answer = merchant.post("/v1/refunds", &body).send().await;
        match code {
            "order_not_found" => answer.expect_not_found(code),
            _ => answer.expect_refused(code),
        };
    }
    assert_eq!(merchant.all("/v1/refunds").await, [json!(null); 0]);
    let body = json!({"out_refund_no": "R", "trade_no": trade_no, "out_trade_no": null, "amount": 1});
    assert_eq!(
        merchant.post("/v1/refunds", &body).send().await.expect_data(201)["out_trade_no"],
        json!("NAMED")
    );
}

#[tokio::test]
async fn a_value_that_breaks_its_rule_is_refused_and_moves_nothing() {
    let merchant = Merchant::new();
    merchant.paid_order("RULES", 100).await;
    let amounts = ["29.9", "10.0", "1e1", "\"10\"", "-1", "0", "10000000000", "99999999999999999999", "true"];
    let numbers =
        ["\"\"", "\"R 1\"", "\"R/1\"", "\"退\"", "\"R\\u0000\"", "1", &json!("r".repeat(65)).to_string()];
    let rules: [(&str, &[&str]); 5] = [
        ("amount", &amounts),
        ("out_refund_no", &numbers),
        ("reason", &["1", "\"\\u0000\"", &json!("界".repeat(257)).to_string()]),
        ("notify_url", &["\"\"", "\"/hook\"", "\"ftp://a.b/\""]),
        ("metadata", &["[]", "{\"a\":1}"]),
    ];
    for (field, literals) in rules {
        for literal in literals {
            let mut members =
                vec![("out_refund_no", "\"R\""), ("out_trade_no", "\"RULES\""), ("amount", "1")];
            members.retain(|(name, _)| *name != field);
            members.push((field, literal));
            let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            let body = format!("{{{}}}", members.join(","));
            let error = merchant.post_bytes("/v1/refunds", body).send().await;
            let error = error.expect_refused(&format!("{field}_invalid"));
            assert_eq!(error["param"], json!(field), "{literal}");
        }
    }
    assert_eq!(state(&merchant, "RULES").await, (json!("paid"), json!(0)));
}

#[tokio::test]
async fn every_bad_field_is_named_at_once_and_one_that_is_not_known_beside_them() {
    let merchant = Merchant::new();
    let error = merchant.post("/v1/refunds", &json!({"reason": 1, "extra": 1})).send().await;
    assert_eq!(error.header("x-sandbox-ignored-fields"), Some("extra"));
    let error = error.expect_refused("out_refund_no_missing");
    let codes: Vec<_> = error["errors"].as_array().unwrap().iter().map(|error| &error["code"]).collect();
    assert_eq!(codes, ["out_refund_no_missing", "out_trade_no_missing", "amount_missing", "reason_invalid"]);
}

#[tokio::test]
async fn values_at_their_limits_are_taken() {
    let merchant = Merchant::new();
    merchant.paid_order("RULES", 100).await;
    let mut longest = refund(&"r".repeat(64), "RULES", 1);
    longest["reason"] = json!("界".repeat(256));
    assert_eq!(
        merchant.post("/v1/refunds", &longest).send().await.expect_data(201)["reason"],
        longest["reason"]
    );
}

#[tokio::test]
async fn the_same_number_with_the_same_content_is_the_same_refund() {
    let merchant = Merchant::new();
    let trade_no = merchant.paid_order("ONCE", 500).await["trade_no"].clone();
    let created = merchant.post("/v1/refunds", &refund("R", "ONCE", 500)).key("first").send().await;
    let first = created.expect_data(201);
    assert_eq!(state(&merchant, "ONCE").await, (json!("refunded"), json!(500)));
    // Even though nothing is left of the order, and whichever number names it.
    let bodies = [
        refund("R", "ONCE", 500),
        json!({"amount": 500, "trade_no": trade_no, "out_refund_no": "R"}),
        json!({"amount": 500, "out_trade_no": "ONCE", "out_refund_no": "R", "reason": null, "notify_url": null,
               "metadata": {}, "trade_no": null}),
    ];
    for (n, body) in bodies.iter().enumerate() {
        for call in [
            merchant.post("/v1/refunds", body),
            merchant.post("/v1/refunds", body).key(&format!("other_{n}")),
        ] {
            let found = call.send().await;
            assert_eq!(found.expect_data(200), first);
            assert!(!found.is_replay());
            assert_ne!(found.header("x-request-id"), created.header("x-request-id"));
        }
    }
    assert_eq!(state(&merchant, "ONCE").await, (json!("refunded"), json!(500)));
    assert_eq!(merchant.all("/v1/refunds").await, [first]);
}

#[tokio::test]
async fn the_same_number_with_other_content_is_a_conflict_that_names_the_fields() {
    let merchant = Merchant::new();
    merchant.paid_order("TAKEN", 500).await;
    let elsewhere = merchant.paid_order("ELSEWHERE", 500).await["trade_no"].clone();
    let body = refund("R", "TAKEN", 100);
    merchant.post("/v1/refunds", &body).send().await.expect_data(201);
    let changes = [
        ("amount", json!(101)),
        ("reason", json!("late")),
        ("notify_url", json!("https://a.b/")),
        ("metadata", json!({"a": "b"})),
        ("out_trade_no", json!("ELSEWHERE")),
        ("out_trade_no", json!("NOWHERE")),
        ("trade_no", elsewhere),
    ];
    for (field, value) in changes {
        let mut other = body.clone();
        if field == "trade_no" {
            other.as_object_mut().unwrap().remove("out_trade_no");
        }
        other[field] = value;
        let answer = merchant.post("/v1/refunds", &other).send().await;
        let error = answer.expect_refused("out_refund_no_conflict");
        assert_eq!(error["param"], json!(field));
        assert_eq!(error["errors"].as_array().unwrap().len(), 1);
        assert!(error["message"].as_str().unwrap().contains(field), "{error}");
    }
    assert_eq!(state(&merchant, "TAKEN").await, (json!("paid"), json!(100)));
    assert_eq!(state(&merchant, "ELSEWHERE").await, (json!("paid"), json!(0)));
}

#[tokio::test]
async fn a_refund_is_found_by_either_number_and_by_its_merchant_alone() {
    let (merchant, other) = (Merchant::new(), Merchant::new());
    merchant.paid_order("FOUND", 100).await;
    other.paid_order("FOUND", 100).await;
    let first = merchant.post("/v1/refunds", &refund("R_1", "FOUND", 10)).send().await.expect_data(201);
    let refund_no = first["refund_no"].as_str().unwrap();
    for no in ["R_1", "R%5F1", refund_no] {
        assert_eq!(merchant.get(&format!("/v1/refunds/{no}")).await.expect_data(200), first);
        other.get(&format!("/v1/refunds/{no}")).await.expect_not_found("refund_not_found");
    }
    for no in ["R_2", "FOUND", &refund_no.to_uppercase(), "%ff"] {
        merchant.get(&format!("/v1/refunds/{no}")).await.expect_not_found("refund_not_found");
    }
    assert_eq!(other.all("/v1/refunds").await, [json!(null); 0]);
}

#[tokio::test]
async fn an_order_of_another_merchant_is_not_refunded() {
    let (merchant, other) = (Merchant::new(), Merchant::new());
    let order = merchant.paid_order("OWNED", 100).await;
    let by_trade_no = json!({"out_refund_no": "R_1", "trade_no": order["trade_no"], "amount": 10});
    other.post("/v1/refunds", &by_trade_no).send().await.expect_not_found("order_not_found");
}

#[tokio::test]
async fn a_number_that_is_also_a_refund_no_means_the_refund_no() {
    let merchant = Merchant::new();
    merchant.paid_order("FOUND", 100).await;
    let first = merchant.post("/v1/refunds", &refund("R_1", "FOUND", 10)).send().await.expect_data(201);
    let refund_no = first["refund_no"].as_str().unwrap();
    let second = merchant.post("/v1/refunds", &refund(refund_no, "FOUND", 20)).send().await.expect_data(201);
    assert_eq!(merchant.get(&format!("/v1/refunds/{refund_no}")).await.expect_data(200), first);
    assert_eq!(merchant.all("/v1/refunds").await, [second, first]);
}
