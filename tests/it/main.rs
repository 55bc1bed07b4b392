//! The whole suite as one binary: it shares one process, one database and one server, and each test has
//! an API key of its own. The database is embedded, or the server that `DATABASE_URL` names.
//!
//! One file per resource or promise; `support` holds the server under test and the client.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "what is not as expected fails the test"
)]

mod support;

mod audit;
mod audit_command;
mod browser;
mod checkout;
mod checkout_safety;
mod clock;
mod errors;
mod fault_rules;
mod faults;
mod fixtures;
mod hang_up;
mod healthcheck;
mod idempotency;
mod journal;
mod kill;
mod lists;
mod order_fields;
mod orders;
mod payments;
mod races;
mod readme;
mod receivers;
mod refunds;
mod reset;
mod schema;
mod settings;
mod signature_command;
mod webhook_failures;
mod webhook_faults;
mod webhooks;
