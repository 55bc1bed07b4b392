//! How long the audit of a client takes that has called often: each order was sent, and sent again.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{ROUNDS, all};
use crate::Outcome;
use crate::load::{Request, call};
use crate::postgres::Server;
use crate::sandbox::Sandbox;
use crate::table::Target::AtMost;
use crate::table::{Table, Unit, median};

const CALLS: u32 = 10_000;
const LIMIT: Duration = Duration::from_mins(1);
const MERCHANT: &str = "kuko_test_speed_audit_1";

pub(super) async fn measure(server: &Server, table: &mut Table) -> Outcome<()> {
    let sandbox = Sandbox::on(&server.database("audit").await?, &[]).await?;
    all(sandbox.address, &Request::create(MERCHANT), 0, CALLS / 2).await?;
    all(sandbox.address, &Request::replay(MERCHANT), 0, CALLS / 2).await?;
    let audit = Request::new("GET", "/sandbox/audit", &[("X-Api-Key", MERCHANT)], "", 200);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let asked = Instant::now();
        let report = call(sandbox.address, &audit, LIMIT).await?;
        times.push(asked.elapsed().as_secs_f64() * 1000.0);
        let operations = report.pointer("/data/operations").and_then(Value::as_u64);
        let verdict = report.pointer("/data/verdict").and_then(Value::as_str);
        if (operations, verdict) != (Some(u64::from(CALLS / 2)), Some("pass")) {
            return Err(format!("the audit says {report}").into());
        }
    }
    sandbox.stop().await?;
    let note = format!("{} orders, each sent twice; the whole call", CALLS / 2);
    let name = format!("audit over {CALLS} calls");
    table.row(&name, Unit::Milliseconds, AtMost(500.0), median(times), note);
    Ok(())
}
