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

mod architecture;
mod audit;
mod audit_command;
mod audit_lost_calls;
mod audit_reach;
mod browser;
mod checkout;
mod checkout_safety;
mod clock;
mod combining;
mod due;
#[cfg(feature = "embedded")]
mod embedded;
mod endpoints;
mod errors;
mod fault_rules;
mod faults;
mod fixtures;
mod hang_up;
mod healthcheck;
mod idempotency;
mod instances;
mod journal;
mod journal_entries;
mod kill;
mod lists;
mod order_fields;
mod orders;
mod payments;
mod plans;
mod races;
mod readme;
mod receivers;
mod refunds;
mod reset;
mod schema;
mod settings;
mod signature_command;
mod storage;
#[cfg(unix)]
mod storage_server;
mod webhook_failures;
mod webhook_faults;
mod webhook_queues;
mod webhooks;
