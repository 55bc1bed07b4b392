//! The load: connections that stay open, each with one request under way. The bytes of a request are made once,
//! and only the digits of a number in them change. Every answer is read whole and checked; what it is checked
//! for stands in the request. What the load is for stands in `rows`.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Outcome;

/// How many digits a number has in the bytes of a request.
const DIGITS: usize = 10;
/// Stands for the number in the text of a request.
const PLACE: &str = "##########";
/// Longer than any answer takes, whose database does not hang.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request with places for a number, and what its answer must be.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    bytes: Vec<u8>,
    places: Vec<usize>,
    status: u16,
    header: Option<&'static str>,
}

/// When a load ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// When so much time is over; what is under way is waited for.
    Over(Duration),
    /// When all numbers of the range were used, or so much time is over, which is an error.
    Used(Duration),
}

/// The numbers that a load uses, one for each request. They begin anew behind the last.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    first: u32,
    count: u32,
    used: Arc<AtomicU32>,
}

/// What a load saw.
#[derive(Debug)]
pub(crate) struct Sample {
    /// How many answers there were.
    pub(crate) answers: u32,
    seconds: f64,
    /// How long each answer took, in microseconds, the shortest first.
    latencies: Vec<u32>,
}

impl Request {
    /// A request whose text has places for a number. `status` is what its answer must have.
    pub(crate) fn new(method: &str, path: &str, headers: &[(&str, &str)], body: &str, status: u16) -> Self {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: sandbox\r\n");
        for (name, value) in headers {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        if method != "GET" {
            let _ = write!(text, "Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        let text = text + "\r\n" + body;
        let places = text.match_indices(PLACE).map(|(at, _)| at).collect();
        Self { bytes: text.into_bytes(), places, status, header: None }
    }

    /// Its answer must have this header, too; in lower case.
    pub(crate) fn with_header(mut self, header: &'static str) -> Self {
        self.header = Some(header);
        self
    }

    /// An order with a number and a key of its own.
    pub(crate) fn create(api_key: &str) -> Self {
        let headers = [("X-Api-Key", api_key), ("Idempotency-Key", "order_##########")];
        let body =
            r#"{"out_trade_no":"SPEED_##########","amount":2990,"currency":"USD","subject":"Pro 年度訂閲"}"#;
        Self::new("POST", "/v1/orders", &headers, body, 201)
    }

    /// The same once more.
    pub(crate) fn replay(api_key: &str) -> Self {
        Self::create(api_key).with_header("idempotent-replayed: true")
    }

    /// The look at an order, by the merchant's number.
    pub(crate) fn look_up(api_key: &str) -> Self {
        Self::new("GET", "/v1/orders/SPEED_##########", &[("X-Api-Key", api_key)], "", 200)
    }

    /// The end of an order that nobody has paid, which makes an event.
    pub(crate) fn close(api_key: &str) -> Self {
        let headers = [("X-Api-Key", api_key), ("Idempotency-Key", "close_##########")];
        Self::new("POST", "/v1/orders/SPEED_##########/close", &headers, "", 200)
    }

    fn set(&mut self, digits: &[u8]) {
        for place in &self.places {
            self.bytes[*place..place + DIGITS].copy_from_slice(digits);
        }
    }

    /// Whether this is the answer: its status, its header, and the number that was sent.
    fn check(&self, head: &[u8], body: &[u8], digits: &[u8]) -> Result<(), String> {
        let head = std::str::from_utf8(head).unwrap_or_default();
        let status = head.get("HTTP/1.1 ".len()..).and_then(|rest| rest.get(..3)).map(str::parse);
        let has_header = self.header.is_none_or(|header| head.contains(header));
        let has_number = self.places.is_empty() || holds_number(body, digits);
        if status == Some(Ok(self.status)) && has_header && has_number {
            return Ok(());
        }
        let (body, asked) = (String::from_utf8_lossy(body), String::from_utf8_lossy(&self.bytes));
        Err(format!("wanted {}, got\n{head}\n{body}\nfor\n{asked}", self.status))
    }
}

/// Whether a JSON text has the order's number as it was sent.
fn holds_number(body: &[u8], digits: &[u8]) -> bool {
    let body = std::str::from_utf8(body).unwrap_or_default();
    let Some((_, rest)) = body.split_once(r#""out_trade_no":"SPEED_"#) else { return false };
    rest.as_bytes().starts_with(digits) && rest.as_bytes().get(DIGITS) == Some(&b'"')
}

impl Numbers {
    /// So many numbers from one on.
    pub(crate) fn new(first: u32, count: u32) -> Self {
        Self { first, count, used: Arc::default() }
    }

    /// Numbers that do not end within a run.
    pub(crate) fn from(first: u32) -> Self {
        Self::new(first, u32::MAX - first)
    }

    /// How many were used.
    pub(crate) fn used(&self) -> u32 {
        self.used.load(Ordering::Relaxed)
    }

    /// The next number; `None` if there is an end and it is reached.
    fn next(&self, is_endless: bool) -> Option<u32> {
        let used = self.used.fetch_add(1, Ordering::Relaxed);
        (is_endless || used < self.count).then_some(self.first + used % self.count)
    }
}

impl Sample {
    /// Answers in a second.
    pub(crate) fn per_second(&self) -> f64 {
        f64::from(self.answers) / self.seconds
    }

    /// What so many percent of the answers took at most, in milliseconds.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let at = self.latencies.len().saturating_sub(1) * percent / 100;
        self.latencies.get(at).map_or(f64::NAN, |micros| f64::from(*micros) / 1000.0)
    }
}

/// Sends a request over so many connections, one at a time on each.
pub(crate) async fn run(
    address: SocketAddr,
    request: &Request,
    numbers: &Numbers,
    connections: usize,
    until: Until,
) -> Outcome<Sample> {
    let mut opened = Vec::with_capacity(connections);
    for _ in 0..connections {
        opened.push(Connection::open(address).await?);
    }
    let limit = match until {
        Until::Over(time) => time + PATIENCE,
        Until::Used(limit) => limit,
    };
    let started = Instant::now();
    let clients: Vec<_> = opened
        .into_iter()
        .map(|connection| tokio::spawn(send(connection, request.clone(), numbers.clone(), started, until)))
        .collect();
    let mut latencies = Vec::new();
    for client in clients {
        let left = limit.saturating_sub(started.elapsed());
        let ended = tokio::time::timeout(left, client).await;
        latencies.extend(ended.map_err(|_| format!("no end within {} s", limit.as_secs()))???);
    }
    let seconds = started.elapsed().as_secs_f64();
    latencies.sort_unstable();
    Ok(Sample { answers: u32::try_from(latencies.len())?, seconds, latencies })
}

async fn send(
    mut connection: Connection,
    mut request: Request,
    numbers: Numbers,
    started: Instant,
    until: Until,
) -> Outcome<Vec<u32>> {
    let mut latencies = Vec::with_capacity(4096);
    let mut digits = Vec::with_capacity(DIGITS);
    loop {
        let is_endless = match until {
            Until::Over(time) if started.elapsed() >= time => return Ok(latencies),
            Until::Over(_) => true,
            Until::Used(_) => false,
        };
        let Some(number) = numbers.next(is_endless) else { return Ok(latencies) };
        write_digits(&mut digits, number);
        request.set(&digits);
        let sent = Instant::now();
        let (head, body) = connection.exchange(&request.bytes).await?;
        latencies.push(u32::try_from(sent.elapsed().as_micros())?);
        request.check(head, body, &digits)?;
    }
}

fn write_digits(digits: &mut Vec<u8>, mut number: u32) {
    digits.clear();
    digits.resize(DIGITS, b'0');
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
}

/// One call outside of a load: returns the body of its answer.
pub(crate) async fn call(
    address: SocketAddr,
    request: &Request,
    limit: Duration,
) -> Outcome<serde_json::Value> {
    let call = async {
        let mut connection = Connection::open(address).await?;
        let (head, body) = connection.exchange(&request.bytes).await?;
        request.check(head, body, b"")?;
        Ok(serde_json::from_slice(body)?)
    };
    tokio::time::timeout(limit, call).await.map_err(|_| "a call took too long")?
}

/// A connection that is kept.
struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Connection {
    async fn open(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answer: Vec::with_capacity(8 * 1024) })
    }

    /// Sends a request and reads its answer: the head and the body.
    async fn exchange(&mut self, request: &[u8]) -> Outcome<(&[u8], &[u8])> {
        self.stream.write_all(request).await?;
        self.answer.clear();
        let mut ends = None;
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err("the connection was closed before an answer".into());
            }
            if ends.is_none() {
                ends = ends_of(&self.answer)?;
            }
            if let Some((head, all)) = ends
                && self.answer.len() >= all
            {
                return Ok((&self.answer[..head], &self.answer[head..all]));
            }
        }
    }
}

/// Where the head of a message ends, and where all of it; `None` while its head is not complete.
pub(crate) fn ends_of(message: &[u8]) -> Outcome<Option<(usize, usize)>> {
    let Some(head) = message.windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|at| at + 4) else {
        return Ok(None);
    };
    for line in std::str::from_utf8(&message[..head])?.lines() {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            return Ok(Some((head, head + value.trim().parse::<usize>()?)));
        }
    }
    Ok(Some((head, head)))
}
