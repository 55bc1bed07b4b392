//! How fast events go to a receiver that answers at once. They are held back until all of them wait, and then become
//! due together.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{ROUNDS, all};
use crate::Outcome;
use crate::load::{Request, call};
use crate::postgres::Server;
use crate::responder::Responder;
use crate::sandbox::Sandbox;
use crate::table::Target::AtLeast;
use crate::table::{Table, Unit, median};

const EVENTS: u32 = 1000;
/// How long they are held back, in the merchant's time.
const HELD_SECONDS: u32 = 600;
/// How long anything here may take.
const LIMIT: Duration = Duration::from_mins(1);

pub(super) async fn measure(server: &Server, table: &mut Table) -> Outcome<()> {
    let sandbox = Sandbox::on(&server.database("events").await?, &[]).await?;
    let mut speeds = Vec::new();
    for round in 0..ROUNDS {
        speeds.push(deliver(sandbox.address, &format!("kuko_test_speed_events_{round}")).await?);
    }
    sandbox.stop().await?;
    let note = format!("{EVENTS} events that wait, each over a connection of its own");
    table.row("events delivered", Unit::PerSecond, AtLeast(1500.0), median(speeds), note);
    Ok(())
}

/// Events in a second, from the moment they are due to the last one's arrival.
async fn deliver(address: SocketAddr, api_key: &str) -> Outcome<f64> {
    let receiver = Responder::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned()).await?;
    let ask = async |method: &str, path: &str, body: String, status: u16| {
        call(address, &Request::new(method, path, &[("X-Api-Key", api_key)], &body, status), LIMIT).await
    };
    ask("PUT", "/sandbox/webhook", format!(r#"{{"url":"http://{}/"}}"#, receiver.address), 200).await?;
    let delay = HELD_SECONDS * 1000;
    let rule = format!(r#"{{"kind":"webhook_delay","delay_ms":{delay},"times":{EVENTS}}}"#);
    let fault = ask("POST", "/sandbox/faults", rule, 201).await?;
    let fault = fault.pointer("/data/id").and_then(Value::as_str).ok_or("no fault")?.to_owned();
    all(address, &Request::create(api_key), 0, EVENTS).await?;
    all(address, &Request::close(api_key), 0, EVENTS).await?;
    let started = Instant::now();
    while fired(&ask("GET", &format!("/sandbox/faults/{fault}"), String::new(), 200).await?) < EVENTS {
        if started.elapsed() > LIMIT {
            return Err("the events are not held back".into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The call that moves the clock waits for what it made due, so that it is not waited for.
    let advance = format!(r#"{{"seconds":{}}}"#, HELD_SECONDS + 60);
    let due = Instant::now();
    let (advanced, delivered) = tokio::join!(ask("POST", "/sandbox/clock/advance", advance, 200), async {
        receiver.called(EVENTS, LIMIT).await.map(|()| due.elapsed())
    });
    advanced?;
    Ok(f64::from(EVENTS) / delivered?.as_secs_f64())
}

fn fired(fault: &Value) -> u32 {
    fault.pointer("/data/fired").and_then(Value::as_u64).and_then(|fired| fired.try_into().ok()).unwrap_or(0)
}
