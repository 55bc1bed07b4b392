//! Orders: created once for each number, found by either number, closed, and nobody else's (contract,
//! section 2). The rules of single fields are in `order_fields`, the list is in `lists`.

use reqwest::Method;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use crate::support::client::{is_id, order, refund};
use crate::support::{Merchant, expect_fields};

fn moment(value: &Value) -> OffsetDateTime {
    OffsetDateTime::parse(value.as_str().unwrap(), &Rfc3339).unwrap()
}

#[tokio::test]
async fn the_public_articles_call_works_any_number_of_times() {
    let merchant = Merchant::new();
    let body = r#"{ "out_trade_no": "ORDER_20261104_0001", "amount": 2990, "currency": "USD", "subject": "Pro 年度訂閲" }"#;
    let call = || merchant.post_bytes("/v1/orders", body).key("8f14e45f-ea2a-4c6f-9d3b-1b7c2a55e901");
    let first = call().send().await;
    first.expect_data(201);
    assert!(!first.is_replay());
    for _ in 0..2 {
        let replay = call().send().await;
        replay.expect_replay_of(&first);
    }
}

#[tokio::test]
async fn a_shop_plug_in_in_production_finds_what_it_reads() {
    let merchant = Merchant::new();
    for number in ["20261104083000123456", "20261104083000123456789012345678"] {
        let body = json!({
            "out_trade_no": number, "amount": 12900, "currency": "HKD", "subject": "年度會員（續期）",
            "return_url": "https://shop.example.com/?wc-api=kukopay&order=17",
            "notify_url": "https://shop.example.com/?wc-api=kukopay_notify", "locale": "zh",
        });
        let created = merchant.post("/v1/orders", &body).key(&format!("order_{number}")).send().await;
        let order = created.expect_data(201);
        let start = format!("{}/checkout/", merchant.base_url);
        assert!(order["checkout_url"].as_str().unwrap().starts_with(&start), "{order}");
        for (field, value) in body.as_object().unwrap() {
            assert_eq!(order[field], *value);
        }
        let mut changed = body.clone();
        changed["amount"] = json!(12901);
        let error = merchant.post("/v1/orders", &changed).key(&format!("retry_{number}")).send().await.json();
        assert!(error["message"].is_string() && error["request_id"].is_string(), "{error}");
    }
}

#[tokio::test]
async fn an_order_has_exactly_these_members_in_this_order() {
    let merchant = Merchant::new();
    let mut body = order("SHAPE", 2990);
    body["metadata"] = json!({"cart": "17"});
    let answer = merchant.post("/v1/orders", &body).send().await;
    let order = answer.expect_data(201);
    let request_id = answer.header("x-request-id").unwrap();
    let [trade_no, checkout_url, created_at, expires_at] =
        ["trade_no", "checkout_url", "created_at", "expires_at"].map(|name| order[name].as_str().unwrap());
    answer.expect_bytes(&format!(
        r#"{{"request_id":"{request_id}","data":{{"object":"order",
            "trade_no":"{trade_no}","out_trade_no":"SHAPE",
            "amount":2990,"amount_refunded":0,"currency":"USD",
            "subject":"Pro 年度訂閲","status":"pending","checkout_url":"{checkout_url}",
            "return_url":null,"notify_url":null,"locale":null,"metadata":{{"cart":"17"}},
            "payment":null,"failure":null,"livemode":false,
            "created_at":"{created_at}","paid_at":null,"closed_at":null,"expires_at":"{expires_at}"}}}}"#
    ));
    assert!(is_id("trd_", &order["trade_no"]));
}

#[tokio::test]
async fn an_order_is_open_for_two_hours_from_now() {
    let merchant = Merchant::new();
    let order = merchant.order("TIMES", 2990).await;
    let created_at = order["created_at"].as_str().unwrap();
    assert!(created_at.ends_with('Z') && created_at.len() == "2026-11-04T08:30:00.000Z".len());
    assert_eq!(moment(&order["expires_at"]) - moment(&order["created_at"]), Duration::hours(2));
    assert!((OffsetDateTime::now_utc() - moment(&order["created_at"])).abs() < Duration::minutes(1));
}

