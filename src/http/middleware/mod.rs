//! What happens around every call, from the outside in: its id and its line in the log, the methods that no route
//! has, the fault that strikes it and its entry in the journal, and the gate that is closed until the tables are up
//! to date.

pub(super) mod faults;
mod journal;
pub(super) mod methods;
pub(super) mod readiness;
pub(super) mod request_id;
