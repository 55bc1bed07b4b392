//! `/sandbox/requests`: the journal of calls under `/v1` (contract, section 7).

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::response::Response;
use serde_json::Value;

use crate::db::requests::{self as table, Filters};
use crate::domain::json::fields::{self, Fields};
use crate::domain::masking;
use crate::http::error::ApiError;
use crate::http::extract::{Caller, Number};
use crate::http::{Shared, envelope, list};
use crate::service::{WorkError, journal};

/// The header that says how far the journal is incomplete.
const DROPPED: HeaderName = HeaderName::from_static("x-sandbox-journal-dropped");

/// `GET /sandbox/requests`
pub(super) async fn list(
    State(gateway): State<Shared>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, ApiError> {
    let (cursor, filters, ignored) = list::parse(&uri, filters)?;
    let before = match &cursor.starting_after {
        Some(id) => match journal::find(&gateway, caller.merchant, id).await {
            Ok(entry) => Some(entry.request_id),
            Err(WorkError::Refused(_)) => return Err(list::no_such_item("requests")),
            Err(error) => return Err(error.into()),
        },
        None => None,
    };
    let state = journal::prepare(&gateway, caller.merchant).await?;
    let mut conn = gateway.db.acquire().await?;
    let entries = table::list(&mut conn, caller.merchant, before, &filters, cursor.rows()).await?;
    let mut response = cursor.answer(caller, entries, &ignored);
    if state.dropped > 0 {
        response.headers_mut().insert(DROPPED, HeaderValue::from(state.dropped));
    }
    Ok(response)
}

fn filters(fields: &mut Fields) -> Filters {
    let mut text = |name: &str| fields.optional(name, list::text);
    Filters {
        order_nos: ["out_trade_no", "trade_no"].into_iter().filter_map(&mut text).collect(),
        refund_nos: ["out_refund_no", "refund_no"].into_iter().filter_map(&mut text).collect(),
        // In the form in which the journal keeps it.
        idempotency_key: text("idempotency_key").map(|key| masking::idempotency_key(&key)),
        path: text("path"),
        method: text("method"),
        status: fields.optional("status", status),
        outcome: fields.optional("outcome", fields::code),
    }
}

fn status(value: &Value) -> Result<i16, String> {
    let status = value.as_str().and_then(|text| text.parse().ok());
    status.filter(|status| (100..600).contains(status)).ok_or_else(|| "must be an HTTP status".to_owned())
}

/// `GET /sandbox/requests/{id}`
pub(super) async fn show(
    State(gateway): State<Shared>,
    caller: Caller,
    Number(id): Number,
) -> Result<Response, ApiError> {
    Ok(envelope::ok(caller.request_id, journal::find(&gateway, caller.merchant, &id).await?))
}
