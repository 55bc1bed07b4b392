//! `/sandbox/clock`: this merchant's time (contract, section 7).

use ::time::Duration;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;

use crate::domain::fields::{Fields, kind_of};
use crate::domain::refusal::Refusal;
use crate::domain::time;
use crate::http::error::ApiError;
use crate::http::extract::{Caller, JsonCall};
use crate::http::{Shared, respond};
use crate::service::clock::{self, Reading};

/// `GET /sandbox/clock`
pub(in crate::http) async fn show(
    State(gateway): State<Shared>,
    caller: Caller,
) -> Result<Response, ApiError> {
    Ok(answer(caller, &clock::read(&gateway, caller.merchant).await?, &[]))
}

/// `POST /sandbox/clock/advance`
pub(in crate::http) async fn advance(
    State(gateway): State<Shared>,
    call: JsonCall,
) -> Result<Response, ApiError> {
    let mut fields = Fields::new(call.object?);
    let by = fields.required("seconds", seconds);
    let parsed = fields.finish(|| by);
    let by = parsed.content.map_err(Refusal::Fields)?;
    let reading = clock::advance(&gateway, call.caller.merchant, by).await?;
    Ok(answer(call.caller, &reading, &parsed.ignored))
}

/// `PUT /sandbox/clock`
pub(in crate::http) async fn set(
    State(gateway): State<Shared>,
    call: JsonCall,
) -> Result<Response, ApiError> {
    let mut fields = Fields::new(call.object?);
    let now = fields.optional("now", time::from_json);
    let frozen = fields.optional("frozen", |value| {
        value.as_bool().ok_or_else(|| format!("must be true or false; {} was sent", kind_of(value)))
    });
    let parsed = fields.finish(|| Some((now, frozen)));
    let (now, frozen) = parsed.content.map_err(Refusal::Fields)?;
    let reading = clock::set(&gateway, call.caller.merchant, now, frozen).await?;
    Ok(answer(call.caller, &reading, &parsed.ignored))
}

fn answer(caller: Caller, reading: &Reading, ignored: &[String]) -> Response {
    let mut response = respond::ok(caller.request_id, reading.clock.view(reading.real));
    respond::name_ignored(&mut response, ignored);
    response
}

fn seconds(value: &Value) -> Result<Duration, String> {
    let seconds = value.as_u64().and_then(|seconds| i64::try_from(seconds).ok());
    seconds.map(Duration::seconds).ok_or_else(|| {
        "must be an integer of 0 or more; to go back, set \"now\" with PUT /sandbox/clock".to_owned()
    })
}