#[tokio::test]
async fn a_paid_order_shows_the_payment() {
    let merchant = Merchant::new();
    merchant.order("PAID", 2990).await;
    let paid = merchant.pay("PAID").await.expect_data(200);
    assert_eq!(paid["payment"].to_string(), r#"{"brand":"visa","last4":"4242","method":"card"}"#);
    expect_fields(&paid, &json!({"status": "paid", "failure": null}));
    assert!(moment(&paid["paid_at"]) >= moment(&paid["created_at"]));
    merchant.pay("PAID").await.expect_refused("order_already_paid");
}

#[tokio::test]
async fn the_same_number_with_the_same_content_is_the_same_order() {
    let merchant = Merchant::new();
    let created = merchant.post("/v1/orders", &order("SAME", 2990)).key("first").send().await;
    let first = created.expect_data(201);
    let with_nulls = r#"{"subject":"Pro \u5e74\u5ea6\u8a02\u95b2", "currency":"USD","amount":2990, "out_trade_no":"SAME",
        "return_url":null,"notify_url":null,"locale":null,"metadata":null}"#;
    let empty_metadata = {
        let mut body = order("SAME", 2990);
        body["metadata"] = json!({});
        body.to_string()
    };
    for (n, body) in
        [order("SAME", 2990).to_string(), with_nulls.to_owned(), empty_metadata].iter().enumerate()
    {
        for call in [
            merchant.post_bytes("/v1/orders", body.as_str()),
            merchant.post_bytes("/v1/orders", body.as_str()).key(&format!("other_{n}")),
        ] {
            let found = call.send().await;
            assert_eq!(found.expect_data(200), first);
            assert!(!found.is_replay());
            assert_ne!(found.header("x-request-id"), created.header("x-request-id"));
        }
    }
    assert_eq!(merchant.all("/v1/orders").await.len(), 1);
}

#[tokio::test]
async fn however_late_the_same_number_shows_the_order_as_it_is_by_then() {
    let merchant = Merchant::new();
    let first = merchant.order("SAME", 2990).await;
    merchant.pay("SAME").await.expect_data(200);
    let found = merchant.post("/v1/orders", &order("SAME", 2990)).send().await.expect_data(200);
    expect_fields(&found, &json!({"trade_no": first["trade_no"], "status": "paid"}));
    assert_eq!(merchant.all("/v1/orders").await.len(), 1);
}

