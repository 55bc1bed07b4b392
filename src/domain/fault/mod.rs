//! Faults: what can go wrong on request with one call or one delivery (contract, section 7). Deciding when a fault
//! strikes is left to the service.
//!
//! - [`call`]: the kinds of faults of calls, and the effect of each
//! - [`delivery`]: the kinds of faults of deliveries, and the effect of each
//! - [`kind`]: how a kind and its options become a fault
//! - [`options`]: the options, and their ranges
//! - [`header`]: how one call asks for a fault
//! - [`rule`]: how later calls and deliveries are asked to fail, and [`matcher`], which of them
//! - [`occasion`]: what a matcher looks at
//!
//! A kind is one row of a table. The code that runs a call or an attempt knows only effects.

pub mod call;
pub mod delivery;
pub mod header;
pub mod kind;
pub mod matcher;
pub mod occasion;
pub mod options;
pub mod rule;

use self::call::CallFault;
use self::delivery::DeliveryFault;
use self::options::FaultOptions;
use crate::domain::json::fields::{self, FieldError};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// With a call under `/v1`.
    Call(CallFault),
    /// With a delivery of an event.
    Delivery(DeliveryFault),
}

impl Fault {
    /// The fault of a kind and its options. An option that its kind does not have is an error, and so is
    /// one out of its range.
    ///
    /// # Errors
    /// The fields that are wrong.
    pub fn new(kind: &str, options: FaultOptions) -> Result<Self, Vec<FieldError>> {
        if let Some(kind) = kind::find(call::KINDS, kind) {
            return kind.with(options).map(Self::Call);
        }
        if let Some(kind) = kind::find(delivery::KINDS, kind) {
            return kind.with(options).map(Self::Delivery);
        }
        let known: Vec<_> = kind::names(call::KINDS).chain(kind::names(delivery::KINDS)).collect();
        Err(vec![FieldError::invalid("kind", &fields::one_of(&known))])
    }

    /// The kind's name on the wire and in the database.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Call(fault) => fault.kind(),
            Self::Delivery(fault) => fault.kind(),
        }
    }

    /// The options, with the defaults filled in.
    #[must_use]
    pub const fn options(self) -> FaultOptions {
        match self {
            Self::Call(fault) => fault.options(),
            Self::Delivery(fault) => fault.options(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_kind() -> impl Iterator<Item = (&'static str, FaultOptions)> {
        let of_calls = call::KINDS.iter().map(|kind| (kind.name, kind.example()));
        of_calls.chain(delivery::KINDS.iter().map(|kind| (kind.name, kind.example())))
    }

    #[test]
    fn a_fault_is_made_from_what_it_tells_of_itself() {
        for (kind, options) in every_kind() {
            let fault = Fault::new(kind, options).unwrap();
            assert_eq!(fault.kind(), kind);
            assert_eq!(Fault::new(kind, fault.options()), Ok(fault));
        }
    }

    #[test]
    fn every_kind_has_a_name_of_its_own_and_stands_in_the_documentation() {
        let names: Vec<_> = every_kind().map(|(kind, _)| kind).collect();
        for (n, name) in names.iter().enumerate() {
            assert!(!names[..n].contains(name), "{name} is there twice");
            for page in
                [include_str!("../../../docs/api.md"), include_str!("../../../docs/faults-and-journal.md")]
            {
                let is_named = ["`", ";"].iter().any(|end| page.contains(&format!("`{name}{end}")));
                assert!(is_named, "{name} is in neither table of docs/api.md or docs/faults-and-journal.md");
            }
        }
    }

    #[test]
    fn what_is_wrong_with_the_options_is_told() {
        let told = |kind, options| {
            let errors = Fault::new(kind, options).unwrap_err();
            errors.into_iter().map(|error| error.message).collect::<Vec<_>>()
        };
        let none = FaultOptions::default();
        assert_eq!(told("latency", none), ["delay_ms must be an integer from 0 to 60000."]);
        let both = FaultOptions { status: Some(200), retry_after: Some(1), ..none };
        assert_eq!(
            told("error_after", both),
            ["status must be an integer from 500 to 504.", "retry_after is no option of error_after."]
        );
        let names: Vec<_> = every_kind().map(|(kind, _)| kind).collect();
        assert_eq!(told("crash", none), [format!("kind must be one of {}.", names.join(", "))]);
    }
}
