//! JSON: reading it strictly, reading the fields of an object, and telling what differs between two documents.

pub mod diff;
pub mod fields;
pub mod strict;
