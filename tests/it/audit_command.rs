//! `kukopay-sandbox audit`: what it prints, and its exit status, which gates a CI job. And the loops that
//! docs/audit.md shows pass it.

use std::process::Output;

use serde_json::{Value, json};

use crate::support::client::order;
use crate::support::pages;
use crate::support::process::{command, free_port};
use crate::support::{Merchant, expect_fields};

/// Runs the command to its end, while the server goes on.
async fn audit(arguments: &[&str], api_key: Option<&str>) -> (Option<i32>, String, String) {
    let mut command = command(&[&["audit"], arguments].concat());
    command.envs(api_key.map(|key| ("KUKOPAY_API_KEY", key)));
    let Output { status, stdout, stderr } =
        tokio::process::Command::from(command).output().await.expect("the command ends");
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).expect("text"));
    (status.code(), stdout, stderr)
}

#[tokio::test]
async fn a_pass_exits_with_0_and_findings_with_1() {
    let merchant = Merchant::new();
    let url = ["--url", &merchant.base_url];
    merchant.post("/v1/orders", &order("A1", 2990)).key("k1").send().await.expect_data(201);
    let (status, text, _) = audit(&[&url[..], &["--api-key", &merchant.api_key]].concat(), None).await;
    assert_eq!(text, "PASS  1 operation without a finding: this client is safe to retry.\n");
    assert_eq!(status, Some(0));

    merchant.post("/v1/orders", &order("A2", 2990)).send().await.expect_data(201);
    let (status, text, _) = audit(&url, Some(&merchant.api_key)).await;
    let head = "FAIL  1 finding in 2 operations: this client is not safe to retry.\n\nmissing_key\n    ";
    assert!(text.starts_with(head), "{text}");
    assert_eq!(status, Some(1));

    let (status, json, _) = audit(&[&url[..], &["--json"]].concat(), Some(&merchant.api_key)).await;
    let report: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(report["verdict"], json!("fail"));
    assert_eq!(report["findings"][0]["rule"], json!("missing_key"));
    assert_eq!(status, Some(1));
}

#[tokio::test]
async fn the_threshold_is_passed_on() {
    let merchant = Merchant::new();
    let attempt = || merchant.post("/v1/orders", &order("A1", 2990)).key("k1");
    attempt().header("X-Sandbox-Fault", "error_before").send().await;
    attempt().send().await.expect_data(201);
    for (least, expected) in [("0", 0), ("60000", 1)] {
        let arguments = ["--url", &merchant.base_url, "--min-backoff-ms", least];
        let (status, text, _) = audit(&arguments, Some(&merchant.api_key)).await;
        assert_eq!(status, Some(expected), "{text}");
    }
}

#[tokio::test]
async fn no_answer_exits_with_2_and_says_why() {
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let (status, _, error) = audit(&["--url", &nobody], Some("kuko_test_local_000001")).await;
    assert!(error.starts_with(&format!("kukopay-sandbox: no answer from {nobody}: ")), "{error}");
    assert_eq!(status, Some(2));

    let here = Merchant::new().base_url;
    let (status, _, error) = audit(&["--url", &here], Some("kuko_live_12345678")).await;
    assert!(error.contains("401") && error.contains("live key") && !error.contains("12345678"), "{error}");
    assert_eq!(status, Some(2));
    let (status, ..) = audit(&["--url", &here], None).await;
    assert_eq!(status, Some(2));
    let (status, ..) = audit(&["--url", "ftp://127.0.0.1"], Some("kuko_test_local_000001")).await;
    assert_eq!(status, Some(2));
}

/// Runs a loop of docs/audit.md, which is told where and as whom to call, and waits for its end.
async fn expect_success(program: &str, arguments: &[&str], merchant: &Merchant, order_json: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("order.json"), order_json).expect("written");
    let output = tokio::process::Command::new(program)
        .args(arguments)
        .envs([("BASE_URL", &merchant.base_url), ("API_KEY", &merchant.api_key)])
        .current_dir(directory.path())
        .output();
    let output = output.await.expect("the program runs");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What is shown in this language and has this in it.
fn shown(language: &str, part: &str) -> String {
    let mut blocks = pages::blocks().into_iter();
    let found = blocks.find(|block| block.language == language && block.text.contains(part));
    found.expect("a block").text
}

#[tokio::test]
async fn the_loops_that_are_shown_pass() {
    let order = order("A1", 2990).to_string();
    let python = shown("python", "def create_order(")
        + &format!(
            "\nimport os, sys\nstatus, _ = create_order(os.environ['BASE_URL'], os.environ['API_KEY'], {order})\n"
        )
        + "sys.exit(status != 201)\n";
    let node = shown("js", "function createOrder(")
        + &format!("\ncreateOrder(process.env.BASE_URL, process.env.API_KEY, {order})")
        + ".then(([status]) => process.exit(Number(status !== 201)));\n";
    let bash = shown("bash", "--data-binary @order.json");
    let (bash, python, node) = (["-c", &bash], ["-c", &python], ["-e", &node]);
    let loops = [("bash", bash), ("python3", python), ("node", node)];
    futures_util::future::join_all(loops.map(async |(program, arguments)| {
        let merchant = Merchant::new();
        for kind in ["truncated_response", "response_lost"] {
            let rule = json!({"kind": kind, "method": "POST", "path": "/v1/orders", "times": 1});
            merchant.post("/sandbox/faults", &rule).send().await.expect_data(201);
        }
        expect_success(program, &arguments, &merchant, &order).await;
        let report = merchant.get("/sandbox/audit").await.expect_data(200);
        expect_fields(&report, &json!({"verdict": "pass", "operations": 1, "findings": []}));
        assert_eq!(merchant.all("/v1/orders").await.len(), 1);
    }))
    .await;
}
