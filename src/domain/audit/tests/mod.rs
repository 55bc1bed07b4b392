//! The audit on made-up journals: each rule by hand (`rules`, `missing`, `reports`), and clients that are made up
//! at random, of which the correct never get a finding and the others exactly theirs (`clients`).

mod clients;
mod gateway;
mod missing;
mod reports;
mod rules;

use std::collections::BTreeSet;
use std::time::Duration;

use time::macros::datetime;
use uuid::Uuid;

use super::*;
use crate::domain::fault::occasion::Occasion;
use crate::domain::id::RequestId;
use crate::domain::journal::entry::{Outcome, body_hash};

/// A call that everything is well with.
pub(super) fn call() -> Call {
    Call {
        request_id: RequestId::from_uuid(Uuid::nil()),
        at: datetime!(2026-11-04 08:30 UTC),
        received_at: datetime!(2026-11-04 08:30 UTC),
        duration: Duration::from_millis(5),
        method: "POST".to_owned(),
        path: "/v1/orders".to_owned(),
        idempotency_key: None,
        request_body: String::new(),
        body_hash: Some(0),
        order_nos: Vec::new(),
        refund_nos: Vec::new(),
        answer_nos: Vec::new(),
        outcome: Outcome::Executed,
        status: Some(201),
        code: None,
        answered: true,
        client_hung_up: false,
    }
}

/// A request as the journal notes it.
fn request(method: &str, path: &str, body: &str) -> Call {
    let (bare_path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let occasion = Occasion::of_request(method, bare_path, query, body.as_bytes());
    Call {
        method: method.to_owned(),
        path: path.to_owned(),
        request_body: body.to_owned(),
        body_hash: Some(body_hash(body.as_bytes())),
        order_nos: occasion.order_nos,
        refund_nos: occasion.refund_nos,
        ..call()
    }
}

/// The same, of which the body did not come whole.
fn broken(call: Call) -> Call {
    let names_itself = call.path.split('/').count() > 3;
    Call {
        request_body: String::new(),
        body_hash: None,
        order_nos: if names_itself { call.order_nos } else { Vec::new() },
        refund_nos: Vec::new(),
        outcome: Outcome::Error,
        status: None,
        code: None,
        answered: false,
        client_hung_up: true,
        ..call
    }
}

/// A journal that has every call.
fn whole() -> Reach {
    Reach::whole(call().at)
}

/// The names of the rules that a report has findings of.
fn rule_names(report: &Report) -> BTreeSet<String> {
    let name = |finding: &Finding| serde_json::to_value(finding.rule).unwrap().as_str().unwrap().to_owned();
    report.findings.iter().map(name).collect()
}
