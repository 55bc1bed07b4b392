//! `GET /sandbox/audit` where the journal lacks calls, or another instance has them: what a missing call would
//! explain is not found, and the report says so.

use kukopay_sandbox::db::journals::{self, Batch};
use kukopay_sandbox::domain::api_key;
use serde_json::json;
use sqlx::{Connection, Executor, PgConnection};
use time::OffsetDateTime;

use crate::audit::Client;
use crate::support::client::order;
use crate::support::process::{database_beside, storage};
use crate::support::{Merchant, Process, expect_fields, server, wait_while};

/// On a database server only, which several instances can share.
#[tokio::test(flavor = "multi_thread")]
async fn the_audit_waits_for_every_instance() {
    let Some(url) = server::database_url() else { return };
    let process = Process::start(&["--database-url", &url]);
    for _ in 0..20 {
        let here = Client::new();
        let there = Client(here.0.moved_to(&process.base_url));
        assert_eq!(here.order("A1", "k1", Some("response_lost")).await, None);
        here.pause().await;
        assert_eq!(there.order("A1", "k1", None).await, Some(201));
        // At once: what the other has answered is not written yet.
        let report = here.report().await;
        expect_fields(&report, &json!({"findings": [], "operations": 1, "journal": {"complete": true}}));
    }
}

/// An instance that was killed blocks nobody, and what it may have answered last is told as missing.
#[tokio::test(flavor = "multi_thread")]
async fn the_journal_of_an_instance_that_died_is_not_whole() {
    let Some(url) = server::database_url() else { return };
    let process = Process::start(&["--database-url", &url]);
    let (here, other) = (Client::new(), Client::new());
    let there = Client(here.0.moved_to(&process.base_url));
    assert_eq!(here.order("A1", "k1", Some("response_lost")).await, None);
    there.pause().await;
    assert_eq!(there.order("A1", "k1", None).await, Some(201));
    process.kill();
    let report = here.report().await;
    expect_fields(&report, &json!({"findings": [], "verdict": "pass", "journal": {"complete": false}}));
    assert!(report["journal"]["through"].as_str().is_some());
    // Another merchant's is.
    assert_eq!(other.order("B1", "k1", None).await, Some(201));
    other.expect_pass().await;
    // A reset begins a new one.
    let through = async || here.report().await["journal"]["through"].clone();
    wait_while("not written further", async || through().await == report["journal"]["through"]).await;
    here.0.call(reqwest::Method::POST, "/sandbox/reset").send().await.expect_data(200);
    here.expect_pass().await;
}

/// The same where the sandbox has one connection, as on the embedded database.
#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_with_one_connection_notes_that_another_one_has_died() {
    let Some(url) = server::database_url() else { return };
    let url = database_beside(&url, "one_connection").await;
    drop(Process::start(&["--database-url", &url]));
    let mut conn = PgConnection::connect(&url).await.expect("a connection");
    let died = "
        WITH writer AS (
            INSERT INTO journal_writers VALUES (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(),
                                                now() - interval '1 hour')
            RETURNING instance_id)
        INSERT INTO instances
        SELECT instance_id, now() - interval '1 hour', now() - interval '1 hour' FROM writer";
    conn.execute(died).await.expect("written");
    let process = Process::start(&["--database-url", &url, "--pool-size", "1"]);
    // The first call wakes up who looks.
    let here = Client(Client::new().0.moved_to(&process.base_url));
    assert_eq!(here.order("A1", "k1", None).await, Some(201));
    let left = "SELECT count(*) FROM instances WHERE alive_until < now() - interval '30 minutes'";
    wait_while("it is not noted", async || {
        sqlx::query_scalar::<_, i64>(left).fetch_one(&mut conn).await.expect("a count") > 0
    })
    .await;
}

/// What an overload dropped is written beside the entries, and so told by every instance. On a database server only,
/// where the test can write it.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_calls_are_counted_for_good_and_nothing_is_found_by_them() {
    let Some(url) = server::database_url() else { return };
    let client = Client::new();
    assert_eq!(client.order("A1", "k1", Some("response_lost")).await, None);
    client.expect_finding("gave_up").await;
    let mut conn = PgConnection::connect(&url).await.expect("a connection");
    let merchant = api_key::merchant_of(&client.0.api_key).expect("a key");
    for dropped in [1, 2] {
        let missing_before = Some(OffsetDateTime::now_utc());
        let batch = Batch { entries: Vec::new(), dropped, missing_before };
        journals::write(&mut conn, merchant, &batch).await.expect("written");
    }
    let process = Process::start(&["--database-url", &url]);
    for url in [&client.0.base_url, &process.base_url] {
        let report = Client(client.0.moved_to(url)).report().await;
        expect_fields(&report, &json!({"verdict": "pass", "journal": {"complete": false, "dropped": 3}}));
    }
    let list = client.0.get("/sandbox/requests").await;
    assert_eq!(list.header("x-sandbox-journal-dropped"), Some("3"));
    // What comes after is judged.
    assert_eq!(client.order("A2", "k2", None).await, Some(201));
    client.pause().await;
    assert_eq!(client.order("A2", "k3", None).await, Some(200));
    client.expect_finding("new_key_per_retry").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_in_its_bounds_says_that_calls_are_missing_and_finds_nothing_by_that() {
    let directory = tempfile::tempdir().expect("a directory");
    let storage = storage(&directory);
    let process = Process::start(&[&storage[0], &storage[1], "--journal-size", "20"]);
    let client = Client(Merchant::at(&process.base_url));
    assert_eq!(client.order("A1", "k1", Some("response_lost")).await, None);
    client.expect_finding("gave_up").await;
    client.pause().await;
    assert_eq!(client.order("A1", "k1", None).await, Some(201));
    for number in 0..18 {
        assert_eq!(client.order(&format!("N{number}"), &format!("n{number}"), None).await, Some(201));
    }
    assert_eq!(client.report().await["journal"]["complete"], json!(true));
    // The first attempt goes, then its success.
    assert_eq!(client.order("LAST", "last", Some("error_before")).await, Some(500));
    assert_eq!(client.report().await["journal"]["complete"], json!(false));
    let report = client.report().await;
    expect_fields(&report, &json!({"verdict": "pass", "operations": 20}));
    assert_eq!(client.send("/v1/orders", None, &order("KEYLESS", 1).to_string(), None).await, Some(201));
    client.expect_finding("missing_key").await;
}
