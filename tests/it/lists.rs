//! The lists of orders and refunds: newest first, page by page, filtered (contract, sections 2 and 3).

use serde_json::{Value, json};

use crate::support::client::refund;
use crate::support::{Merchant, expect_fields};

fn numbers(items: &Value, name: &str) -> Vec<String> {
    let items = items.as_array().unwrap();
    items.iter().map(|item| item[name].as_str().unwrap().to_owned()).collect()
}

/// Five of each: orders O0 to O4, all paid but O3, which is pending, and O4, which is closed; refunds R0
/// to R4, the even ones of O0 and the odd ones of O1.
async fn five_of_each() -> Merchant {
    let merchant = Merchant::new();
    for n in 0..5 {
        merchant.order(&format!("O{n}"), 100).await;
    }
    for n in 0..3 {
        merchant.pay(&format!("O{n}")).await.expect_data(200);
    }
    merchant.close("O4").await.expect_data(200);
    for n in 0..5 {
        let body = refund(&format!("R{n}"), &format!("O{}", n % 2), 10);
        merchant.post("/v1/refunds", &body).send().await.expect_data(201);
    }
    merchant
}

#[tokio::test]
async fn pages_follow_each_other_from_the_newest_to_the_oldest() {
    let merchant = five_of_each().await;
    for (path, own, given) in
        [("/v1/orders", "out_trade_no", "trade_no"), ("/v1/refunds", "out_refund_no", "refund_no")]
    {
        let all = merchant.all(path).await;
        let newest_first: Vec<_> = numbers(&json!(all), own);
        let letter = &newest_first[0][..1];
        assert_eq!(newest_first, [4, 3, 2, 1, 0].map(|n| format!("{letter}{n}")));
        for cursor in [own, given] {
            let (mut seen, mut after) = (Vec::new(), String::new());
            for expected in [2, 2, 1] {
                let page = merchant.get(&format!("{path}?limit=2{after}")).await.expect_data(200);
                let items = page["items"].as_array().unwrap();
                assert_eq!(items.len(), expected);
                expect_fields(&page, &json!({"has_more": expected == 2}));
                seen.extend(items.clone());
                after = format!("&starting_after={}", items[expected - 1][cursor].as_str().unwrap());
            }
            assert_eq!(seen, all);
            assert_eq!(merchant.all(&format!("{path}?{}", &after[1..])).await, [json!(null); 0]);
        }
        assert_eq!(merchant.all(&format!("{path}?limit=5")).await, all, "no page comes after an exact one");
    }
}

#[tokio::test]
async fn an_item_is_the_object_itself() {
    let merchant = five_of_each().await;
    assert_eq!(merchant.all("/v1/orders").await[0], merchant.get("/v1/orders/O4").await.expect_data(200));
    assert_eq!(merchant.all("/v1/refunds").await[0], merchant.get("/v1/refunds/R4").await.expect_data(200));
}

#[tokio::test]
async fn a_page_has_20_items_unless_more_are_asked_for() {
    let merchant = Merchant::new();
    for n in 0..21 {
        merchant.order(&format!("O{n}"), 100).await;
    }
    let page = merchant.get("/v1/orders").await.expect_data(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 20);
    expect_fields(&page, &json!({"has_more": true}));
    assert_eq!(merchant.all("/v1/orders?limit=100").await.len(), 21);
}

#[tokio::test]
async fn filters_choose_orders() {
    let merchant = five_of_each().await;
    let orders: [(&str, &[&str]); 9] = [
        ("status=paid", &["O2", "O1", "O0"]),
        ("status=pending", &["O3"]),
        ("status=closed", &["O4"]),
        ("status=refunded", &[]),
        ("out_trade_no=O1", &["O1"]),
        ("out_trade_no=O1&status=paid&limit=1", &["O1"]),
        ("out_trade_no=O1&status=closed", &[]),
        ("status=paid&starting_after=O2", &["O1", "O0"]),
        ("out_trade_no=NOWHERE", &[]),
    ];
    for (query, expected) in orders {
        let items = merchant.all(&format!("/v1/orders?{query}")).await;
        assert_eq!(numbers(&json!(items), "out_trade_no"), expected, "{query}");
    }
    let page = merchant.get("/v1/orders?status=paid&limit=2").await.expect_data(200);
    assert_eq!(page["has_more"], json!(true));
}

#[tokio::test]
async fn filters_choose_refunds() {
    let merchant = five_of_each().await;
    let refunds: [(&str, &[&str]); 5] = [
        ("out_trade_no=O0", &["R4", "R2", "R0"]),
        ("out_trade_no=O1", &["R3", "R1"]),
        ("out_trade_no=O2", &[]),
        ("out_trade_no=NOWHERE", &[]),
        ("out_trade_no=O0&starting_after=R3", &["R2", "R0"]),
    ];
    for (query, expected) in refunds {
        let items = merchant.all(&format!("/v1/refunds?{query}")).await;
        assert_eq!(numbers(&json!(items), "out_refund_no"), expected, "{query}");
    }
}

/// Every item of a list, page by page.
async fn walk(merchant: &Merchant, path: &str, limit: usize, id: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    loop {
        let after = all.last().map(|last| format!("&starting_after={last}")).unwrap_or_default();
        let page = merchant.get(&format!("{path}&limit={limit}{after}")).await.expect_data(200);
        let items = numbers(&page["items"], id);
        let has_more = page["has_more"] == json!(true);
        assert!(items.len() == limit || !has_more, "{path}: {page}");
        all.extend(items);
        if !has_more {
            return all;
        }
    }
}

