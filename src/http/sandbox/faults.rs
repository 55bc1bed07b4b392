//! `/sandbox/faults`: rules that make the next matching calls or deliveries go wrong (contract, section
//! 7).

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde_json::json;

use crate::db::faults as table;
use crate::domain::fault::rule::RuleContent;
use crate::domain::refusal::Refusal;
use crate::http::error::ApiError;
use crate::http::extract::{Caller, JsonCall, Number};
use crate::http::{Shared, envelope, list};
use crate::service::{WorkError, faults};

/// `POST /sandbox/faults`
pub(super) async fn create(State(gateway): State<Shared>, call: JsonCall) -> Result<Response, ApiError> {
    // Small enough to come back unchanged from any JSON parser.
    let seed = rand::random::<u32>();
    let parsed = RuleContent::from_json(call.object?, seed.into());
    let content = parsed.content.map_err(Refusal::Fields)?;
    let rule = faults::create(&gateway, call.caller.merchant, content).await?;
    let mut response = envelope::created(call.caller.request_id, rule);
    envelope::name_ignored(&mut response, &parsed.ignored);
    Ok(response)
}

/// `GET /sandbox/faults`
pub(super) async fn list(
    State(gateway): State<Shared>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, ApiError> {
    let (cursor, (), ignored) = list::parse(&uri, |_| ())?;
    let mut conn = gateway.db.acquire().await?;
    let before = match &cursor.starting_after {
        Some(id) => match faults::find(&mut conn, caller.merchant, id).await {
            Ok(rule) => Some(rule.fault_id),
            Err(WorkError::Refused(_)) => return Err(list::no_such_item("fault rules")),
            Err(error) => return Err(error.into()),
        },
        None => None,
    };
    let rules = table::list(&mut conn, caller.merchant, before, cursor.rows()).await?;
    Ok(cursor.answer(caller, rules, &ignored))
}

/// `GET /sandbox/faults/{id}`
pub(super) async fn show(
    State(gateway): State<Shared>,
    caller: Caller,
    Number(id): Number,
) -> Result<Response, ApiError> {
    let mut conn = gateway.db.acquire().await?;
    Ok(envelope::ok(caller.request_id, faults::find(&mut conn, caller.merchant, &id).await?))
}

/// `DELETE /sandbox/faults/{id}`
pub(super) async fn delete(
    State(gateway): State<Shared>,
    caller: Caller,
    Number(id): Number,
) -> Result<Response, ApiError> {
    let mut conn = gateway.db.acquire().await?;
    Ok(envelope::ok(caller.request_id, faults::delete(&mut conn, caller.merchant, &id).await?))
}

/// `DELETE /sandbox/faults`
pub(super) async fn delete_all(State(gateway): State<Shared>, caller: Caller) -> Result<Response, ApiError> {
    let mut conn = gateway.db.acquire().await?;
    let deleted = table::delete(&mut conn, caller.merchant, None).await?;
    Ok(envelope::ok(caller.request_id, json!({ "deleted": deleted })))
}
