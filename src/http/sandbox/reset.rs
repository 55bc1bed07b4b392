//! `/sandbox/reset` (contract, section 7).

use axum::extract::State;
use axum::response::Response;

use crate::http::error::ApiError;
use crate::http::extract::Caller;
use crate::http::{Shared, envelope};
use crate::service::reset;

/// `POST /sandbox/reset`
pub(super) async fn reset(State(gateway): State<Shared>, caller: Caller) -> Result<Response, ApiError> {
    Ok(envelope::ok(caller.request_id, reset::reset(&gateway, caller.merchant).await?))
}
