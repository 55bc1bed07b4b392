//! A receiver of webhooks: a real server on a port of its own that answers as a test asks, honestly or not,
//! and keeps every request as it came.
//!
//! On a database server the sandboxes of other tests share the deliveries, and some of them are killed: an
//! attempt may then come twice. So what it answers is set by the test, step by step, and not counted here.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Merchant;
use super::wait::PATIENCE;

const HUGE: usize = 50 * 1024 * 1024;

/// How a receiver answers.
#[derive(Debug, Clone)]
pub(crate) enum Manner {
    /// With this status and body.
    Status(u16, Vec<u8>),
    /// With a redirect to this URL.
    Redirect(String),
    /// Never.
    Hang,
    /// With 200 and 50 MB.
    Huge,
    /// With 200 and half of the body that it announces.
    CutShort,
    /// By closing the connection.
    HangUp,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Hook {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Hook {
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        let (_, value) = found.unwrap_or_else(|| panic!("no {name} in {:?}", self.headers));
        value
    }

    #[track_caller]
    pub(crate) fn event(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    #[track_caller]
    pub(crate) fn id(&self) -> String {
        self.event()["id"].as_str().expect("an id").to_owned()
    }
}

/// A running receiver; it is down when it goes out of scope.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) port: u16,
    manner: Arc<Mutex<Manner>>,
    hooks: watch::Receiver<Vec<Hook>>,
    task: JoinHandle<()>,
}

impl Receiver {
    /// Starts a receiver that answers 200.
    pub(crate) async fn start() -> Self {
        Self::start_at(0).await
    }

    /// Starts it on a port that is known already.
    pub(crate) async fn start_at(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let manner = Arc::new(Mutex::new(Manner::Status(200, b"ok".to_vec())));
        let (seen, hooks) = watch::channel(Vec::new());
        let now = Arc::clone(&manner);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let (seen, manner) = (seen.clone(), Arc::clone(&now));
                connections.spawn(async move { serve(socket, &seen, &manner).await });
            }
        });
        Self { port, manner, hooks, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// From now on, answers in this manner.
    pub(crate) fn answers(&self, manner: Manner) {
        *self.manner.lock().expect("a manner") = manner;
    }

    /// From now on, answers with this status.
    pub(crate) fn answers_with(&self, status: u16) {
        self.answers(Manner::Status(status, b"ok".to_vec()));
    }

    /// All that has come so far.
    pub(crate) fn hooks(&self) -> Vec<Hook> {
        self.hooks.borrow().clone()
    }

    /// Waits until what has come fits.
    pub(crate) async fn until(&self, fits: impl FnMut(&Vec<Hook>) -> bool) -> Vec<Hook> {
        let mut hooks = self.hooks.clone();
        let found = tokio::time::timeout(PATIENCE, hooks.wait_for(fits)).await;
        let found = found.unwrap_or_else(|_elapsed| panic!("that never came; this did: {:?}", self.hooks()));
        found.expect("the receiver runs").clone()
    }

    /// Waits for a webhook of this type.
    pub(crate) async fn hook(&self, event_type: &str) -> Hook {
        let is = |hook: &Hook| hook.event()["type"] == event_type;
        let hooks = self.until(|hooks| hooks.iter().any(is)).await;
        hooks.into_iter().find(is).expect("just seen")
    }
}

/// A merchant whose webhooks go to a receiver, and whose time passes only when it is told to.
pub(crate) async fn with_receiver() -> (Merchant, Receiver) {
    let (merchant, receiver) = (Merchant::new(), Receiver::start().await);
    merchant.set_webhook(&json!({"url": receiver.url("/")})).await.expect_data(200);
    merchant.set_clock(&json!({"frozen": true})).await.expect_data(200);
    (merchant, receiver)
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut socket: TcpStream,
    seen: &watch::Sender<Vec<Hook>>,
    manner: &Mutex<Manner>,
) -> std::io::Result<()> {
    let Some(hook) = read(&mut socket).await? else { return Ok(()) };
    let manner = manner.lock().expect("a manner").clone();
    seen.send_modify(|hooks| hooks.push(hook));
    match manner {
        Manner::Status(status, body) => answer(&mut socket, status, "", body.len(), &body).await?,
        Manner::Redirect(to) => answer(&mut socket, 307, &format!("Location: {to}\r\n"), 0, b"").await?,
        Manner::CutShort => answer(&mut socket, 200, "", 100, &[b'x'; 50]).await?,
        Manner::Huge => answer(&mut socket, 200, "", HUGE, &vec![b'x'; HUGE]).await?,
        Manner::Hang => std::future::pending().await,
        Manner::HangUp => {}
    }
    socket.shutdown().await
}

async fn answer(
    socket: &mut TcpStream,
    status: u16,
    header: &str,
    length: usize,
    body: &[u8],
) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 {status} Whatever\r\nContent-Length: {length}\r\n{header}\r\n");
    socket.write_all(head.as_bytes()).await?;
    socket.write_all(body).await
}

async fn read(socket: &mut TcpStream) -> std::io::Result<Option<Hook>> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        // The first byte of a TLS handshake, which this receiver does not understand.
        if bytes.first() == Some(&0x16) || socket.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).expect("text");
    let mut lines = head.split("\r\n");
    let path = lines.next().and_then(|line| line.strip_prefix("POST ")).expect("a POST");
    let path = path.split(' ').next().expect("a path").to_owned();
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut hook = Hook { path, headers, body: bytes.split_off(head_end + 4) };
    let length: usize = hook.header("content-length").parse().expect("a length");
    while hook.body.len() < length {
        if socket.read_buf(&mut hook.body).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(hook))
}
