//! `/sandbox/reset` (contract, section 7).

use axum::extract::State;
use axum::response::Response;

use crate::http::error::ApiError;
use crate::http::extract::Caller;
use crate::http::{Shared, respond};
use crate::service::reset;

/// `POST /sandbox/reset`
pub(in crate::http) async fn reset(
    State(gateway): State<Shared>,
    caller: Caller,
) -> Result<Response, ApiError> {
    Ok(respond::ok(caller.request_id, reset::reset(&gateway, caller.merchant).await?))
}
