//! `/sandbox/webhook`: where webhooks go and what signs them (contract, section 7).

use axum::extract::State;
use axum::response::Response;

use crate::domain::refusal::Refusal;
use crate::domain::webhook::settings::{Rotation, SettingsChange};
use crate::http::error::ApiError;
use crate::http::extract::{Caller, JsonCall};
use crate::http::{Shared, envelope};
use crate::service::webhooks;

/// `GET /sandbox/webhook`
pub(super) async fn show(State(gateway): State<Shared>, caller: Caller) -> Result<Response, ApiError> {
    Ok(envelope::ok(caller.request_id, webhooks::settings(&gateway, caller.merchant).await?))
}

/// `PUT /sandbox/webhook`
pub(super) async fn change(State(gateway): State<Shared>, call: JsonCall) -> Result<Response, ApiError> {
    let parsed = SettingsChange::from_json(call.object?, gateway.notify_policy);
    let change = parsed.content.map_err(Refusal::Fields)?;
    let settings = webhooks::change(&gateway, call.caller.merchant, &change).await?;
    let mut response = envelope::ok(call.caller.request_id, settings);
    envelope::name_ignored(&mut response, &parsed.ignored);
    Ok(response)
}

/// `POST /sandbox/webhook/rotate`
pub(super) async fn rotate(State(gateway): State<Shared>, call: JsonCall) -> Result<Response, ApiError> {
    let caller = call.caller;
    let parsed = Rotation::from_json(call.object_or_empty()?);
    let rotation = parsed.content.map_err(Refusal::Fields)?;
    let settings = webhooks::rotate(&gateway, caller.merchant, &rotation).await?;
    let mut response = envelope::ok(caller.request_id, settings);
    envelope::name_ignored(&mut response, &parsed.ignored);
    Ok(response)
}

/// `POST /sandbox/webhook/test`
pub(super) async fn test(State(gateway): State<Shared>, call: JsonCall) -> Result<Response, ApiError> {
    let caller = call.caller;
    let ignored: Vec<_> = call.object_or_empty()?.into_iter().map(|(name, _)| name).collect();
    let event = webhooks::test(&gateway, caller.merchant).await?;
    let mut response = envelope::ok(caller.request_id, event.detail(&[]));
    envelope::name_ignored(&mut response, &ignored);
    Ok(response)
}
