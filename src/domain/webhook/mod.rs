//! Webhooks: events, where and when they are delivered, and how they are signed (contract, section 6).

pub mod delivery;
pub mod event;
pub mod schedule;
pub mod settings;
pub mod signature;
pub mod web_url;
