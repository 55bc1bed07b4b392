//! `/healthz` and `/readyz`, which need no key, and the gate that keeps calls out until the tables are
//! up to date.

use axum::extract::{Extension, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::error::ApiError;
use super::{Shared, respond};
use crate::domain::id::RequestId;

/// `GET /healthz`: the process runs.
pub(super) async fn healthz(Extension(request_id): Extension<RequestId>) -> Response {
    respond::ok(request_id, json!({"status": "ok"}))
}

/// `GET /readyz`: calls can be served; 503 until the tables are up to date, and while the database is
/// away.
pub(super) async fn readyz(
    State(gateway): State<Shared>,
    Extension(request_id): Extension<RequestId>,
) -> Result<Response, ApiError> {
    if !gateway.is_ready() {
        return Err(ApiError::Starting);
    }
    gateway.db.ping().await?;
    Ok(respond::ok(request_id, json!({"status": "ready"})))
}

/// Answers 503 until the tables are up to date.
pub(super) async fn refuse_until_ready(
    State(gateway): State<Shared>,
    request: Request,
    next: Next,
) -> Response {
    if gateway.is_ready() { next.run(request).await } else { ApiError::Starting.into_response() }
}
