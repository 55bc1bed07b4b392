//! The gate that keeps calls out until the tables are up to date.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::http::Shared;
use crate::http::error::ApiError;

/// Answers 503 until the tables are up to date.
pub(in crate::http) async fn refuse_until_ready(
    State(gateway): State<Shared>,
    request: Request,
    next: Next,
) -> Response {
    if gateway.health.is_ready() { next.run(request).await } else { ApiError::Starting.into_response() }
}
