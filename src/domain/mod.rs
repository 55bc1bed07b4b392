//! The gateway's rules as pure code: what an order, a refund, a key or a fault is, and when each is
//! refused. Nothing here knows HTTP, SQL or the clock of the machine; time and randomness come in
//! as arguments or are named in a constructor.

pub mod api_key;
pub mod audit;
pub mod card;
pub mod checkout;
pub mod checkout_token;
pub mod clock;
pub mod delivery;
pub mod event;
pub mod fault;
pub mod fault_rule;
pub mod fields;
pub mod fixtures;
pub mod id;
pub mod idempotency;
pub mod journal;
pub mod json_diff;
pub mod masking;
pub mod money;
pub mod number;
pub mod occasion;
pub mod order;
pub mod refund;
pub mod refusal;
pub mod schedule;
pub mod signature;
pub mod strict_json;
pub mod time;
pub mod view;
pub mod web_url;
pub mod webhook;
