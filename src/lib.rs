//! The KukoPay payment gateway as a sandbox. Use runs one way only, from right to left:
//!
//! `domain` ← `db` ← `service` ← {`http`, `worker`} ← `app` ← `main`
//!
//! - [`domain`]: the gateway's rules, as pure code
//! - [`db`]: the pool, and all SQL, one file per table
//! - [`service`]: the use cases and their transactions
//! - `http`: the edge, from a request to a use case and back
//! - `worker`: what happens without a request
//! - [`config`]: the command line; only `app` and `main` read it
//! - [`app`]: wiring, start and stop; [`banner`]: what start-up prints
//! - [`fixture_files`]: the files that `serve --fixtures` loads
//! - [`healthcheck`]: asks a running sandbox whether it is ready
//! - [`signature_command`]: signs and verifies a webhook by hand
//! - [`audit_command`]: asks it whether a client is safe to retry

pub mod app;
pub mod audit_command;
pub mod banner;
pub mod config;
pub mod db;
pub mod domain;
pub mod fixture_files;
pub mod healthcheck;
mod http;
pub mod service;
pub mod signature_command;
mod worker;
