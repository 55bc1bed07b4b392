//! The server under test, in this process (`server`) or as the real command (`process`), a client that
//! speaks to it over a socket (`client`), a receiver of what it sends (`receiver`), the comparison of JSON
//! (`expect`), the routes as the router names them (`routes`), the documentation (`pages`), and waiting (`wait`).

pub(crate) mod browser;
pub(crate) mod client;
pub(crate) mod expect;
pub(crate) mod pages;
pub(crate) mod process;
pub(crate) mod receiver;
pub(crate) mod routes;
pub(crate) mod server;
pub(crate) mod wait;

pub(crate) use client::{Answer, Merchant, raw};
pub(crate) use expect::expect_fields;
pub(crate) use process::Process;
pub(crate) use wait::{wait_for, wait_while};
