//! Money: amounts in minor units and the three currencies (contract, sections 1 and 2).

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::domain::code::Code;
use crate::domain::json::fields;

/// An amount in minor units (2990 is 29.90), from 1 to 9 999 999 999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Amount(i64);

impl Amount {
    /// The largest amount, in minor units.
    pub const MAX: i64 = 9_999_999_999;

    /// The amount in the test callback.
    pub const SAMPLE: Self = Self(2990);

    /// An amount from stored minor units; `None` outside the range.
    #[must_use]
    pub fn new(minor_units: i64) -> Option<Self> {
        (1..=Self::MAX).contains(&minor_units).then_some(Self(minor_units))
    }

    /// The amount in minor units.
    #[must_use]
    pub const fn minor_units(self) -> i64 {
        self.0
    }

    /// Reads an amount as a client sends it: a JSON integer, without decimal point or exponent.
    ///
    /// # Errors
    /// What is wrong with the value, and what to send instead.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let found = match value {
            Value::Number(number) => match number.as_i64() {
                Some(minor_units) => match Self::new(minor_units) {
                    Some(amount) => return Ok(amount),
                    None => format!("{minor_units} is out of range"),
                },
                None => format!("{number} is not an integer in that range"),
            },
            Value::String(_) => "a string was sent; send the number without quotes".to_owned(),
            other => format!("{} was sent", crate::domain::json::fields::kind_of(other)),
        };
        Err(format!(
            "must be an integer from 1 to {} in minor units (2990 for 29.90), without decimal point or exponent; {found}",
            Self::MAX
        ))
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A currency that orders can be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantArray, Serialize)]
#[strum(serialize_all = "UPPERCASE")]
#[serde(into = "&'static str")]
pub enum Currency {
    /// US dollar.
    Usd,
    /// Hong Kong dollar.
    Hkd,
    /// Renminbi.
    Cny,
}

impl Currency {
    /// Reads a currency as a client sends it.
    ///
    /// # Errors
    /// The codes that would be right.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        value.as_str().and_then(Self::from_code).ok_or_else(|| {
            let quoted: Vec<_> = Self::ALL.iter().map(|currency| format!("\"{currency}\"")).collect();
            format!("must be one of {}, in upper case", fields::listed(&quoted, "and"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_integers_in_range() {
        for (json, amount) in [("1", 1), ("2990", 2990), ("9999999999", Amount::MAX)] {
            let value = serde_json::from_str(json).unwrap();
            assert_eq!(Amount::from_json(&value), Ok(Amount(amount)), "{json}");
        }
        for json in [
            "29.9",
            "2990.0",
            "1e3",
            "\"2990\"",
            "-1",
            "0",
            "-0",
            "10000000000",
            "99999999999999999999",
            "true",
            "[1]",
        ] {
            let value = serde_json::from_str(json).unwrap();
            assert!(Amount::from_json(&value).is_err(), "{json}");
        }
    }
}
