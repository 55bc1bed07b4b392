//! The journal: what a merchant's client did under `/v1`, and what came of it (contract, section 7).

pub mod answer;
pub mod entry;
