//! The command line, its environment variables, what start-up prints and what is logged, each with the
//! real command as a process of its own.

use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::client::order;
use crate::support::process::{NOWHERE, command, expect_failure, free_port, storage, strict_storage};
use crate::support::{Answer, Merchant, Process, server, wait_for};

const SECRET: &str = "s3cret-w0rd";

/// The command on data that outlives it.
fn on(directory: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command.args(storage(directory));
    command
}

#[tokio::test]
async fn start_up_prints_all_that_a_first_call_needs() {
    let directory = tempdir().unwrap();
    let process = Process::on(&directory);
    let (banner, base_url) = (&process.banner, &process.base_url);
    assert!(base_url.starts_with("http://127.0.0.1:"));
    let place = match server::database_url() {
        Some(url) => {
            let url = url::Url::parse(&url).unwrap();
            format!("PostgreSQL server at {}{}", url.host_str().unwrap(), url.path())
        }
        None => directory.path().display().to_string(),
    };
    let call = format!(
        r#"curl -i {base_url}/v1/orders -H "X-Api-Key: kuko_test_local_000001" -H "Idempotency-Key: first-order""#
    );
    for expected in [&format!("data      {place}"), "test key  kuko_test_local_000001", &call] {
        assert!(banner.contains(expected), "{expected} in {banner}");
    }
    let body = banner.split("-d '").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
    let merchant = Merchant::at(base_url);
    merchant.post_bytes("/v1/orders", body).key("first-order").send().await.expect_data(201);
}

#[tokio::test]
async fn a_sandbox_that_has_started_says_that_it_is_alive_and_ready() {
    let merchant = Merchant::new();
    for (path, status) in [("/healthz", "ok"), ("/readyz", "ready")] {
        let answer = merchant.anonymous(Method::GET, path).send().await;
        assert_eq!(answer.expect_data(200), json!({"status": status}));
    }
}

#[tokio::test]
async fn flags_choose_the_keys_the_address_of_pages_and_the_urls() {
    let directory = tempdir().unwrap();
    let (one, two) = (Merchant::new(), Merchant::new());
    let keys = format!("{},{}", one.api_key, two.api_key);
    let flags =
        ["--port", "0", "--strict-urls", "--public-url", "https://pay.test/kuko/", "--api-keys", &keys];
    let mut command = command(&flags);
    command.args(strict_storage(&directory).await);
    expect_flags(&Process::run(command), &[one, two]).await;
}

#[tokio::test]
async fn the_environment_sets_what_flags_set_with_and_without_the_subcommand() {
    let directory = tempdir().unwrap();
    let (one, two) = (Merchant::new(), Merchant::new());
    let port = free_port();
    let [flag, place] = strict_storage(&directory).await;
    let storage = if flag == "--database-url" { "KUKOPAY_DATABASE_URL" } else { "KUKOPAY_DATA_DIR" };
    let variables = [
        ("KUKOPAY_HOST", "127.0.0.1"),
        ("KUKOPAY_PORT", &port.to_string()),
        ("KUKOPAY_API_KEYS", &format!("{}, {}", one.api_key, two.api_key)),
        ("KUKOPAY_PUBLIC_URL", "https://pay.test/kuko"),
        ("KUKOPAY_STRICT_URLS", "1"),
        ("KUKOPAY_EPHEMERAL", "false"),
        ("KUKOPAY_LOG_FORMAT", "json"),
        ("KUKOPAY_POOL_SIZE", "2"),
        (storage, &place),
    ];
    let mut banners = Vec::new();
    for subcommand in [&[][..], &["serve"]] {
        let mut command = command(subcommand);
        command.envs(variables);
        let process = Process::run(command);
        assert_eq!(process.base_url, format!("http://127.0.0.1:{port}"));
        expect_flags(&process, &[one.clone(), two.clone()]).await;
        banners.push(process.banner.clone());
        let log = process.end();
        assert!(log.lines().all(|line| line.starts_with('{')), "{log}");
    }
    assert_eq!(banners[0], banners[1]);
}

