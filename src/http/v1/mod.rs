//! `/v1/…`: the gateway's own API (contract, sections 2 and 3).

mod orders;
mod refunds;

use axum::Router;
use axum::routing::{get, post};

use super::Shared;

/// The routes under `/v1`.
pub(super) fn router() -> Router<Shared> {
    Router::new()
        .route("/v1/orders", get(orders::list).post(orders::create))
        .route("/v1/orders/{no}", get(orders::show))
        .route("/v1/orders/{no}/close", post(orders::close))
        .route("/v1/refunds", get(refunds::list).post(refunds::create))
        .route("/v1/refunds/{no}", get(refunds::show))
}
