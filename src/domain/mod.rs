//! The gateway's rules as pure code: what an order, a refund, a key or a fault is, and when each is refused. No SQL
//! and no I/O; of HTTP it knows what the contract says about statuses and headers. Time and randomness come in as
//! arguments or are named in a constructor.
//!
//! The rooms:
//! - [`payment`]: orders and refunds, their numbers, money, cards, and the buyer's page
//! - [`idempotency`]: the key, the fingerprint, and why a key does not fit
//! - [`webhook`]: events, where they are delivered, when, and how they are signed
//! - [`fault`]: what can go wrong on request, and the rules that ask for it
//! - [`journal`]: what a client did, and [`masking`], which says what is never kept of it
//! - [`audit`]: what a client did wrong
//! - [`json`]: reading JSON strictly, and what differs between two documents
//! - [`time`]: a merchant's clock, real time, and time on the wire
//! - [`fixtures`]: what a test starts from
//!
//! And what all of them share: [`api_key`], [`code`], [`id`], [`refusal`], [`stuck`], [`view`].

pub mod api_key;
pub mod audit;
pub mod code;
pub mod fault;
pub mod fixtures;
pub mod id;
pub mod idempotency;
pub mod journal;
pub mod json;
pub mod masking;
pub mod payment;
pub mod refusal;
pub mod stuck;
pub mod time;
pub mod view;
pub mod webhook;
