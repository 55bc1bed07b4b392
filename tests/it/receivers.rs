//! The receivers of docs/webhooks.md, run as they stand: they take what is signed and nothing else, and fulfil
//! each order once. The one in Node needs better-sqlite3, which `.ci/run` installs; without it, or without
//! the language, a test is skipped, except in CI.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use kukopay_sandbox::domain::webhook::signature;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::Merchant;
use crate::support::client::{self, order};
use crate::support::pages;

/// The secret that docs/webhooks.md sets.
const SECRET: &str = "whsec_local";
const ROOT: &str = env!("CARGO_MANIFEST_DIR");
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

/// What a receiver is written in.
#[derive(Debug, Clone, Copy)]
enum Language {
    Python,
    Node,
}

impl Language {
    const ALL: [Self; 2] = [Self::Python, Self::Node];

    fn program(self) -> &'static str {
        match self {
            Self::Python => "python3",
            Self::Node => "node",
        }
    }

    /// The receiver's file in fixtures/receivers.
    fn file(self) -> &'static str {
        match self {
            Self::Python => "receiver.py",
            Self::Node => "receiver.mjs",
        }
    }

    fn source(self) -> String {
        std::fs::read_to_string(Path::new(ROOT).join("fixtures/receivers").join(self.file())).unwrap()
    }

    /// The same receiver, which signs what it has parsed and written again.
    fn source_that_writes_again(self) -> String {
        let (once, again) = match self {
            Self::Python => ("+ body, hashlib", "+ json.dumps(json.loads(body)).encode(), hashlib"),
            Self::Node => (".update(body)", ".update(JSON.stringify(JSON.parse(body)))"),
        };
        assert_eq!(self.source().matches(once).count(), 1);
        self.source().replace(once, again)
    }

    fn can_run(self) -> bool {
        let library = Path::new(NODE).join("node_modules/better-sqlite3").exists();
        let install = "npm install --prefix target/tmp/receivers better-sqlite3@12";
        // The shop of each is looked into with Python.
        runs("python3") && (matches!(self, Self::Python) || (runs("node") && needed(library, install)))
    }
}

impl Receiver {
    /// Starts a receiver, where its language can run.
    fn start(language: Language, source: &str) -> Option<Self> {
        if !language.can_run() {
            return None;
        }
        let shop = tempfile::tempdir().unwrap();
        // Node looks for packages from the script's own folder upwards.
        let place = match language {
            Language::Python => tempfile::tempdir().unwrap(),
            Language::Node => tempfile::tempdir_in(NODE).unwrap(),
        };
        let script = place.path().join(language.file());
        std::fs::write(&script, source).unwrap();
        let mut child = Command::new(language.program())
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
        Some(Self { url: format!("http://127.0.0.1:{port}/hook"), child, shop })
    }

    /// Posts a body with a signature, and returns the status.
    async fn post(&self, signature: &str, body: &[u8]) -> u16 {
        let client = client::http().post(&self.url).header(signature::HEADER, signature);
        client.body(body.to_vec()).send().await.unwrap().status().as_u16()
    }

    async fn post_signed(&self, body: &[u8]) -> u16 {
        self.post(&signature::header(&[SECRET], now(), body), body).await
    }

