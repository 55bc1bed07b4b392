//! The server under test, in this process (`server`) or as the real command (`process`), and a client
//! that speaks to it over a socket (`client`).

pub(crate) mod client;
pub(crate) mod process;
pub(crate) mod server;

pub(crate) use client::{Answer, Merchant, raw};
pub(crate) use process::Process;
