//! The edge: routes, what a request must bring along, and how outcomes become responses. No SQL and no
//! rules here.

mod call;
mod checkout;
mod error;
mod extract;
mod health;
mod list;
mod orders;
mod refunds;
mod request;
mod respond;
mod sandbox;
mod serve;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;
use tower_layer::Layer;

use crate::service::Gateway;
use error::ApiError;
pub(crate) use serve::serve;

/// What handlers share.
pub(crate) type Shared = Arc<Gateway>;

/// All routes of the gateway.
pub(crate) fn router(gateway: Shared) -> Router {
    let api = Router::new()
        .route("/v1/orders", get(orders::list).post(orders::create))
        .route("/v1/orders/{no}", get(orders::show))
        .route("/v1/orders/{no}/close", post(orders::close))
        .route("/v1/refunds", get(refunds::list).post(refunds::create))
        .route("/v1/refunds/{no}", get(refunds::show))
        .route("/sandbox/audit", get(sandbox::audit::show))
        .route("/sandbox/clock", get(sandbox::clock::show).put(sandbox::clock::set))
        .route("/sandbox/clock/advance", post(sandbox::clock::advance))
        .route(
            "/sandbox/faults",
            get(sandbox::faults::list).post(sandbox::faults::create).delete(sandbox::faults::delete_all),
        )
        .route("/sandbox/faults/{id}", get(sandbox::faults::show).delete(sandbox::faults::delete))
        .route("/sandbox/requests", get(sandbox::requests::list))
        .route("/sandbox/requests/{id}", get(sandbox::requests::show))
        .route("/sandbox/events", get(sandbox::events::list))
        .route("/sandbox/events/{id}", get(sandbox::events::show))
        .route("/sandbox/events/{id}/redeliver", post(sandbox::events::redeliver))
        .route("/sandbox/fixtures", post(sandbox::fixtures::load))
        .route("/sandbox/orders/{no}/pay", post(sandbox::orders::pay))
        .route("/sandbox/reset", post(sandbox::reset::reset))
        .route("/sandbox/webhook", get(sandbox::webhook::show).put(sandbox::webhook::change))
        .route("/sandbox/webhook/rotate", post(sandbox::webhook::rotate))
        .route("/sandbox/webhook/test", post(sandbox::webhook::test))
        .route("/checkout/{token}", get(checkout::show).post(checkout::pay))
        .route("/checkout/{token}/authenticate", get(checkout::challenge).post(checkout::authenticate))
        .route("/checkout/assets/{version}/{file}", get(checkout::assets::show))
        .fallback(error::endpoint_not_found)
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&gateway), health::refuse_until_ready))
        .with_state(Arc::clone(&gateway));
    let calls = middleware::from_fn_with_state(Arc::clone(&gateway), call::run);
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed)
        // Around the router and not inside: the method must be looked at before a route is chosen.
        .fallback_service(calls.layer(middleware::from_fn(refuse_head).layer(api)))
        .layer(CatchPanicLayer::custom(error::panicked))
        .layer(middleware::from_fn(checkout::errors_as_pages))
        .layer(middleware::from_fn(request::identify))
        .with_state(gateway)
}

/// The API has no HEAD: a client that sends one means something else. axum would answer it like a GET.
async fn refuse_head(mut request: Request<axum::body::Body>, next: Next) -> Response {
    if request.method() == Method::HEAD {
        // No route takes OPTIONS, so the router itself finds what the path allows.
        *request.method_mut() = Method::OPTIONS;
    }
    let mut response = next.run(request).await;
    if response.status() == StatusCode::METHOD_NOT_ALLOWED
        && let Some(Ok(allowed)) = response.headers().get(header::ALLOW).map(HeaderValue::to_str)
    {
        let allowed: Vec<_> = allowed.split(',').filter(|method| *method != "HEAD").collect();
        if let Ok(allowed) = HeaderValue::from_str(&allowed.join(", ")) {
            response.headers_mut().insert(header::ALLOW, allowed);
        }
    }
    response
}
