//! Several sandboxes on one database, on machines whose clocks differ: what they give out sorts by the database's
//! time. On a server only.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::process::command;
use crate::support::{Merchant, Process, server, wait_for};

/// A sandbox on a machine whose clock is so many seconds ahead. `None` where nothing here can make one.
fn ahead_by(seconds: i64, url: &str) -> Option<Process> {
    // Not by this program itself: it would be killed in place of the sandbox.
    let library =
        Command::new("faketime").args(["-f", "+0", "sh", "-c", "printf %s \"$LD_PRELOAD\""]).output();
    let Ok(library) = library else {
        assert!(std::env::var_os("CI").is_none(), "faketime is not installed");
        return None;
    };
    let mut command = command(&["--database-url", url, "--port", "0"]);
    command.env("LD_PRELOAD", String::from_utf8(library.stdout).expect("a path"));
    // Its timers go on as they do.
    command.env("FAKETIME", format!("{seconds:+}s")).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    command.env_remove("DATABASE_URL");
    Some(Process::run(command))
}

#[tokio::test]
async fn what_instances_with_other_clocks_write_sorts_by_the_databases_time() {
    let Some(url) = server::database_url() else { return };
    for seconds in [30, -30] {
        let Some(process) = ahead_by(seconds, &url) else { return };
        let here = Merchant::new();
        let there = here.moved_to(&process.base_url);
        let instances = [&here, &there];
        for n in 0..6 {
            instances[n % 2].order(&format!("N{n}"), 100).await;
        }
        let numbers = ["N5", "N4", "N3", "N2", "N1", "N0"].map(|no| json!(no)).to_vec();
        let listed = |orders: Vec<Value>| -> Vec<Value> {
            orders.into_iter().map(|order| order["out_trade_no"].clone()).collect()
        };
        assert_eq!(listed(here.all("/v1/orders").await), numbers, "ahead by {seconds} s");
        // Each instance writes the journal of its own calls.
        let called: Vec<_> = wait_for(async || {
            there.get("/sandbox/requests").await.expect_data(200);
            let entries = here.all("/sandbox/requests?path=/v1/orders&method=POST").await;
            if entries.len() < 6 { Err("fewer than 6 entries") } else { Ok(entries) }
        })
        .await;
        let called =
            called.iter().map(|entry| serde_json::from_str(entry["request_body"].as_str().unwrap()).unwrap());
        assert_eq!(listed(called.collect()), numbers, "ahead by {seconds} s");
    }
}
