//! The merchant's own numbers, `out_trade_no` and `out_refund_no`: 1 to 64 of `[A-Za-z0-9_.-]`
//! (contract, section 2). The gateway's numbers are in `id`.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

const MAX_LENGTH: usize = 64;

/// A number that the merchant chose; unique per merchant and kind for ever.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct MerchantNumber(String);

impl MerchantNumber {
    /// The number in a text, if it has the form of one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        let fits = (1..=MAX_LENGTH).contains(&text.len()) && text.bytes().all(allowed);
        fits.then(|| Self(text.to_owned()))
    }

    /// The number of the order in the test callback, which does not exist.
    #[must_use]
    pub fn sample() -> Self {
        Self("TEST_CALLBACK".to_owned())
    }

    /// Reads a number as a client sends it.
    ///
    /// # Errors
    /// The form that would be right.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        value.as_str().and_then(Self::new).ok_or_else(|| {
            format!("must be a string of 1 to {MAX_LENGTH} characters out of A-Z a-z 0-9 _ . -")
        })
    }

    /// The number as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MerchantNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
