//! A merchant with an API key of its own, who calls the sandbox over HTTP and reads the answers.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{expect_fields, server, wait_for};

/// A merchant that nobody else is.
#[derive(Debug, Clone)]
pub(crate) struct Merchant {
    pub(crate) base_url: String,
    pub(crate) api_key: String,
    http: reqwest::Client,
}

/// A client that goes where it is told to, and follows no redirect.
pub(crate) fn http() -> reqwest::Client {
    // reqwest is built without a provider of TLS; the first test installs it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    builder.build().expect("a client")
}

/// A response, read to its end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    async fn read(response: reqwest::Response) -> reqwest::Result<Self> {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Self { status, headers, bytes: response.bytes().await?.to_vec() })
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).expect("a JSON body")
    }

    /// Asserts what every body of the API has, and returns it.
    #[track_caller]
    fn expect_envelope(&self) -> Value {
        let body = self.json();
        assert!(is_id("req_", &body["request_id"]), "{body}");
        assert_eq!(body["request_id"].as_str(), self.header("x-request-id"));
        assert_eq!(self.header("content-type"), Some("application/json"));
        body
    }

    /// Asserts a success with this status, and returns its `data`.
    #[track_caller]
    pub(crate) fn expect_data(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.bytes));
        self.expect_envelope()["data"].clone()
    }

    /// Asserts the status, type and code of an error, and its envelope.
    #[track_caller]
    pub(crate) fn expect_error(&self, status: u16, error_type: &str, code: &str) -> Value {
        let body = self.expect_envelope();
        assert_eq!(self.status, status, "{body}");
        expect_fields(&body, &json!({"type": error_type, "code": code}));
        assert_eq!(body.get("param"), body.get("errors").map(|errors| &errors[0]["param"]));
        body
    }

    /// Asserts a refusal of the request itself: 400, with this code.
    #[track_caller]
    pub(crate) fn expect_refused(&self, code: &str) -> Value {
        self.expect_error(400, "invalid_request_error", code)
    }

    /// Asserts that there is no such thing: 404, with this code.
    #[track_caller]
    pub(crate) fn expect_not_found(&self, code: &str) -> Value {
        self.expect_error(404, "invalid_request_error", code)
    }

    /// Asserts that the body is this text, which may stand on several lines: their breaks and indentation are no
    /// part of it.
    #[track_caller]
    pub(crate) fn expect_bytes(&self, expected: &str) {
        let expected: String = expected.lines().map(str::trim_start).collect();
        assert_eq!(String::from_utf8_lossy(&self.bytes), expected);
    }

    /// Asserts that this is the first answer as it was stored: the same status, bytes and request id.
    #[track_caller]
    pub(crate) fn expect_replay_of(&self, first: &Self) {
        assert!(self.is_replay(), "{} {}", self.status, String::from_utf8_lossy(&self.bytes));
        assert_eq!(self.status, first.status);
        assert_eq!(self.bytes, first.bytes);
        assert_eq!(self.header("x-request-id"), first.header("x-request-id"));
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("ASCII"))
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }
}

/// A call on its way.
pub(crate) struct Call(reqwest::RequestBuilder);

impl Call {
    pub(crate) fn key(self, key: &str) -> Self {
        self.header("Idempotency-Key", key)
    }

    pub(crate) fn header(self, name: &str, value: &str) -> Self {
        Self(self.0.header(name, value.as_bytes()))
    }

    pub(crate) fn bytes(self, body: impl Into<Vec<u8>>) -> Self {
        Self(self.0.body(body.into()))
    }

    pub(crate) fn timeout(self, after: Duration) -> Self {
        Self(self.0.timeout(after))
    }

    pub(crate) async fn try_send(self) -> reqwest::Result<Answer> {
        Answer::read(self.0.send().await?).await
    }

    pub(crate) async fn send(self) -> Answer {
        self.try_send().await.expect("an answer")
    }
}

