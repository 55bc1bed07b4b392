//! The edge: from a request to a use case and back. No SQL and no rules here.
//!
//! - `v1`, `sandbox`, `checkout`: the routes, each wing with its own router; `health`: whether it runs
//! - `middleware`: what happens around every call
//! - `pages`: what every HTML page needs
//! - `extract`: what a request must bring along; `list`: the query of a list
//! - `envelope`: how an answer stands in a body; `error`: the one table of statuses
//! - `server`: accepts connections

mod checkout;
mod envelope;
mod error;
mod extract;
mod health;
mod list;
mod middleware;
mod pages;
mod sandbox;
mod server;
mod v1;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use tower_http::catch_panic::CatchPanicLayer;
use tower_layer::Layer;

use crate::service::Gateway;
use error::ApiError;
pub(crate) use server::serve;

/// What handlers share.
pub(crate) type Shared = Arc<Gateway>;

/// All routes of the gateway.
pub(crate) fn router(gateway: Shared) -> Router {
    let calls = v1::router()
        .merge(sandbox::router())
        .merge(checkout::router())
        .fallback(error::endpoint_not_found)
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed)
        .layer(from_fn_with_state(Arc::clone(&gateway), middleware::readiness::refuse_until_ready))
        .with_state(Arc::clone(&gateway));
    // Around the router, not inside it: the method is checked before a route is chosen.
    let calls = from_fn(middleware::methods::refuse_head).layer(calls);
    let calls = from_fn_with_state(Arc::clone(&gateway), middleware::faults::run).layer(calls);
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed)
        .fallback_service(calls)
        .layer(CatchPanicLayer::custom(error::panicked))
        .layer(from_fn(checkout::errors_as_pages))
        .layer(from_fn(middleware::request_id::identify))
        .with_state(gateway)
}
