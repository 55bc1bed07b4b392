//! `kill -9` in the middle of a load of writes: nothing that was acknowledged is lost, no key is wedged,
//! and no order lacks its stored response (docs/architecture.md, invariants 1 and 4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::support::client::order;
use crate::support::wait::wait_for;
use crate::support::{Answer, Merchant, Process};

/// A key is free again at the latest when its lease is over, which is 12 s on a shared server.
const LEASE_IS_OVER: Duration = Duration::from_secs(15);

/// How many orders are acknowledged before the first kill; before the later ones there are more.
const ACKNOWLEDGED: usize = 20;

async fn create(merchant: &Merchant, n: usize) -> reqwest::Result<Answer> {
    let body = order(&format!("KILLED_{n}"), 100);
    merchant.post("/v1/orders", &body).key(&format!("killed_{n}")).try_send().await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_write_is_lost_and_no_key_is_wedged() {
    let directory = tempfile::tempdir().unwrap();
    let mut process = Process::on(&directory);
    let mut merchant = Merchant::at(&process.base_url);
    let mut answers: Vec<Option<Answer>> = Vec::new();

    for round in 0..3 {
        let stopped = Arc::new(AtomicBool::new(false));
        let (acknowledged, mut seen_acknowledged) = watch::channel(0);
        let first = answers.len();
        let load: Vec<_> = (0..8)
            .map(|lane| {
                let (merchant, stopped) = (merchant.clone(), Arc::clone(&stopped));
                let acknowledged = acknowledged.clone();
                tokio::spawn(async move {
                    let mut seen = Vec::new();
                    while !stopped.load(Ordering::Relaxed) {
                        let n = first + lane + 8 * seen.len();
                        let answer = create(&merchant, n).await.ok();
                        if answer.is_some() {
                            acknowledged.send_modify(|count| *count += 1);
                        }
                        seen.push(answer);
                    }
                    seen
                })
            })
            .collect();
        // The lanes go on, so that others are surely under way; how many differs from round to round.
        seen_acknowledged.wait_for(|count| *count >= ACKNOWLEDGED * (round + 1)).await.unwrap();
        process.kill();
        stopped.store(true, Ordering::Relaxed);
        let lanes: Vec<Vec<_>> =
            futures_util::future::join_all(load).await.into_iter().map(Result::unwrap).collect();
        let longest = lanes.iter().map(Vec::len).max().unwrap();
        for step in 0..longest {
            answers.extend(lanes.iter().map(|lane| lane.get(step).cloned().flatten()));
        }
        process = Process::on(&directory);
        merchant = merchant.moved_to(&process.base_url);
    }

    assert!(answers.iter().flatten().count() >= ACKNOWLEDGED * (1 + 2 + 3));
    for (n, before) in answers.iter().enumerate() {
        let started = Instant::now();
        let retry = wait_for(async || {
            assert!(started.elapsed() < LEASE_IS_OVER, "the key of order {n} is wedged");
            let retry = create(&merchant, n).await.unwrap();
            if retry.status == 409 { Err("in progress") } else { Ok(retry) }
        })
        .await;
        // 200 would be an order without its stored response: only its number was left of it.
        retry.expect_data(201);
        if let Some(before) = before {
            retry.expect_replay_of(before);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_lets_running_requests_finish() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::on(&directory);
    let merchant = Merchant::at(&process.base_url);
    let slow = merchant.hold(1500).await;
    let started = Instant::now();
    let status = tokio::task::spawn_blocking(|| process.terminate()).await.unwrap();
    assert!(status.success());
    assert!(started.elapsed() < Duration::from_secs(10));
    slow.first.await.unwrap().expect_data(201);
}
