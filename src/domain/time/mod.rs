//! Time: a merchant's clock, the real time that it is shifted from, and time on the wire.

pub mod clock;
pub mod real_time;
pub mod rfc3339;
