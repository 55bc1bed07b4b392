//! `/sandbox/clock`: this merchant's time (contract, section 7).

use ::time::Duration;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use serde_json::Value;

use crate::domain::json::fields::{FieldError, Fields, kind_of};
use crate::domain::refusal::Refusal;
use crate::domain::time::rfc3339;
use crate::http::error::ApiError;
use crate::http::extract::{Caller, JsonCall};
use crate::http::{Shared, envelope};
use crate::service::clock::{self, Advance, Moved};

/// `GET /sandbox/clock`
pub(super) async fn show(State(gateway): State<Shared>, caller: Caller) -> Result<Response, ApiError> {
    let reading = clock::read(&gateway, caller.merchant).await?;
    Ok(envelope::ok(caller.request_id, reading.clock.view(reading.real)))
}

/// `POST /sandbox/clock/advance`
pub(super) async fn advance(State(gateway): State<Shared>, call: JsonCall) -> Result<Response, ApiError> {
    let mut fields = Fields::new(call.object?);
    let by = if fields.has("to") {
        if fields.has("seconds") {
            fields.refuse(FieldError::invalid("to", "and seconds exclude each other; send one of them"));
        }
        fields.optional("to", rfc3339::from_json).map(Advance::To)
    } else {
        fields.required("seconds", seconds).map(Advance::By)
    };
    let parsed = fields.finish(|| by);
    let by = parsed.content.map_err(Refusal::Fields)?;
    let moved = clock::advance(&gateway, call.caller.merchant, by).await?;
    Ok(moved_answer(call.caller, &moved, &parsed.ignored))
}

/// `PUT /sandbox/clock`
pub(super) async fn set(State(gateway): State<Shared>, call: JsonCall) -> Result<Response, ApiError> {
    let mut fields = Fields::new(call.object?);
    let now = fields.optional("now", rfc3339::from_json);
    let frozen = fields.optional("frozen", |value| {
        value.as_bool().ok_or_else(|| format!("must be true or false; {} was sent", kind_of(value)))
    });
    let parsed = fields.finish(|| Some((now, frozen)));
    let (now, frozen) = parsed.content.map_err(Refusal::Fields)?;
    let moved = clock::set(&gateway, call.caller.merchant, now, frozen).await?;
    Ok(moved_answer(call.caller, &moved, &parsed.ignored))
}

#[derive(Serialize)]
struct MovedClock<C> {
    #[serde(flatten)]
    clock: C,
    due_work_done: bool,
}

fn moved_answer(caller: Caller, moved: &Moved, ignored: &[String]) -> Response {
    let clock = moved.reading.clock.view(moved.reading.real);
    let data = MovedClock { clock, due_work_done: moved.due_work_done };
    let mut response = envelope::ok(caller.request_id, data);
    envelope::name_ignored(&mut response, ignored);
    response
}

fn seconds(value: &Value) -> Result<Duration, String> {
    let seconds = value.as_u64().and_then(|seconds| i64::try_from(seconds).ok());
    seconds.map(Duration::seconds).ok_or_else(|| {
        "must be an integer of 0 or more; to go back, set \"now\" with PUT /sandbox/clock".to_owned()
    })
}
