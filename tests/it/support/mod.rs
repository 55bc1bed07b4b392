//! The server under test, in this process (`server`) or as the real command (`process`), a client that
//! speaks to it over a socket (`client`), and a receiver of what it sends (`receiver`).

pub(crate) mod browser;
pub(crate) mod client;
pub(crate) mod process;
pub(crate) mod receiver;
pub(crate) mod server;

pub(crate) use client::{Answer, Merchant, raw};
pub(crate) use process::Process;