impl Merchant {
    /// A new merchant of the shared server.
    pub(crate) fn new() -> Self {
        Self::at(server::base_url())
    }

    /// A new merchant of some server.
    pub(crate) fn at(base_url: &str) -> Self {
        let api_key = format!("kuko_test_{}", Uuid::new_v4().simple());
        Self { base_url: base_url.to_owned(), api_key, http: http() }
    }

    /// The same merchant at a server that was started again.
    pub(crate) fn moved_to(&self, base_url: &str) -> Self {
        Self { base_url: base_url.to_owned(), api_key: self.api_key.clone(), http: http() }
    }

    /// A call without a key and without a body.
    pub(crate) fn anonymous(&self, method: Method, path: &str) -> Call {
        Call(self.http.request(method, format!("{}{path}", self.base_url)))
    }

    /// A call with the merchant's key and no body.
    pub(crate) fn call(&self, method: Method, path: &str) -> Call {
        self.anonymous(method, path).header("X-Api-Key", &self.api_key)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Call {
        self.post_bytes(path, body.to_string())
    }

    /// A post of something that may not be JSON, announced as JSON.
    pub(crate) fn post_bytes(&self, path: &str, body: impl Into<Vec<u8>>) -> Call {
        self.call(Method::POST, path).header("Content-Type", "application/json").bytes(body)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path).send().await
    }

    /// Creates an order and returns it.
    pub(crate) async fn order(&self, out_trade_no: &str, amount: i64) -> Value {
        self.post("/v1/orders", &order(out_trade_no, amount)).send().await.expect_data(201)
    }

    /// Creates an order, pays it and returns it.
    pub(crate) async fn paid_order(&self, out_trade_no: &str, amount: i64) -> Value {
        self.order(out_trade_no, amount).await;
        self.pay(out_trade_no).await.expect_data(200)
    }

    /// The path of an order's checkout page.
    pub(crate) fn checkout_path(&self, order: &Value) -> String {
        let url = order["checkout_url"].as_str().expect("a URL");
        url.strip_prefix(&self.base_url).expect("a page of this sandbox").to_owned()
    }

    /// Closes an order, with neither a body nor a Content-Type.
    pub(crate) async fn close(&self, no: &str) -> Answer {
        self.call(Method::POST, &format!("/v1/orders/{no}/close")).send().await
    }

    /// The items of a list that has no more than these.
    pub(crate) async fn all(&self, path: &str) -> Vec<Value> {
        let page = self.get(path).await.expect_data(200);
        assert_eq!(page["has_more"], json!(false));
        page["items"].as_array().expect("a list").clone()
    }

    pub(crate) async fn pay(&self, no: &str) -> Answer {
        self.pay_with(no, &json!({"card": "4242424242424242"})).await
    }

    pub(crate) async fn pay_with(&self, no: &str, body: &Value) -> Answer {
        self.post(&format!("/sandbox/orders/{no}/pay"), body).send().await
    }

    /// Changes the webhook settings.
    pub(crate) async fn set_webhook(&self, body: &Value) -> Answer {
        let call = self.call(Method::PUT, "/sandbox/webhook").header("Content-Type", "application/json");
        call.bytes(body.to_string()).send().await
    }

    /// The identifier of the newest event.
    pub(crate) async fn newest_event(&self) -> Value {
        self.get("/sandbox/events?limit=1").await.expect_data(200)["items"][0]["id"].clone()
    }

    /// Pays a new order, and returns the identifier of the event that tells it.
    pub(crate) async fn paid_event(&self, out_trade_no: &str) -> Value {
        self.paid_order(out_trade_no, 100).await;
        self.newest_event().await
    }