#[tokio::test]
async fn the_same_number_with_other_content_is_a_conflict_that_names_the_fields() {
    let merchant = Merchant::new();
    let mut body = order("TAKEN", 2990);
    body["return_url"] = json!("https://shop.test/done");
    body["metadata"] = json!({"cart": "17"});
    let first = merchant.post("/v1/orders", &body).send().await.expect_data(201);
    let changes: [(&[(&str, Value)], &str); 9] = [
        (&[("amount", json!(3990))], "amount was 2990 at first, now it is 3990."),
        (&[("currency", json!("HKD"))], r#"currency was "USD" at first, now it is "HKD"."#),
        (&[("subject", json!("Pro"))], r#"subject was "Pro 年度訂閲" at first, now it is "Pro"."#),
        (
            &[("return_url", json!(null))],
            r#"return_url was "https://shop.test/done" at first, now it is null."#,
        ),
        (
            &[("notify_url", json!("https://a.b/"))],
            r#"notify_url was null at first, now it is "https://a.b/"."#,
        ),
        (&[("locale", json!("en"))], r#"locale was null at first, now it is "en"."#),
        (
            &[("metadata", json!({"cart": "18"}))],
            r#"metadata was {"cart":"17"} at first, now it is {"cart":"18"}."#,
        ),
        (&[("metadata", json!(null))], r#"metadata was {"cart":"17"} at first, now it is {}."#),
        (&[("amount", json!(1)), ("locale", json!("zh"))], "amount was 2990 at first, now it is 1."),
    ];
    for (n, (fields, message)) in changes.iter().enumerate() {
        let mut other = body.clone();
        for (field, value) in *fields {
            other[*field] = value.clone();
        }
        let answer = merchant.post("/v1/orders", &other).key(&format!("conflict_{n}")).send().await;
        let error = answer.expect_refused("out_trade_no_conflict");
        let errors = error["errors"].as_array().unwrap();
        let named: Vec<_> = errors.iter().map(|error| error["param"].as_str().unwrap()).collect();
        assert_eq!(named, fields.iter().map(|(field, _)| *field).collect::<Vec<_>>());
        assert_eq!(error["errors"][0]["message"], json!(message));
        assert!(error["message"].as_str().unwrap().contains(&named.join(", ")), "{error}");
    }
    assert_eq!(merchant.get("/v1/orders/TAKEN").await.expect_data(200), first);
}

#[tokio::test]
async fn a_pending_order_is_closed_once() {
    let merchant = Merchant::new();
    let open = merchant.order("CLOSED", 100).await;
    let closed = merchant.close("CLOSED").await.expect_data(200);
    expect_fields(&closed, &json!({"status": "closed", "trade_no": open["trade_no"]}));
    assert!(moment(&closed["closed_at"]) >= moment(&closed["created_at"]));
    let trade_no = open["trade_no"].as_str().unwrap();
    for path in ["/v1/orders/CLOSED/close", &format!("/v1/orders/{trade_no}/close")] {
        let again = merchant.post(path, &json!({"reason": "x"})).key(path).send().await;
        assert_eq!(again.expect_data(200), closed);
        assert_eq!(again.header("x-sandbox-ignored-fields"), Some("reason"));
    }
    assert_eq!(merchant.get("/v1/orders/CLOSED").await.expect_data(200), closed);
}

#[tokio::test]
async fn a_closed_order_cannot_be_paid_and_its_number_stays_taken() {
    let merchant = Merchant::new();
    merchant.order("CLOSED", 100).await;
    let closed = merchant.close("CLOSED").await.expect_data(200);
    merchant.pay("CLOSED").await.expect_refused("order_closed");
    assert_eq!(merchant.get("/v1/orders/CLOSED").await.expect_data(200), closed);
    assert_eq!(merchant.post("/v1/orders", &order("CLOSED", 100)).send().await.expect_data(200), closed);
}

#[tokio::test]
async fn closing_takes_no_body_or_a_json_object() {
    let merchant = Merchant::new();
    merchant.order("OPEN", 100).await;
    let path = "/v1/orders/OPEN/close";
    merchant.post(path, &json!([])).send().await.expect_refused("malformed_request");
    let form = merchant.call(Method::POST, path).header("Content-Type", "text/plain").bytes("x");
    form.send().await.expect_error(415, "invalid_request_error", "content_type_not_json");
    assert_eq!(merchant.get("/v1/orders/OPEN").await.expect_data(200)["status"], json!("pending"));
    merchant.post(path, &json!({})).send().await.expect_data(200);
    merchant.post_bytes(path, "").send().await.expect_data(200);
}

#[tokio::test]
async fn what_is_paid_or_unknown_is_not_closed() {
    let merchant = Merchant::new();
    let paid = merchant.paid_order("PAID", 100).await;
    merchant.close("PAID").await.expect_refused("order_already_paid");
    assert_eq!(merchant.get("/v1/orders/PAID").await.expect_data(200), paid);
    merchant.post("/v1/refunds", &refund("R", "PAID", 100)).send().await.expect_data(201);
    merchant.close("PAID").await.expect_refused("order_already_paid");
    merchant.close("NOWHERE").await.expect_not_found("order_not_found");
    merchant.pay("NOWHERE").await.expect_not_found("order_not_found");
}

#[tokio::test]
async fn an_order_is_found_by_either_number() {
    let merchant = Merchant::new();
    let order = merchant.order("LOOK_UP.1", 100).await;
    let trade_no = order["trade_no"].as_str().unwrap();
    for no in ["LOOK_UP.1", "LOOK%5FUP%2E1", "%4C%4f%4FK_UP.1", trade_no, &trade_no.replace('_', "%5F")] {
        assert_eq!(merchant.get(&format!("/v1/orders/{no}")).await.expect_data(200), order, "{no}");
    }
    let absent =
        ["LOOK_UP.2", "look_up.1", "LOOK_UP.1%20", "%E8%A8%82", &trade_no.to_uppercase(), &"a".repeat(65)];
    for no in absent {
        merchant.get(&format!("/v1/orders/{no}")).await.expect_not_found("order_not_found");
    }
}

#[tokio::test]
async fn a_number_that_is_also_a_trade_no_means_the_trade_no() {
    let merchant = Merchant::new();
    let first = merchant.order("FIRST", 100).await;
    let trade_no = first["trade_no"].as_str().unwrap();
    let second = merchant.order(trade_no, 200).await;
    assert_eq!(merchant.get(&format!("/v1/orders/{trade_no}")).await.expect_data(200), first);
    assert_eq!(merchant.pay(trade_no).await.expect_data(200)["out_trade_no"], json!("FIRST"));
    merchant.close(trade_no).await.expect_refused("order_already_paid");
    assert_eq!(merchant.all(&format!("/v1/orders?out_trade_no={trade_no}")).await, [second]);
    assert_eq!(merchant.all(&format!("/v1/orders?starting_after={trade_no}")).await, [json!(null); 0]);
    // Where a field says which number it is, there is no doubt.
    let unpaid = merchant.post("/v1/refunds", &refund("R", trade_no, 1)).send().await;
    unpaid.expect_refused("order_not_paid");
}

#[tokio::test]
async fn nothing_of_another_merchant_can_be_seen_or_changed() {
    let (owner, other) = (Merchant::new(), Merchant::new());
    let order = owner.paid_order("OWNED", 100).await;
    let trade_no = order["trade_no"].as_str().unwrap();
    for no in ["OWNED", trade_no] {
        other.get(&format!("/v1/orders/{no}")).await.expect_not_found("order_not_found");
        other.close(no).await.expect_not_found("order_not_found");
        other.pay(no).await.expect_not_found("order_not_found");
        other.get(&format!("/v1/orders?starting_after={no}")).await.expect_refused("starting_after_invalid");
    }
    assert_eq!(other.all("/v1/orders").await, [json!(null); 0]);
    assert_eq!(other.all("/v1/orders?out_trade_no=OWNED").await, [json!(null); 0]);
    let own = other.order("OWNED", 999).await;
    assert_ne!(own["trade_no"], order["trade_no"]);
    assert_eq!(owner.get("/v1/orders/OWNED").await.expect_data(200), order);
}