/// Twelve orders, three in each status, and their fifteen events.
async fn twelve_orders() -> Merchant {
    let merchant = Merchant::new();
    for n in 0..12 {
        let no = format!("O{n:02}");
        merchant.order(&no, 100).await;
        match n % 4 {
            0 => drop(merchant.pay(&no).await.expect_data(200)),
            1 => drop(merchant.close(&no).await.expect_data(200)),
            2 => drop(merchant.pay_with(&no, &json!({"card": "4000000000000002"})).await.expect_data(200)),
            _ => {
                merchant.pay(&no).await.expect_data(200);
                merchant.post("/v1/refunds", &refund(&no, &no, 100)).send().await.expect_data(201);
            }
        }
    }
    merchant
}

/// The identifiers of the items that have these values.
fn ids(items: &[Value], id: &str, wanted: &[(&str, &str)]) -> Vec<String> {
    let fits = |item: &&Value| wanted.iter().all(|(name, value)| item[name] == *value);
    items.iter().filter(fits).map(|item| item[id].as_str().unwrap().to_owned()).collect()
}

/// The pages that a list is walked by.
const LIMITS: [usize; 5] = [1, 2, 3, 5, 100];

#[tokio::test]
async fn a_walk_over_the_pages_of_a_filter_meets_every_order_once_in_its_place() {
    let merchant = twelve_orders().await;
    let orders = merchant.all("/v1/orders").await;
    assert_eq!(orders.len(), 12);
    for limit in LIMITS {
        for status in ["pending", "paid", "closed", "refunded"] {
            let walked = walk(&merchant, &format!("/v1/orders?status={status}"), limit, "trade_no").await;
            assert_eq!(walked, ids(&orders, "trade_no", &[("status", status)]), "{status} {limit}");
            assert_eq!(walked.len(), 3);
        }
    }
}

#[tokio::test]
async fn a_walk_over_the_pages_of_a_filter_meets_every_event_once_in_its_place() {
    let merchant = twelve_orders().await;
    let events = merchant.all("/sandbox/events").await;
    assert_eq!(events.len(), 15);
    for limit in LIMITS {
        for event_type in
            ["payment.succeeded", "payment.failed", "order.closed", "refund.succeeded", "refund.failed"]
        {
            for status in ["no_url", "delivered", "failed", "pending"] {
                let path = format!("/sandbox/events?type={event_type}&status={status}");
                let wanted = [("type", event_type), ("status", status)];
                assert_eq!(
                    walk(&merchant, &path, limit, "id").await,
                    ids(&events, "id", &wanted),
                    "{path} {limit}"
                );
            }
            let path = format!("/sandbox/events?type={event_type}");
            let wanted = [("type", event_type)];
            assert_eq!(
                walk(&merchant, &path, limit, "id").await,
                ids(&events, "id", &wanted),
                "{path} {limit}"
            );
        }
        let all = ids(&events, "id", &[]);
        assert_eq!(walk(&merchant, "/sandbox/events?status=no_url", limit, "id").await, all, "{limit}");
    }
}

#[tokio::test]
async fn events_of_one_order_can_be_filtered_further() {
    let merchant = twelve_orders().await;
    let of_order = merchant.all("/sandbox/events?out_trade_no=O03&type=refund.succeeded&status=no_url").await;
    assert_eq!(of_order.len(), 1);
    assert_eq!(merchant.all("/sandbox/events?out_trade_no=O03").await.len(), 2);
}

#[tokio::test]
async fn a_bad_parameter_is_refused_by_its_name() {
    let merchant = Merchant::new();
    let queries = [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=-1", "limit"),
        ("limit=1.5", "limit"),
        ("limit=x", "limit"),
        ("limit=", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("limit=1&limit=2", "limit"),
        ("starting_after=NOWHERE", "starting_after"),
        ("starting_after=", "starting_after"),
        ("starting_after=%00", "starting_after"),
        ("starting_after=%ff", "starting_after"),
        ("out_trade_no=a%20b", "out_trade_no"),
        ("out_trade_no=", "out_trade_no"),
    ];
    for path in ["/v1/orders", "/v1/refunds"] {
        for (query, param) in queries {
            let answer = merchant.get(&format!("{path}?{query}")).await;
            let error = answer.expect_refused(&format!("{param}_invalid"));
            assert_eq!(error["param"], json!(param), "{query}");
        }
    }
    for status in ["status=PAID", "status=succeeded", "status="] {
        merchant.get(&format!("/v1/orders?{status}")).await.expect_refused("status_invalid");
    }
}

#[tokio::test]
async fn every_bad_parameter_is_named_at_once() {
    let merchant = Merchant::new();
    let both = merchant.get("/v1/orders?limit=0&status=x").await.expect_refused("limit_invalid");
    assert_eq!(both["errors"][1]["param"], json!("status"));
}

#[tokio::test]
async fn a_parameter_that_is_not_known_is_ignored_and_named() {
    let merchant = Merchant::new();
    for path in ["/v1/orders", "/v1/refunds"] {
        let unknown = merchant.get(&format!("{path}?page=2&limit=5")).await;
        unknown.expect_data(200);
        assert_eq!(unknown.header("x-sandbox-ignored-fields"), Some("page"));
    }
}