    /// Waits until an event fits, and returns it with its deliveries.
    pub(crate) async fn event_when(&self, id: &Value, fits: impl Fn(&Value) -> bool) -> Value {
        let path = format!("/sandbox/events/{}", id.as_str().expect("an id"));
        wait_for(async || {
            let event = self.get(&path).await.expect_data(200);
            if fits(&event) { Ok(event) } else { Err(event) }
        })
        .await
    }

    /// Waits until an event has this status, and returns it with its deliveries.
    pub(crate) async fn expect_event(&self, id: &Value, status: &str) -> Value {
        self.event_when(id, |event| event["status"] == status).await
    }

    /// Lets this merchant's time pass.
    pub(crate) async fn advance(&self, seconds: i64) -> Value {
        self.post("/sandbox/clock/advance", &json!({"seconds": seconds})).send().await.expect_data(200)
    }

    /// Sets this merchant's clock.
    pub(crate) async fn set_clock(&self, body: &Value) -> Answer {
        let call = self.call(Method::PUT, "/sandbox/clock").header("Content-Type", "application/json");
        call.bytes(body.to_string()).send().await
    }
}

/// A write that stays in progress for a while.
pub(crate) struct Held {
    pub(crate) body: Value,
    pub(crate) key: String,
    /// Its answer, once it is done.
    pub(crate) first: JoinHandle<Answer>,
}

/// Less than any work takes that a duplicate might wait for.
const AT_ONCE: Duration = Duration::from_millis(100);

impl Held {
    /// Asserts that a duplicate is told at once that the first is in progress. Of several: a busy machine may be slow
    /// now and then, but a duplicate that has waited for the first gets its answer, and never this one.
    pub(crate) async fn expect_told_at_once(&self, merchant: &Merchant) {
        loop {
            let duplicate = merchant.post("/v1/orders", &self.body).key(&self.key);
            let sent = Instant::now();
            let duplicate = duplicate.send().await;
            let took = sent.elapsed();
            duplicate.expect_error(409, "idempotency_in_progress", "idempotency_in_progress");
            if took < AT_ONCE {
                return;
            }
        }
    }
}

impl Merchant {
    /// Creates an order that takes `delay_ms`, and returns as soon as a duplicate has seen it in progress.
    pub(crate) async fn hold(&self, delay_ms: u64) -> Held {
        for attempt in 0.. {
            let (key, body) = (format!("held_{attempt}"), order(&format!("HELD_{attempt}"), 2990));
            let fault = format!("latency;delay_ms={delay_ms}");
            let first = self.post("/v1/orders", &body).key(&key).header("X-Sandbox-Fault", &fault);
            let first = tokio::spawn(first.send());
            let duplicate = self.post("/v1/orders", &body).key(&key).send().await;
            if duplicate.status == 409 {
                return Held { body, key, first };
            }
            // The duplicate overtook the first and ran itself.
        }
        unreachable!("the loop has no end")
    }
}

/// The body of an order.
pub(crate) fn order(out_trade_no: &str, amount: i64) -> Value {
    json!({"out_trade_no": out_trade_no, "amount": amount, "currency": "USD", "subject": "Pro 年度訂閲"})
}

/// The body of a refund.
pub(crate) fn refund(out_refund_no: &str, out_trade_no: &str, amount: i64) -> Value {
    json!({"out_refund_no": out_refund_no, "out_trade_no": out_trade_no, "amount": amount})
}

/// Whether a value is an identifier: this prefix and 32 lower-case hex digits.
pub(crate) fn is_id(prefix: &str, value: &Value) -> bool {
    let hex = value.as_str().and_then(|text| text.strip_prefix(prefix)).unwrap_or_default();
    hex.len() == 32 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Sends bytes as they are, and reads until the server closes the connection.
pub(crate) async fn raw(base_url: &str, request: &[u8]) -> String {
    let mut socket = TcpStream::connect(base_url.trim_start_matches("http://")).await.expect("a connection");
    socket.write_all(request).await.expect("sent");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.expect("an answer");
    String::from_utf8(answer).expect("text")
}
