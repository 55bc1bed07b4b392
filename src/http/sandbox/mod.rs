//! `/sandbox/…`: what only the sandbox has (contract, section 7). Never under faults, and without
//! Idempotency-Key.

mod audit;
mod clock;
mod events;
mod faults;
mod fixtures;
mod orders;
mod requests;
mod reset;
mod stuck;
mod webhook;

use axum::Router;
use axum::routing::{get, post};

use super::Shared;

/// The routes under `/sandbox`.
pub(super) fn router() -> Router<Shared> {
    Router::new()
        .route("/sandbox/audit", get(audit::show))
        .route("/sandbox/clock", get(clock::show).put(clock::set))
        .route("/sandbox/clock/advance", post(clock::advance))
        .route("/sandbox/faults", get(faults::list).post(faults::create).delete(faults::delete_all))
        .route("/sandbox/faults/{id}", get(faults::show).delete(faults::delete))
        .route("/sandbox/requests", get(requests::list))
        .route("/sandbox/requests/{id}", get(requests::show))
        .route("/sandbox/events", get(events::list))
        .route("/sandbox/events/{id}", get(events::show))
        .route("/sandbox/events/{id}/redeliver", post(events::redeliver))
        .route("/sandbox/fixtures", post(fixtures::load))
        .route("/sandbox/orders/{no}/pay", post(orders::pay))
        .route("/sandbox/reset", post(reset::reset))
        .route("/sandbox/stuck", get(stuck::list))
        .route("/sandbox/webhook", get(webhook::show).put(webhook::change))
        .route("/sandbox/webhook/rotate", post(webhook::rotate))
        .route("/sandbox/webhook/test", post(webhook::test))
}
