//! The KukoPay payment gateway as a sandbox. Imports run one way; each module may use those to its left:
//!
//! `domain` ← `db` ← `service` ← {`http`, `worker`} ← `app` ← `cli` ← `main`
//!
//! - [`domain`]: the gateway's rules, as pure code
//! - [`db`]: the pool, and all SQL, one file per table
//! - [`service`]: the use cases and their transactions
//! - `http`: the edge, from a request to a use case and back
//! - `worker`: what happens without a request
//! - [`config`]: the settings, and [`fixture_files`], the files that `--fixtures` loads; only `app` and `cli` know them
//! - [`app`]: wiring, start and stop
//! - [`cli`]: the command line and its subcommands

pub mod app;
pub mod cli;
pub mod config;
pub mod db;
pub mod domain;
pub mod fixture_files;
mod http;
pub mod service;
mod worker;