/// Two keys are let in, pages are at `https://pay.test/kuko`, and URLs must be public.
async fn expect_flags(process: &Process, keys: &[Merchant]) {
    for merchant in keys.iter().map(|merchant| merchant.moved_to(&process.base_url)) {
        assert!(!process.banner.contains(&merchant.api_key), "{}", process.banner);
        let created = merchant.post("/v1/orders", &order("PUBLIC", 100)).send().await;
        let url = created.json()["data"]["checkout_url"].clone();
        assert!(url.as_str().unwrap().starts_with("https://pay.test/kuko/checkout/"), "{url}");
        for (url, allowed) in [("http://127.0.0.1/hook", false), ("https://shop.example.com/hook", true)] {
            let mut body = order("STRICT", 100);
            body["notify_url"] = json!(url);
            let answer = merchant.post("/v1/orders", &body).send().await;
            if allowed {
                assert!(matches!(answer.status, 200 | 201));
            } else {
                answer.expect_refused("notify_url_invalid");
            }
            let answer = merchant.set_webhook(&json!({"url": url})).await;
            if allowed {
                assert_eq!(answer.expect_data(200)["url"], json!(url));
            } else {
                answer.expect_refused("url_invalid");
            }
        }
    }
    let stranger = Merchant::at(&process.base_url).get("/v1/orders").await;
    stranger.expect_error(401, "authentication_error", "api_key_invalid");
}

#[cfg(feature = "embedded")]
#[tokio::test]
async fn a_data_directory_belongs_to_one_process() {
    let directory = tempdir().unwrap();
    let arguments = ["--data-dir", directory.path().to_str().unwrap()];
    let _process = Process::start(&arguments);
    let mut second = command(&arguments);
    second.args(["--port", "0"]);
    let message = expect_failure(second).await;
    let expected = format!("another kukopay-sandbox is running on the data directory {}", arguments[1]);
    assert!(message.contains(&expected) && message.contains("--ephemeral"), "{message}");
}

#[cfg(feature = "embedded")]
#[tokio::test]
async fn a_data_directory_persists() {
    let directory = tempdir().unwrap();
    let arguments = ["--data-dir", directory.path().to_str().unwrap()];
    let process = Process::start(&arguments);
    let merchant = Merchant::at(&process.base_url);
    let first = merchant.post("/v1/orders", &order("KEPT", 100)).key("kept").send().await;
    first.expect_data(201);
    assert!(process.terminate().success());
    let process = Process::start(&arguments);
    let merchant = merchant.moved_to(&process.base_url);
    let replay = merchant.post("/v1/orders", &order("KEPT", 100)).key("kept").send().await;
    replay.expect_replay_of(&first);
}

#[cfg(feature = "embedded")]
#[tokio::test]
async fn an_ephemeral_sandbox_starts_empty() {
    let process = Process::start(&["--ephemeral"]);
    assert!(process.banner.contains("data      kept nowhere"), "{}", process.banner);
    let merchant = Merchant::at(&process.base_url);
    merchant.order("GONE", 100).await;
    drop(process);
    let process = Process::start(&["serve", "--ephemeral"]);
    merchant.moved_to(&process.base_url).get("/v1/orders/GONE").await.expect_not_found("order_not_found");
}

#[tokio::test]
async fn settings_that_do_not_fit_are_refused_without_repeating_a_secret() {
    let live = "kuko_live_s3cret-w0rd";
    let cases: [(&[&str], &str); 14] = [
        (&["--data-dir", "x", "--ephemeral"], "--data-dir and --ephemeral exclude each other"),
        (&["--database-url", NOWHERE, "--ephemeral"], "--database-url and --ephemeral exclude each other"),
        (&["--database-url", NOWHERE, "--data-dir", "x"], "--database-url and --data-dir exclude each other"),
        (
            &["serve", "--database-url", "s3cret-w0rd"],
            "the database URL in --database-url is not of the form",
        ),
        (&["--database-url", "mysql://a:s3cret-w0rd@b/c"], "postgres://user:password@host/database"),
        (&["--database-url", "postgres://a:s3cret-w0rd@b:c/d"], "postgres://user:password@host/database"),
        (&["--api-keys", "kuko_test_12345678,kuko_test_s3cret w0rd s3cret-w0rd"], "key 2 is not kuko_test_"),
        (&["--api-keys", live], "key 1 is a live key"),
        (&["--api-keys", ""], "key 1 is not kuko_test_"),
        (&["--public-url", "ftp://pay.test/"], "--public-url must be an http or https URL"),
        (&["--public-url", "https://pay.test/?a=1"], "--public-url must be an http or https URL"),
        (&["--log-format", "xml"], "[possible values: text, json]"),
        (&["--pool-size", "0"], "--pool-size"),
        (&["--nonsense"], "unexpected argument '--nonsense'"),
    ];
    for (arguments, expected) in cases {
        let mut command = command(arguments);
        command.env("KUKOPAY_PORT", "0");
        let message = expect_failure(command).await;
        assert!(message.contains(expected), "{expected} in {message}");
        assert!(!message.contains(SECRET), "{message}");
    }
}

