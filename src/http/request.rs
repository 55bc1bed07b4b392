//! Around every request: its id, its span, the envelope of errors, and one line in the log.

use std::time::Instant;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Request};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

use super::error::ErrorBody;
use super::respond;
use super::serve::Lost;
use crate::domain::id::RequestId;

/// The header that every response carries.
pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Gives the request its id; writes the body of an error and the header with the id; logs the answer.
/// A replay brings the first response's id along and keeps it.
pub(super) async fn identify(mut request: Request<Body>, next: Next) -> Response {
    let started = Instant::now();
    let request_id = RequestId::generate();
    request.extensions_mut().insert(request_id);
    let span =
        tracing::info_span!("request", %request_id, method = %request.method(), path = request.uri().path());
    async move {
        let mut response = next.run(request).await;
        if response.extensions().get::<ErrorBody>().is_some() {
            let (mut rendered, body) = respond::rendered(request_id, response).await;
            *rendered.body_mut() = Body::from(body);
            response = rendered;
        }
        let id = HeaderValue::from_str(&request_id.to_string());
        if let (false, Ok(id)) = (response.headers().contains_key(X_REQUEST_ID), id) {
            response.headers_mut().insert(X_REQUEST_ID, id);
        }
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if response.extensions().get::<Lost>().is_some() {
            tracing::info!(duration_ms, "lost");
        } else {
            tracing::info!(status = response.status().as_u16(), duration_ms, "answered");
        }
        response
    }
    .instrument(span)
    .await
}
