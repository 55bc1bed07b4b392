//! `/sandbox/…`: what only the sandbox has (contract, section 7). Never under faults, and without
//! Idempotency-Key.

pub(super) mod audit;
pub(super) mod clock;
pub(super) mod events;
pub(super) mod faults;
pub(super) mod fixtures;
pub(super) mod orders;
pub(super) mod requests;
pub(super) mod reset;
pub(super) mod webhook;
