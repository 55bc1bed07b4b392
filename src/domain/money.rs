//! Money: amounts in minor units and the three currencies (contract, sections 1 and 2).

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

/// An amount in minor units (2990 is 29.90), from 1 to 9 999 999 999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Amount(i64);

impl Amount {
    /// The largest amount, in minor units.
    pub const MAX: i64 = 9_999_999_999;

    /// The amount that the test callback tells of.
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
            other => format!("{} was sent", super::fields::kind_of(other)),
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Currency {
    /// US dollar.
    Usd,
    /// Hong Kong dollar.
    Hkd,
    /// Renminbi.
    Cny,
}

impl Currency {
    const ALL: [Self; 3] = [Self::Usd, Self::Hkd, Self::Cny];

    /// The code as it stands on the wire and in the database.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Usd => "USD",
            Self::Hkd => "HKD",
            Self::Cny => "CNY",
        }
    }

    /// The currency of a code; upper case only.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|currency| currency.code() == code)
    }

    /// Reads a currency as a client sends it.
    ///
    /// # Errors
    /// The codes that would be right.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        value
            .as_str()
            .and_then(Self::from_code)
            .ok_or_else(|| "must be one of \"USD\", \"HKD\" and \"CNY\", in upper case".to_owned())
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
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
