//! A merchant with an API key of its own, who calls the sandbox over HTTP and reads the answers.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::server;

/// A merchant that nobody else is.
#[derive(Debug, Clone)]
pub(crate) struct Merchant {
    pub(crate) base_url: String,
    pub(crate) api_key: String,
    http: reqwest::Client,
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

    /// `data` of a success with this status.
    #[track_caller]
    pub(crate) fn data(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.bytes));
        let body = self.json();
        assert_eq!(body["request_id"].as_str(), self.header("x-request-id"));
        body["data"].clone()
    }

    /// Asserts the status, type and code of an error, and its envelope.
    #[track_caller]
    pub(crate) fn is_error(&self, status: u16, error_type: &str, code: &str) -> Value {
        let body = self.json();
        assert_eq!(
            (self.status, &body["type"], &body["code"]),
            (status, &json!(error_type), &json!(code)),
            "{body}"
        );
        assert_eq!(body["request_id"].as_str(), self.header("x-request-id"));
        assert_eq!(self.header("content-type"), Some("application/json"));
        assert_eq!(body.get("param"), body.get("errors").map(|errors| &errors[0]["param"]));
        body
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
        Self(self.0.header(name, value))
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
        Self { base_url: base_url.to_owned(), api_key, http: reqwest::Client::new() }
    }

    /// The same merchant at a server that was started again.
    pub(crate) fn moved_to(&self, base_url: &str) -> Self {
        Self { base_url: base_url.to_owned(), api_key: self.api_key.clone(), http: reqwest::Client::new() }
    }

    /// A call with the merchant's key and no body.
    pub(crate) fn call(&self, method: Method, path: &str) -> Call {
        Call(self.http.request(method, format!("{}{path}", self.base_url))).header("X-Api-Key", &self.api_key)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Call {
        self.call(Method::POST, path).header("Content-Type", "application/json").bytes(body.to_string())
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path).send().await
    }

    /// Creates an order and returns it.
    pub(crate) async fn order(&self, out_trade_no: &str, amount: i64) -> Value {
        self.post("/v1/orders", &order(out_trade_no, amount)).send().await.data(201)
    }

    /// Creates an order, pays it and returns it.
    pub(crate) async fn paid_order(&self, out_trade_no: &str, amount: i64) -> Value {
        self.order(out_trade_no, amount).await;
        self.pay(out_trade_no).await.data(200)
    }

    pub(crate) async fn pay(&self, no: &str) -> Answer {
        self.post(&format!("/sandbox/orders/{no}/pay"), &json!({"card": "4242424242424242"})).send().await
    }
}

/// A write that stays in progress for a while.
pub(crate) struct Held {
    pub(crate) body: Value,
    pub(crate) key: String,
    /// Its answer, once it is done.
    pub(crate) first: JoinHandle<Answer>,
    /// The answer of a duplicate that was sent meanwhile, and how long that took.
    pub(crate) duplicate: (Answer, Duration),
}

impl Merchant {
    /// Creates an order that takes `delay_ms`, and returns as soon as a duplicate has seen it in progress.
    pub(crate) async fn hold(&self, delay_ms: u64) -> Held {
        for attempt in 0.. {
            let (key, body) = (format!("held_{attempt}"), order(&format!("HELD_{attempt}"), 2990));
            let fault = format!("latency;delay_ms={delay_ms}");
            let first = self.post("/v1/orders", &body).key(&key).header("X-Sandbox-Fault", &fault);
            let first = tokio::spawn(first.send());
            let sent = Instant::now();
            let duplicate = self.post("/v1/orders", &body).key(&key).send().await;
            if duplicate.status == 409 {
                return Held { body, key, first, duplicate: (duplicate, sent.elapsed()) };
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

/// Sends bytes as they are, and reads until the server closes the connection.
pub(crate) async fn raw(base_url: &str, request: &[u8]) -> String {
    let mut socket = TcpStream::connect(base_url.trim_start_matches("http://")).await.expect("a connection");
    socket.write_all(request).await.expect("sent");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.expect("an answer");
    String::from_utf8(answer).expect("text")
}
