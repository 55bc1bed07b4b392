//! The receivers of README.md, run as they stand: they take what is signed and nothing else, and fulfil
//! each order once. The one in Node needs better-sqlite3, which `.ci/run` installs; without it, or without
//! the language, a test is skipped, except in CI.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use kukopay_sandbox::domain::signature;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::Merchant;
use crate::support::client::refund;

const SECRET: &str = "whsec_receivers";
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/receivers");
/// Where `npm install --prefix` puts the packages of the receiver in Node.
const NODE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/receivers");

/// A running receiver with an empty shop behind it.
struct Receiver {
    child: Child,
    url: String,
    shop: TempDir,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Receiver {
    fn python() -> Option<Self> {
        runs("python3").then(|| Self::start("python3", Path::new(SOURCES).join("receiver.py")))
    }

    fn node() -> Option<Self> {
        let installed = Path::new(NODE).join("node_modules/better-sqlite3").exists();
        if !needed(installed, "npm install --prefix target/tmp/receivers better-sqlite3@12") || !runs("node")
        {
            return None;
        }
        // Packages are looked for from the script's own folder upwards.
        let script = Path::new(NODE).join(format!("receiver_{}.mjs", uuid::Uuid::new_v4()));
        std::fs::copy(Path::new(SOURCES).join("receiver.mjs"), &script).unwrap();
        let receiver = Self::start("node", script.clone());
        std::fs::remove_file(script).unwrap();
        Some(receiver)
    }

    fn start(program: &str, script: PathBuf) -> Self {
        let shop = tempfile::tempdir().unwrap();
        let mut child = Command::new(program)
            .arg(script)
            .envs([("WEBHOOK_SECRET", SECRET), ("PORT", "0")])
            .env("DATABASE", shop.path().join("shop.db"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("listening on ").expect("a port");
        Self { url: format!("http://127.0.0.1:{port}/hook"), child, shop }
    }

    /// Posts a body with a signature, and returns the status.
    async fn post(&self, signature: &str, body: &[u8]) -> u16 {
        let client = reqwest::Client::new().post(&self.url).header(signature::HEADER, signature);
        client.body(body.to_vec()).send().await.unwrap().status().as_u16()
    }

    async fn post_signed(&self, body: &[u8]) -> u16 {
        self.post(&signature::header(&[SECRET], now(), body), body).await
    }

    /// What the shop has fulfilled: the merchant's numbers and the amounts.
    async fn fulfilments(&self) -> Vec<(String, i64)> {
        let script = "import sqlite3, sys, json; \
                      print(json.dumps(sqlite3.connect(sys.argv[1]).execute('SELECT * FROM fulfilments').fetchall()))";
        let shop = self.shop.path().join("shop.db");
        let mut python = tokio::process::Command::new("python3");
        let output = python.args(["-c", script]).arg(shop).output().await.unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn runs(program: &str) -> bool {
    needed(Command::new(program).arg("--version").output().is_ok(), program)
}

/// Whether what is needed is there. In CI it must be.
fn needed(is_there: bool, what: &str) -> bool {
    assert!(is_there || std::env::var_os("CI").is_none(), "not there: {what}");
    if !is_there {
        eprintln!("skipped, for it needs: {what}");
    }
    is_there
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

fn event(id: &str, out_trade_no: &str) -> Value {
    json!({
        "id": id, "object": "event", "type": "payment.succeeded", "created": now(), "livemode": false,
        "data": {"object": {"object": "order", "out_trade_no": out_trade_no, "amount": 2990, "subject": "年度訂閲 🎉"}}
    })
}

/// Both receivers, where they can run.
fn receivers() -> impl Iterator<Item = Receiver> {
    [Receiver::python(), Receiver::node()].into_iter().flatten()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_fulfilled_once_however_often_it_is_told() {
    for receiver in receivers() {
        let first = event("evt_1", "ONE").to_string().into_bytes();
        let again = event("evt_2", "ONE").to_string().into_bytes();
        let copies = join_all((0..20).map(|_| receiver.post_signed(&first))).await;
        assert_eq!(copies, [200; 20]);
        assert_eq!(receiver.post_signed(&again).await, 200);
        assert_eq!(receiver.post_signed(event("evt_3", "TWO").to_string().as_bytes()).await, 200);
        let mut fulfilled = receiver.fulfilments().await;
        fulfilled.sort();
        assert_eq!(fulfilled, [("ONE".to_owned(), 2990), ("TWO".to_owned(), 2990)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_signed_is_taken() {
    for receiver in receivers() {
        let body = event("evt_1", "FORGED").to_string().into_bytes();
        let signed = |secret: &str, time: i64| signature::header(&[secret], time, &body);
        for forged in [
            signed("whsec_other", now()),
            signed(SECRET, now() - 600),
            signed(SECRET, now()).replace("v1=", "v0="),
            format!("t={},v1=", now()),
            "nonsense".to_owned(),
            String::new(),
        ] {
            assert_eq!(receiver.post(&forged, &body).await, 400, "{forged}");
        }
        // The same JSON in other bytes.
        let rewritten = String::from_utf8(body.clone()).unwrap().replace('年', "\\u5e74");
        assert_eq!(receiver.post(&signed(SECRET, now()), rewritten.as_bytes()).await, 400);
        assert_eq!(receiver.fulfilments().await, []);
        // While a secret is rotated, one of two signatures fits.
        let rotating = signature::header(&["whsec_new", SECRET], now(), &body);
        assert_eq!(receiver.post(&rotating, &body).await, 200);
        assert_eq!(receiver.fulfilments().await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_callback_is_confirmed_and_fulfils_nothing() {
    for receiver in receivers() {
        let mut test = event("evt_1", "TEST");
        test["test"] = json!(true);
        assert_eq!(receiver.post_signed(test.to_string().as_bytes()).await, 200);
        assert_eq!(receiver.fulfilments().await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_sandbox_sends_thrice_and_out_of_order_is_fulfilled_once() {
    for receiver in receivers() {
        let merchant = Merchant::new();
        let put = merchant.call(Method::PUT, "/sandbox/webhook").header("Content-Type", "application/json");
        let settings = json!({"url": receiver.url, "secret": SECRET});
        put.bytes(settings.to_string()).send().await.data(200);
        let twice = json!({"kind": "webhook_duplicate", "event_type": "payment.succeeded"});
        merchant.post("/sandbox/faults", &twice).send().await.data(201);
        merchant.paid_order("SHIPPED", 2990).await;
        merchant.post("/v1/refunds", &refund("SHIPPED_1", "SHIPPED", 1000)).send().await.data(201);
        let delivered = async |count: usize| loop {
            let events = merchant.all("/sandbox/events").await;
            if events.iter().filter(|event| event["status"] == json!("delivered")).count() == count {
                break events;
            }
        };
        let events = delivered(2).await;
        let paid = events.iter().find(|event| event["type"] == json!("payment.succeeded")).unwrap();
        let path = format!("/sandbox/events/{}/redeliver", paid["id"].as_str().unwrap());
        merchant.call(Method::POST, &path).send().await.data(200);
        merchant.call(Method::POST, "/sandbox/webhook/test").send().await.data(200);
        delivered(3).await;
        assert_eq!(receiver.fulfilments().await, [("SHIPPED".to_owned(), 2990)]);
    }
}
