//! The lists of orders and refunds: newest first, page by page, filtered (contract, sections 2 and 3).

use serde_json::{Value, json};

use crate::support::Merchant;
use crate::support::client::refund;

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
        merchant.pay(&format!("O{n}")).await.data(200);
    }
    merchant.close("O4").await.data(200);
    for n in 0..5 {
        let body = refund(&format!("R{n}"), &format!("O{}", n % 2), 10);
        merchant.post("/v1/refunds", &body).send().await.data(201);
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
                let page = merchant.get(&format!("{path}?limit=2{after}")).await.data(200);
                let items = page["items"].as_array().unwrap();
                assert_eq!((items.len(), &page["has_more"]), (expected, &json!(expected == 2)));
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
    assert_eq!(merchant.all("/v1/orders").await[0], merchant.get("/v1/orders/O4").await.data(200));
    assert_eq!(merchant.all("/v1/refunds").await[0], merchant.get("/v1/refunds/R4").await.data(200));
}

#[tokio::test]
async fn a_page_has_20_items_unless_more_are_asked_for() {
    let merchant = Merchant::new();
    for n in 0..21 {
        merchant.order(&format!("O{n}"), 100).await;
    }
    let page = merchant.get("/v1/orders").await.data(200);
    assert_eq!((page["items"].as_array().unwrap().len(), &page["has_more"]), (20, &json!(true)));
    assert_eq!(merchant.all("/v1/orders?limit=100").await.len(), 21);
}

#[tokio::test]
async fn filters_choose() {
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
    let page = merchant.get("/v1/orders?status=paid&limit=2").await.data(200);
    assert_eq!(page["has_more"], json!(true));
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
            let error = answer.is_refused(&format!("{param}_invalid"));
            assert_eq!(error["param"], json!(param), "{query}");
        }
        let unknown = merchant.get(&format!("{path}?page=2&limit=5")).await;
        unknown.data(200);
        assert_eq!(unknown.header("x-sandbox-ignored-fields"), Some("page"));
    }
    for status in ["status=PAID", "status=succeeded", "status="] {
        merchant.get(&format!("/v1/orders?{status}")).await.is_refused("status_invalid");
    }
    let both = merchant.get("/v1/orders?limit=0&status=x").await.is_refused("limit_invalid");
    assert_eq!(both["errors"][1]["param"], json!("status"));
}
