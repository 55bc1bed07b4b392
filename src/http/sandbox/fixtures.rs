//! `/sandbox/fixtures`: objects to start from (contract, section 7).

use axum::extract::State;
use axum::response::Response;

use crate::domain::fixtures::Fixtures;
use crate::domain::refusal::Refusal;
use crate::http::error::ApiError;
use crate::http::extract::JsonCall;
use crate::http::{Shared, envelope};
use crate::service::fixtures;

/// `POST /sandbox/fixtures`
pub(super) async fn load(State(gateway): State<Shared>, call: JsonCall) -> Result<Response, ApiError> {
    let fixtures = Fixtures::from_json(call.object?, gateway.notify_policy).map_err(Refusal::Fields)?;
    let loaded = fixtures::load(&gateway, vec![(call.caller.merchant, fixtures)]).await;
    let loaded = loaded.map_err(|not_loaded| not_loaded.error)?;
    Ok(envelope::created(call.caller.request_id, loaded))
}
