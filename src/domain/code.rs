//! Codes: enums whose values have a name on the wire, in JSON and in the database. The enum declares its names once,
//! by the derives of `strum`:
//!
//! ```ignore
//! #[derive(Clone, Copy, EnumString, IntoStaticStr, VariantArray, Serialize)]
//! #[strum(serialize_all = "snake_case")]
//! #[serde(into = "&'static str")]
//! ```
//!
//! `json::fields::code` reads a client's value, and has the message for a wrong one.

use std::str::FromStr;

use strum::VariantArray;

/// An enum whose values have names.
pub trait Code: VariantArray + Copy + FromStr + Into<&'static str> {
    /// Every value, in the order of declaration.
    const ALL: &'static [Self] = Self::VARIANTS;

    /// Every name, in the same order.
    #[must_use]
    fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|value| value.code()).collect()
    }

    /// The value's name.
    #[must_use]
    fn code(self) -> &'static str {
        self.into()
    }

    /// The value with this name. Case counts.
    #[must_use]
    fn from_code(code: &str) -> Option<Self> {
        code.parse().ok()
    }
}

impl<T: VariantArray + Copy + FromStr + Into<&'static str>> Code for T {}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;
    use crate::domain::journal::entry::Outcome;
    use crate::domain::payment::card::Decline;
    use crate::domain::payment::checkout::CardFieldError;
    use crate::domain::payment::money::Currency;
    use crate::domain::payment::order::{Locale, OrderStatus};
    use crate::domain::payment::refund::RefundStatus;
    use crate::domain::stuck::StuckKind;
    use crate::domain::webhook::delivery::EventStatus;
    use crate::domain::webhook::event::EventType;

    fn expect_names<T: Code + PartialEq + Debug>(names: &str) {
        assert_eq!(T::names().join(" "), names);
        for value in T::ALL {
            assert_eq!(T::from_code(value.code()), Some(*value));
            assert_eq!(T::from_code(&format!("{} ", value.code())), None);
        }
    }

    #[test]
    fn names_are_those_that_are_on_the_wire_and_in_the_database() {
        expect_names::<OrderStatus>("pending paid refunded closed");
        expect_names::<RefundStatus>("pending succeeded failed");
        expect_names::<EventStatus>("pending delivered failed no_url");
        expect_names::<Outcome>("executed replayed refused in_progress error");
        expect_names::<StuckKind>("order refund event");
        expect_names::<Locale>("zh en");
        expect_names::<Currency>("USD HKD CNY");
        expect_names::<CardFieldError>("missing invalid test_card_required past");
        expect_names::<EventType>(
            "payment.succeeded payment.failed order.closed refund.succeeded refund.failed",
        );
        expect_names::<Decline>(
            "card_declined insufficient_funds lost_card stolen_card expired_card incorrect_cvc \
             processing_error authentication_failed",
        );
    }
}
