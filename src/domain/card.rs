//! Test cards: which numbers the sandbox takes and what they do (contract, section 5). A card number
//! is read here and goes no further: what leaves is its brand and last four digits.

use serde_json::Value;

/// What the order keeps of the card that paid it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// The network, in lower case.
    pub brand: String,
    /// The last four digits.
    pub last4: String,
}

/// Why a number cannot pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardError {
    /// Not 12 to 19 digits with a right check digit.
    Invalid,
    /// It may be somebody's real card.
    NotATestCard,
}

/// Reads the number of a test card; spaces and hyphens between the digits do not matter.
///
/// # Errors
/// See [`CardError`]; neither tells the number.
pub fn parse(number: &Value) -> Result<Card, CardError> {
    let text = number.as_str().ok_or(CardError::Invalid)?;
    let digits: String = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    if !(12..=19).contains(&digits.len()) || !passes_luhn(&digits) {
        return Err(CardError::Invalid);
    }
    match digits.as_str() {
        "4242424242424242" => Ok(Card { brand: "visa".to_owned(), last4: digits[12..].to_owned() }),
        _ => Err(CardError::NotATestCard),
    }
}

fn passes_luhn(digits: &str) -> bool {
    let mut sum = 0;
    for (place, digit) in digits.chars().rev().enumerate() {
        let Some(digit) = digit.to_digit(10) else { return false };
        let doubled = if place % 2 == 1 { digit * 2 } else { digit };
        sum += if doubled > 9 { doubled - 9 } else { doubled };
    }
    sum % 10 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_cards_pay() {
        let read = |text: &str| parse(&Value::from(text));
        assert_eq!(read("4242 4242-42424242").map(|card| card.last4), Ok("4242".to_owned()));
        assert_eq!(read("4242424242424241"), Err(CardError::Invalid));
        assert_eq!(read("4111111111111111"), Err(CardError::NotATestCard));
        for bad in ["", "4242", "4242424242424242 x", "４２４２４２４２４２４２４２４２"] {
            assert_eq!(read(bad), Err(CardError::Invalid), "{bad}");
        }
        assert_eq!(parse(&Value::from(4_242_424_242_424_242_u64)), Err(CardError::Invalid));
    }
}
