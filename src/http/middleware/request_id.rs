//! Around every request: its id, its span, the envelope of errors, and one line in the log.

use std::time::Instant;

use axum::body::Body;
use axum::http::{HeaderValue, Request};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

use crate::domain::id::RequestId;
use crate::domain::masking;
use crate::http::envelope::{self, X_REQUEST_ID};
use crate::http::error::ErrorBody;
use crate::http::server::Lost;

/// The length of the longest number that the path of a call holds, in bytes.
const LONGEST_NUMBER: usize = 64;

/// Gives the request its id; writes the body of an error and the header with the id; logs the answer.
/// A replay brings the first response's id along and keeps it.
pub(in crate::http) async fn identify(mut request: Request<Body>, next: Next) -> Response {
    let started = Instant::now();
    let request_id = RequestId::generate();
    request.extensions_mut().insert(request_id);
    let path = loggable(request.uri().path());
    let span = tracing::info_span!("request", %request_id, method = %request.method(), path);
    async move {
        let mut response = next.run(request).await;
        if response.extensions().get::<ErrorBody>().is_some() {
            let (mut rendered, body) = envelope::rendered(request_id, response).await;
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

/// A path as the log may show it. A part longer than an order's number may be the token of a checkout page, with
/// which anybody can pay.
fn loggable(path: &str) -> String {
    let shown = |part| if str::len(part) > LONGEST_NUMBER { "…" } else { part };
    masking::path(&path.split('/').map(shown).collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_shows_numbers_of_orders_and_no_token() {
        let (number, token) = ("N".repeat(64), "0".repeat(96));
        assert_eq!(loggable(&format!("/v1/orders/{number}/close")), format!("/v1/orders/{number}/close"));
        assert_eq!(loggable(&format!("//checkout/{token}/authenticate")), "//checkout/…/authenticate");
        assert_eq!(loggable("/"), "/");
        assert_eq!(loggable("/v1/orders/4000000000000002"), "/v1/orders/4000000000000002");
        assert_eq!(loggable("/v1/pay/4242-4242%204242.4242"), "/v1/pay/4242-****%20****.4242");
        assert_eq!(loggable("/v1/orders/kuko_live_abcdefgh/close"), "/v1/orders/kuko_live_…/close");
    }
}