    /// Runs a statement in the shop's database, and returns the rows.
    async fn in_shop(&self, statement: &str) -> Value {
        let script = "import sqlite3, sys, json\n\
                      with sqlite3.connect(sys.argv[1]) as db:\n\
                      \x20   print(json.dumps(db.execute(sys.argv[2]).fetchall()))";
        let shop = self.shop.path().join("shop.db");
        let mut python = tokio::process::Command::new("python3");
        let output = python.args(["-c", script]).arg(shop).arg(statement).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What the shop has fulfilled: the merchant's numbers and the amounts.
    async fn fulfilments(&self) -> Value {
        self.in_shop("SELECT * FROM fulfilments ORDER BY out_trade_no").await
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

/// Both receivers as they stand, where they can run.
fn receivers() -> impl Iterator<Item = Receiver> {
    Language::ALL.into_iter().filter_map(|language| Receiver::start(language, &language.source()))
}

/// Pays a new order, and returns the event that tells it.
async fn paid_event(merchant: &Merchant, out_trade_no: &str) -> Value {
    let mut body = order(out_trade_no, 2990);
    body["subject"] = json!("Pro 年度訂閲 🎉");
    // JSON.parse puts names that look like numbers into another order.
    body["metadata"] = json!({"10": "ten", "9": "nine"});
    merchant.post("/v1/orders", &body).send().await.expect_data(201);
    merchant.pay(out_trade_no).await.expect_data(200);
    merchant.newest_event().await
}

/// The statuses of the attempts to deliver an event.
fn statuses(event: &Value) -> Vec<&Value> {
    event["deliveries"].as_array().unwrap().iter().map(|delivery| &delivery["status"]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_fulfilled_once_however_often_it_is_told() {
    for receiver in receivers() {
        let first = event("evt_1", "ONE").to_string().into_bytes();
        let again = event("evt_2", "ONE").to_string().into_bytes();
        let copies = (0..20).map(|place| receiver.post_signed(if place % 2 == 0 { &first } else { &again }));
        let copies = join_all(copies).await;
        assert_eq!(copies, [200; 20]);
        assert_eq!(receiver.post_signed(&first).await, 200);
        assert_eq!(receiver.post_signed(event("evt_3", "TWO").to_string().as_bytes()).await, 200);
        assert_eq!(receiver.fulfilments().await, json!([["ONE", 2990], ["TWO", 2990]]));
        assert_eq!(receiver.in_shop("SELECT count(*) FROM events").await, json!([[3]]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_signed_is_taken() {
    for receiver in receivers() {
        let body = event("evt_1", "FORGED").to_string().into_bytes();
        let signed = |secret: &str, time: i64| signature::header(&[secret], time, &body);
        for forged in [
            signed("whsec_other", now()),
            signed(SECRET, now() - 400),
            signed(SECRET, now() + 400),
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
        assert_eq!(receiver.fulfilments().await, json!([]));
        // While a secret is rotated, one of two signatures fits.
        let rotating = signature::header(&["whsec_new", SECRET], now(), &body);
        assert_eq!(receiver.post(&rotating, &body).await, 200);
        assert_eq!(receiver.fulfilments().await, json!([["FORGED", 2990]]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_callback_is_confirmed_and_fulfils_nothing() {
    for receiver in receivers() {
        let mut test = event("evt_1", "TEST");
        test["test"] = json!(true);
        assert_eq!(receiver.post_signed(test.to_string().as_bytes()).await, 200);
        assert_eq!(receiver.fulfilments().await, json!([]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shop_that_fails_acknowledges_nothing_and_forgets_what_it_began() {
    for receiver in receivers() {
        let body = event("evt_1", "ONE").to_string();
        receiver.in_shop("ALTER TABLE fulfilments RENAME TO away").await;
        assert_eq!(receiver.post_signed(body.as_bytes()).await, 500);
        assert_eq!(receiver.in_shop("SELECT * FROM events").await, json!([]));
        receiver.in_shop("ALTER TABLE away RENAME TO fulfilments").await;
        assert_eq!(receiver.post_signed(body.as_bytes()).await, 200);
        assert_eq!(receiver.fulfilments().await, json!([["ONE", 2990]]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_by_hand_as_the_page_shows_is_taken() {
    let blocks = pages::blocks();
    let call = blocks.iter().find(|block| block.text.contains("$(kukopay-sandbox sign")).expect("a call");
    for receiver in receivers() {
        let call = call
            .text
            .replace("kukopay-sandbox", env!("CARGO_BIN_EXE_kukopay-sandbox"))
            .replace("http://127.0.0.1:3000/hook", &receiver.url);
        let mut bash = tokio::process::Command::new("bash");
        let output = bash.args(["-ec", &call]).current_dir(ROOT).output().await.unwrap();
        let answer = String::from_utf8(output.stdout).unwrap();
        assert!(answer.lines().next().is_some_and(|line| line.contains(" 200 ")), "{answer}");
        assert_eq!(receiver.fulfilments().await, json!([["ORDER_20261104_0003", 2990]]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_paid_in_the_sandbox_is_fulfilled_once_whatever_befalls_the_webhook() {
    for receiver in receivers() {
        let merchant = Merchant::new();
        merchant.set_webhook(&json!({"url": receiver.url, "secret": SECRET})).await.expect_data(200);
        // So that an attempt is made only when its time is let pass.
        merchant.set_clock(&json!({"frozen": true})).await.expect_data(200);
        for kind in ["webhook_bad_signature", "webhook_stale_timestamp", "webhook_duplicate"] {
            merchant.post("/sandbox/faults", &json!({"kind": kind})).send().await.expect_data(201);
        }
        let id = paid_event(&merchant, "SHOP_1").await;
        for (attempts, pause) in [(1, 15), (2, 60)] {
            merchant.event_when(&id, |event| event["attempts"] == attempts).await;
            assert_eq!(receiver.fulfilments().await, json!([]));
            merchant.advance(pause).await;
        }
        let delivered = merchant.event_when(&id, |event| event["attempts"] == 4).await;
        assert_eq!(statuses(&delivered), [400, 400, 200, 200]);
        let redeliver = format!("/sandbox/events/{}/redeliver", id.as_str().unwrap());
        merchant.call(reqwest::Method::POST, &redeliver).send().await.expect_data(200);
        merchant.event_when(&id, |event| event["attempts"] == 5).await;
        merchant.expect_event(&id, "delivered").await;
        let test =
            merchant.call(reqwest::Method::POST, "/sandbox/webhook/test").send().await.expect_data(200);
        merchant.expect_event(&test["id"], "delivered").await;
        assert_eq!(receiver.fulfilments().await, json!([["SHOP_1", 2990]]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verifier_that_writes_the_json_again_refuses_what_the_sandbox_sends() {
    for language in Language::ALL {
        let Some(receiver) = Receiver::start(language, &language.source_that_writes_again()) else {
            continue;
        };
        let merchant = Merchant::new();
        merchant.set_webhook(&json!({"url": receiver.url, "secret": SECRET})).await.expect_data(200);
        let id = paid_event(&merchant, "SHOP_1").await;
        let event = merchant.event_when(&id, |event| event["attempts"] == 1).await;
        assert_eq!(statuses(&event), [400], "{language:?}");
        assert_eq!(receiver.fulfilments().await, json!([]));
    }
}
