//! `/healthz` and `/readyz`, which need no key.

use axum::extract::{Extension, State};
use axum::response::Response;
use serde_json::json;

use super::error::ApiError;
use super::{Shared, envelope};
use crate::domain::id::RequestId;

/// `GET /healthz`: the process runs.
pub(super) async fn healthz(Extension(request_id): Extension<RequestId>) -> Response {
    envelope::ok(request_id, json!({"status": "ok"}))
}

/// `GET /readyz`: calls can be served; 503 until the tables are up to date, while the database is away, and
/// while a worker is down.
pub(super) async fn readyz(
    State(gateway): State<Shared>,
    Extension(request_id): Extension<RequestId>,
) -> Result<Response, ApiError> {
    if !gateway.health.is_ready() {
        return Err(ApiError::Starting);
    }
    gateway.db.ping().await?;
    let down = gateway.health.down();
    if !down.is_empty() {
        return Err(ApiError::WorkersDown(down.join(", ")));
    }
    Ok(envelope::ok(request_id, json!({"status": "ready"})))
}
