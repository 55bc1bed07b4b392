//! `/sandbox/audit`: whether this merchant's client is safe to retry (contract, section 8).

use std::time::Duration;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde_json::Value;

use crate::domain::audit::Thresholds;
use crate::domain::refusal::Refusal;
use crate::http::error::ApiError;
use crate::http::extract::Caller;
use crate::http::{Shared, envelope, list};
use crate::service::audit;

/// The longest pause that can be asked for: an hour.
const MAX_BACKOFF_MS: u64 = 3_600_000;

/// `GET /sandbox/audit`
pub(super) async fn show(
    State(gateway): State<Shared>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, ApiError> {
    let mut fields = list::fields(&uri);
    let min_backoff = fields.optional("min_backoff_ms", milliseconds);
    let parsed = fields.finish(|| Some(min_backoff));
    let min_backoff = parsed.content.map_err(Refusal::Fields)?;
    let thresholds = min_backoff.map_or_else(Thresholds::default, |min_backoff| Thresholds { min_backoff });
    let report = audit::report(&gateway, caller.merchant, thresholds).await?;
    let mut response = envelope::ok(caller.request_id, report);
    envelope::name_ignored(&mut response, &parsed.ignored);
    Ok(response)
}

fn milliseconds(value: &Value) -> Result<Duration, String> {
    let number = value.as_str().and_then(|text| text.parse().ok());
    let number = number.filter(|number| *number <= MAX_BACKOFF_MS);
    number.map(Duration::from_millis).ok_or_else(|| format!("must be an integer from 0 to {MAX_BACKOFF_MS}"))
}
