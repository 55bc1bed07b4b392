//! The token in the address of a checkout page: the merchant, the order and the order's secret. Anybody who has it
//! may see the order and pay it; it cannot be guessed.

use std::fmt;
use std::str::FromStr;

use rand::distr::{Alphanumeric, SampleString};
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::domain::id::{MerchantId, NotAnId, TradeNo};
use crate::domain::payment::order::Order;

const ID_LENGTH: usize = 32;
/// 32 letters and digits carry 190 bits.
const SECRET_LENGTH: usize = 32;

/// A new secret for an order.
#[must_use]
pub fn generate_secret() -> String {
    Alphanumeric.sample_string(&mut rand::rng(), SECRET_LENGTH)
}

/// The token of an order: both numbers as 32 hex digits, then the secret. It has no `Debug`, since it
/// opens the page.
#[derive(Clone)]
pub struct CheckoutToken {
    /// Whose order it is.
    pub merchant: MerchantId,
    /// Which order it is.
    pub trade_no: TradeNo,
    secret: String,
}

impl CheckoutToken {
    /// The token that opens an order's page.
    #[must_use]
    pub fn of(order: &Order) -> Self {
        let secret = order.checkout_secret.clone();
        Self { merchant: order.merchant, trade_no: order.trade_no, secret }
    }

    /// Whether this token opens an order's page. The comparison takes the same time for every secret.
    #[must_use]
    pub fn opens(&self, order: &Order) -> bool {
        let same_secret: bool = self.secret.as_bytes().ct_eq(order.checkout_secret.as_bytes()).into();
        self.merchant == order.merchant && self.trade_no == order.trade_no && same_secret
    }
}

impl fmt::Display for CheckoutToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { merchant, trade_no, secret } = self;
        write!(f, "{}{}{secret}", merchant.uuid().simple(), trade_no.uuid().simple())
    }
}

impl FromStr for CheckoutToken {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let (merchant, rest) = text.split_at_checked(ID_LENGTH).ok_or(NotAnId)?;
        let (trade_no, secret) = rest.split_at_checked(ID_LENGTH).ok_or(NotAnId)?;
        if secret.len() != SECRET_LENGTH || !secret.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(NotAnId);
        }
        Ok(Self {
            merchant: MerchantId::from_uuid(uuid(merchant)?),
            trade_no: TradeNo::from_uuid(uuid(trade_no)?),
            secret: secret.to_owned(),
        })
    }
}

/// Reads 32 lower-case hex digits; the parser would take other spellings too.
fn uuid(hex: &str) -> Result<Uuid, NotAnId> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if hex.bytes().all(is_hex) { Uuid::try_parse(hex).map_err(|_| NotAnId) } else { Err(NotAnId) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> CheckoutToken {
        let merchant = MerchantId::from_uuid(Uuid::new_v4());
        CheckoutToken { merchant, trade_no: TradeNo::generate(), secret: generate_secret() }
    }

    #[test]
    fn a_token_reads_back_only_in_its_own_exact_form() {
        let text = token().to_string();
        assert_eq!(text.len(), 96);
        assert_eq!(text.parse::<CheckoutToken>().map(|token| token.to_string()), Ok(text.clone()));
        let cut = text[..95].to_owned();
        let umlaut = format!("{}ä", &text[..94]);
        let split = format!("{}ä{}", &text[..31], &text[33..]);
        for bad in ["", &cut, &format!("{text}0"), &umlaut, &split, &text.to_uppercase(), &format!("{cut}-")]
        {
            assert!(bad.parse::<CheckoutToken>().is_err(), "{bad}");
        }
    }
}
