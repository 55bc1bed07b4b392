//! What the journal costs: orders a second with it and without it, measured in turns against the same
//! database. It may cost a tenth.
//!
//! ```sh
//! DATABASE_URL=postgres://… cargo bench --bench journal
//! ```
//!
//! Without `DATABASE_URL`, each of the two sandboxes has an embedded database of its own.

#![allow(clippy::expect_used, reason = "what does not start cannot be measured")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kukopay_sandbox::app::App;
use kukopay_sandbox::config::Config;
use kukopay_sandbox::db::Storage;
use kukopay_sandbox::domain::web_url::NotifyPolicy;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use uuid::Uuid;

const CONNECTIONS: usize = 32;
const ROUNDS: usize = 6;
const ROUND: Duration = Duration::from_secs(3);
/// How much of the speed without a journal has to be left with it.
const LEAST: f64 = 0.9;

#[tokio::main]
async fn main() {
    // Passed by cargo; where benchmarks are only tested, there is nothing to do.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let (with, without) = (start(10_000).await, start(0).await);
    for app in [&with, &without] {
        orders_a_second(&app.base_url(), ROUND / 3).await; // warm
    }
    let (mut ratios, mut speeds) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Who goes first changes, as a machine gets faster or slower on the way.
        let (first, second) = if round % 2 == 0 { (&with, &without) } else { (&without, &with) };
        let one = orders_a_second(&first.base_url(), ROUND).await;
        let other = orders_a_second(&second.base_url(), ROUND).await;
        let (on, off) = if round % 2 == 0 { (one, other) } else { (other, one) };
        println!("with the journal {on:>6.0}/s, without {off:>6.0}/s, ratio {:.2}", on / off);
        ratios.push(on / off);
        speeds.push(on);
    }
    let (ratio, speed) = (median(ratios), median(speeds));
    println!(
        "median: {speed:.0} orders/s with the journal, {ratio:.2} of the speed without (at least {LEAST})"
    );
    with.stop().await;
    without.stop().await;
}

async fn start(journal_size: u32) -> App {
    let url = std::env::var("DATABASE_URL").ok().filter(|url| !url.is_empty());
    let config = Config {
        host: std::net::Ipv4Addr::LOCALHOST.into(),
        port: 0,
        storage: url.map_or(Storage::Ephemeral, Storage::Server),
        pool_size: 16,
        journal_size,
        merchants: None,
        public_url: None,
        notify_policy: NotifyPolicy::Anywhere,
        fixtures: Vec::new(),
    };
    let app = App::start(config).await.expect("the sandbox starts");
    app.become_ready().await.expect("the database is ready");
    app
}

/// Creates orders with keys of their own over all connections, and counts the answers.
async fn orders_a_second(base_url: &str, during: Duration) -> f64 {
    let (answered, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let api_key = format!("kuko_test_{}", Uuid::new_v4().simple());
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let address = base_url.trim_start_matches("http://").to_owned();
            let (answered, over, api_key) = (Arc::clone(&answered), Arc::clone(&over), api_key.clone());
            tokio::spawn(async move {
                let mut socket = BufReader::new(TcpStream::connect(address).await.expect("a connection"));
                while !over.load(Ordering::Relaxed) {
                    create_order(&mut socket, &api_key).await.expect("an answer");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let started = Instant::now();
    tokio::time::sleep(during).await;
    let (count, took) = (answered.load(Ordering::Relaxed), started.elapsed());
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("a client ends");
    }
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let count = count as f64;
    count / took.as_secs_f64()
}

async fn create_order(socket: &mut BufReader<TcpStream>, api_key: &str) -> std::io::Result<()> {
    let no = Uuid::new_v4().simple();
    let body =
        format!(r#"{{"out_trade_no":"{no}","amount":2990,"currency":"USD","subject":"Pro 年度訂閲"}}"#);
    let head = format!(
        "POST /v1/orders HTTP/1.1\r\nHost: sandbox\r\nX-Api-Key: {api_key}\r\nIdempotency-Key: order_{no}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await?;
    let (mut line, mut length, mut is_first) = (String::new(), 0, true);
    while line != "\r\n" {
        line.clear();
        socket.read_line(&mut line).await?;
        assert!(!is_first || line.starts_with("HTTP/1.1 201"), "{line}");
        is_first = false;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
    }
    socket.read_exact(&mut vec![0; length]).await?;
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    f64::midpoint(values[middle - 1], values[middle])
}
