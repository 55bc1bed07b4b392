//! The audit on made-up journals: each rule by hand (`rules`), and clients that are made up at random, of
//! which the correct never get a finding and the others exactly theirs (`clients`).

mod clients;
mod gateway;
mod rules;

use std::collections::BTreeSet;
use std::time::Duration;

use time::macros::datetime;
use uuid::Uuid;

use super::*;
use crate::domain::id::RequestId;

/// A call that everything is well with.
pub(super) fn call() -> Call {
    Call {
        request_id: RequestId::from_uuid(Uuid::nil()),
        at: datetime!(2026-11-04 08:30 UTC),
        received_at: datetime!(2026-11-04 08:30 UTC),
        duration: Duration::from_millis(5),
        method: "POST".to_owned(),
        target: "/v1/orders".to_owned(),
        idempotency_key: None,
        request_body: Vec::new(),
        status: Some(201),
        response_body: Vec::new(),
        answered: true,
        client_hung_up: false,
    }
}

/// The names of the rules that a report has findings of.
fn rules(report: &Report) -> BTreeSet<String> {
    let name = |finding: &Finding| serde_json::to_value(finding.rule).unwrap().as_str().unwrap().to_owned();
    report.findings.iter().map(name).collect()
}
