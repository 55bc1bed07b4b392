//! The audit of a client that does not know what came of a call: whether it finds out (contract, section 8).

use serde_json::json;

use crate::audit::Client;
use crate::support::client::order;
use crate::support::{expect_fields, wait_while};

#[tokio::test]
async fn a_client_that_never_comes_back_gave_up_unless_it_looks_the_number_up() {
    let client = Client::new();
    assert_eq!(client.order("A1", "k1", Some("response_lost")).await, None);
    let finding = client.expect_finding("gave_up").await;
    assert_eq!(finding["out_trade_no"], json!("A1"));
    client.0.get("/v1/orders/A1").await.expect_data(200);
    client.expect_pass().await;
}

#[tokio::test]
async fn a_client_that_hangs_up_and_never_comes_back_gave_up() {
    let client = Client::new();
    let fault = client.fault(&json!({"kind": "latency", "delay_ms": 3000})).await;
    let call = client.0.post("/v1/orders", &order("A1", 2990)).key("k1");
    let call = tokio::spawn(call.send());
    let fault = format!("/sandbox/faults/{}", fault["id"].as_str().unwrap());
    let fired = async || client.0.get(&fault).await.expect_data(200)["fired"].clone();
    wait_while("it has not begun", async || fired().await == json!(0)).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled(), "it was not answered yet");
    let operations = async || client.report().await["operations"].clone();
    wait_while("not noticed", async || operations().await == json!(0)).await;
    client.expect_finding("gave_up").await;
}

/// An order of which the journal keeps a part of the body.
fn long_order() -> String {
    let metadata: serde_json::Map<_, _> =
        (0..45).map(|n| (format!("long_{n}"), json!("x".repeat(450)))).collect();
    let mut long = order("LONG", 2990);
    long["metadata"] = metadata.into();
    long.to_string()
}

#[tokio::test]
async fn a_look_up_tells_however_long_the_bodies_are() {
    let client = Client::new();
    let long = long_order();
    assert_eq!(client.send("/v1/orders", Some("long"), &long, Some("error_after")).await, Some(500));
    client.0.get("/v1/orders/LONG").await.expect_data(200);
    client.expect_pass().await;
}

#[tokio::test]
async fn a_look_up_tells_however_long_the_list_is() {
    let client = Client::new();
    assert_eq!(client.order("LISTED", "listed", Some("response_lost")).await, None);
    for number in 0..40 {
        assert_eq!(client.order(&format!("N{number}"), &format!("n{number}"), None).await, Some(201));
    }
    client.expect_finding("gave_up").await;
    let list = client.0.get("/v1/orders?limit=42").await;
    assert!(list.bytes.len() > 16 * 1024);
    client.expect_pass().await;
}

#[tokio::test]
async fn a_body_that_changes_beyond_what_the_journal_keeps_is_found() {
    let client = Client::new();
    let long = long_order();
    assert_eq!(client.send("/v1/orders", Some("long"), &long, None).await, Some(201));
    assert_eq!(client.send("/v1/orders", Some("long"), &long.replace("x\"}", "y\"}"), None).await, Some(400));
    client.expect_finding("body_changed").await;
}

/// Sends half of a write, and hangs up.
async fn break_off(client: &Client, key: &str) {
    use tokio::io::AsyncWriteExt;
    let address = client.0.base_url.trim_start_matches("http://");
    let mut socket = tokio::net::TcpStream::connect(address).await.expect("a connection");
    let head = format!(
        "POST /v1/orders HTTP/1.1\r\nHost: a\r\nX-Api-Key: {}\r\nIdempotency-Key: {key}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"out_trade_no\":\"A1\",",
        client.0.api_key
    );
    socket.write_all(head.as_bytes()).await.expect("sent");
    drop(socket);
    let entries = format!("/sandbox/requests?idempotency_key={key}");
    wait_while("not noticed", async || client.0.all(&entries).await.is_empty()).await;
}

#[tokio::test]
async fn what_came_of_a_broken_upload_is_unknown_until_the_client_finds_out() {
    let client = Client::new();
    break_off(&client, "k1").await;
    let entry = client.0.all("/sandbox/requests").await.remove(0);
    let expected = json!({"client_hung_up": true, "outcome": "error", "status": null, "answered": false});
    expect_fields(&entry, &expected);
    client.expect_finding("gave_up").await;
    client.pause().await;
    assert_eq!(client.order("A1", "k1", None).await, Some(201));
    client.expect_pass().await;
}
