//! `/sandbox/requests`: the journal of calls under `/v1` (contract, section 7).

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::response::Response;
use serde_json::Value;

use crate::db::requests::{self as table, Filters};
use crate::domain::fields::Fields;
use crate::domain::journal::Outcome;
use crate::http::error::ApiError;
use crate::http::extract::{Caller, Number};
use crate::http::{Shared, list, respond};
use crate::service::{WorkError, journal};

/// Tells that the journal is not whole.
const DROPPED: HeaderName = HeaderName::from_static("x-sandbox-journal-dropped");

/// `GET /sandbox/requests`
pub(in crate::http) async fn list(
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
    gateway.journal.flush(Some(caller.merchant)).await;
    let mut conn = gateway.db.acquire().await?;
    let entries = table::list(&mut conn, caller.merchant, before, &filters, cursor.rows()).await?;
    let mut response = respond::ok(caller.request_id, cursor.page(entries));
    respond::name_ignored(&mut response, &ignored);
    if gateway.journal.dropped() > 0 {
        response.headers_mut().insert(DROPPED, HeaderValue::from(gateway.journal.dropped()));
    }
    Ok(response)
}

fn filters(fields: &mut Fields) -> Filters {
    let mut text = |name: &str| fields.optional(name, list::text);
    Filters {
        order_nos: ["out_trade_no", "trade_no"].into_iter().filter_map(&mut text).collect(),
        refund_nos: ["out_refund_no", "refund_no"].into_iter().filter_map(&mut text).collect(),
        idempotency_key: text("idempotency_key"),
        path: text("path"),
        method: text("method"),
        status: fields.optional("status", status),
        outcome: fields.optional("outcome", |value| {
            let outcome = value.as_str().and_then(Outcome::from_code);
            outcome.ok_or_else(|| format!("must be one of {}", Outcome::ALL.map(Outcome::code).join(", ")))
        }),
    }
}

fn status(value: &Value) -> Result<i16, String> {
    let status = value.as_str().and_then(|text| text.parse().ok());
    status.filter(|status| (100..600).contains(status)).ok_or_else(|| "must be an HTTP status".to_owned())
}

/// `GET /sandbox/requests/{id}`
pub(in crate::http) async fn show(
    State(gateway): State<Shared>,
    caller: Caller,
    Number(id): Number,
) -> Result<Response, ApiError> {
    Ok(respond::ok(caller.request_id, journal::find(&gateway, caller.merchant, &id).await?))
}