#[tokio::test]
async fn a_port_in_use_is_said_with_a_way_out() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let message =
        expect_failure(command(&["--port", &address.port().to_string(), "--database-url", NOWHERE])).await;
    let expected = format!("cannot listen on {address}: ");
    assert!(message.contains(&expected) && message.contains("choose another port with --port"), "{message}");
}

#[tokio::test]
async fn until_the_database_is_there_the_sandbox_is_alive_but_not_ready() {
    let port = free_port();
    let process = Process::spawn(command(&["--port", &port.to_string(), "--database-url", NOWHERE]));
    let merchant = Merchant::at(&format!("http://127.0.0.1:{port}"));
    let alive = wait_for(async || merchant.anonymous(Method::GET, "/healthz").try_send().await).await;
    alive.expect_data(200);
    for answer in [merchant.anonymous(Method::GET, "/readyz").send().await, merchant.get("/v1/orders").await]
    {
        answer.expect_error(503, "api_connection_error", "starting");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    // A buyer gets that as a page.
    let page = merchant.anonymous(Method::GET, "/checkout/any").send().await;
    assert_eq!(page.status, 503);
    assert_eq!(page.header("retry-after"), Some("1"));
    assert!(String::from_utf8(page.bytes).unwrap().contains("One moment, please"));
    let log = tokio::task::spawn_blocking(|| process.end()).await.unwrap();
    assert!(log.contains("connection refused by 127.0.0.1:1 (--database-url), waiting up to 60 s"), "{log}");
    assert!(log.contains("stopping") && !log.contains(SECRET), "{log}");
    assert_eq!(log.matches("waiting up to").count(), 1, "{log}");
}

/// Calls of every sort, one after the other.
async fn some_calls(merchant: &Merchant) -> Vec<Answer> {
    let real_card = json!({"card": "4111111111111111"});
    vec![
        merchant.post("/v1/orders", &order("LOGGED", 100)).key("logged").send().await,
        merchant.post("/sandbox/orders/LOGGED/pay", &real_card).send().await,
        merchant.pay("LOGGED").await,
        merchant.get("/v1/orders/NOWHERE").await,
        merchant.get("/nowhere").await,
        merchant.call(Method::GET, "/v1/orders").header("X-Api-Key", "kuko_live_s3cret-w0rd").send().await,
        merchant
            .anonymous(Method::GET, "/v1/orders")
            .header("X-Api-Key", "kuko_live_s3cret-w0rd")
            .send()
            .await,
    ]
}

fn expect_no_secret(log: &str, merchant: &Merchant) {
    for secret in [&merchant.api_key, "4242424242424242", "4111111111111111", SECRET] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

#[tokio::test]
async fn every_line_of_a_json_log_is_json_and_names_its_request() {
    let directory = tempdir().unwrap();
    let process = Process::run(on(&directory, &["--port", "0", "--log-format", "json"]));
    let merchant = Merchant::at(&process.base_url);
    let answers = some_calls(&merchant).await;
    let log = process.end();
    expect_no_secret(&log, &merchant);
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for answer in answers {
        let own = |line: &&Value| line["span"]["request_id"].as_str() == answer.header("x-request-id");
        let statuses: Vec<_> = lines.iter().filter(own).map(|line| &line["fields"]["status"]).collect();
        assert_eq!(statuses, [&json!(answer.status)], "{log}");
    }
}

#[tokio::test]
async fn a_log_of_everything_holds_no_key_and_no_card() {
    let directory = tempdir().unwrap();
    let mut command = on(&directory, &["--port", "0"]);
    command.env("RUST_LOG", "kukopay_sandbox=trace,axum=trace,hyper=trace,sqlx=trace,tower_http=trace");
    let process = Process::run(command);
    let merchant = Merchant::at(&process.base_url);
    let answers = some_calls(&merchant).await;
    let log = process.end();
    expect_no_secret(&log, &merchant);
    for answer in answers {
        assert!(log.contains(answer.header("x-request-id").unwrap()), "{log}");
    }
}
