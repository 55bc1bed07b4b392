//! Test cards: which numbers the sandbox accepts and what each one does (contract, section 5). A card number is
//! read here and goes no further: it becomes a [`TestCard`], and an order keeps a [`Card`], its brand and last four
//! digits.

use serde_json::Value;
use strum::{EnumString, IntoStaticStr, VariantArray};

/// What the order keeps of the card that paid it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// The network, in lower case.
    pub brand: String,
    /// The last four digits.
    pub last4: String,
}

/// A card number with a known behaviour, which no bank issues.
#[derive(Debug, PartialEq, Eq)]
pub struct TestCard {
    /// All digits.
    pub number: &'static str,
    /// The network, in lower case.
    pub brand: &'static str,
    /// The outcome of an attempt to pay with it.
    pub outcome: CardOutcome,
}

/// The outcome of an attempt to pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardOutcome {
    /// It pays.
    Paid,
    /// It is declined.
    Declined(Decline),
    /// The buyer is asked to authenticate (3-D Secure), which decides.
    Authentication,
}

/// Why an attempt to pay failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Decline {
    /// The bank does not say why.
    CardDeclined,
    /// There is not enough money on the account.
    InsufficientFunds,
    /// The card was reported lost.
    LostCard,
    /// The card was reported stolen.
    StolenCard,
    /// The card has expired.
    ExpiredCard,
    /// The check digits on its back are wrong.
    IncorrectCvc,
    /// Something went wrong at the bank.
    ProcessingError,
    /// The buyer did not authenticate.
    AuthenticationFailed,
}

impl Decline {
    /// What happened, for people.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::CardDeclined => "The card was declined.",
            Self::InsufficientFunds => "The card has insufficient funds.",
            Self::LostCard => "The card was declined, as it was reported lost.",
            Self::StolenCard => "The card was declined, as it was reported stolen.",
            Self::ExpiredCard => "The card has expired.",
            Self::IncorrectCvc => "The card's security code is incorrect.",
            Self::ProcessingError => "An error occurred while processing the card. Try again in a moment.",
            Self::AuthenticationFailed => "The buyer could not be authenticated (3-D Secure).",
        }
    }
}

/// How the refunds of an order proceed. The card that paid it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefundCourse {
    /// They succeed at once.
    Immediate,
    /// They are pending for a while, then succeed.
    SucceedsLater,
    /// They are pending for a while, then fail.
    FailsLater,
}

/// Every test card, in the order of the contract's table.
pub const TEST_CARDS: [TestCard; 15] = [
    test_card("4242424242424242", "visa", CardOutcome::Paid),
    test_card("5555555555554444", "mastercard", CardOutcome::Paid),
    test_card("378282246310005", "amex", CardOutcome::Paid),
    test_card("6200000000000005", "unionpay", CardOutcome::Paid),
    test_card("3566002020360505", "jcb", CardOutcome::Paid),
    test_card("4000000000000002", "visa", CardOutcome::Declined(Decline::CardDeclined)),
    test_card("4000000000009995", "visa", CardOutcome::Declined(Decline::InsufficientFunds)),
    test_card("4000000000009987", "visa", CardOutcome::Declined(Decline::LostCard)),
    test_card("4000000000009979", "visa", CardOutcome::Declined(Decline::StolenCard)),
    test_card("4000000000000069", "visa", CardOutcome::Declined(Decline::ExpiredCard)),
    test_card("4000000000000127", "visa", CardOutcome::Declined(Decline::IncorrectCvc)),
    test_card("4000000000000119", "visa", CardOutcome::Declined(Decline::ProcessingError)),
    test_card("4000002500003155", "visa", CardOutcome::Authentication),
    test_card("4000000000007726", "visa", CardOutcome::Paid),
    test_card("4000000000005126", "visa", CardOutcome::Paid),
];

const fn test_card(number: &'static str, brand: &'static str, outcome: CardOutcome) -> TestCard {
    TestCard { number, brand, outcome }
}

impl TestCard {
    /// The last four digits, which no two test cards of one network share.
    #[must_use]
    pub fn last4(&self) -> &'static str {
        &self.number[self.number.len() - 4..]
    }

    /// How refunds of orders paid with this card proceed.
    #[must_use]
    pub fn refund_course(&self) -> RefundCourse {
        match self.last4() {
            "7726" => RefundCourse::SucceedsLater,
            "5126" => RefundCourse::FailsLater,
            _ => RefundCourse::Immediate,
        }
    }

    /// What an order keeps of this card.
    #[must_use]
    pub fn kept(&self) -> Card {
        Card { brand: self.brand.to_owned(), last4: self.last4().to_owned() }
    }
}

impl Card {
    /// How refunds of orders paid with this card proceed.
    #[must_use]
    pub fn refund_course(&self) -> RefundCourse {
        let card = TEST_CARDS.iter().find(|card| (card.brand, card.last4()) == (&*self.brand, &*self.last4));
        card.map_or(RefundCourse::Immediate, TestCard::refund_course)
    }
}

/// Why a number cannot pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardError {
    /// Not 12 to 19 digits with a valid check digit.
    Invalid,
    /// It may be somebody's real card.
    NotATestCard,
}

/// Reads the number of a test card from JSON; spaces and hyphens between the digits do not matter.
///
/// # Errors
/// See [`CardError`]; no error quotes the number.
pub fn from_json(number: &Value) -> Result<&'static TestCard, CardError> {
    parse(number.as_str().ok_or(CardError::Invalid)?)
}

/// Reads the number of a test card; spaces and hyphens between the digits do not matter.
///
/// # Errors
/// See [`CardError`]; no error quotes the number.
pub fn parse(text: &str) -> Result<&'static TestCard, CardError> {
    let digits: String = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    if !(12..=19).contains(&digits.len()) || !passes_luhn(&digits) {
        return Err(CardError::Invalid);
    }
    TEST_CARDS.iter().find(|card| card.number == digits).ok_or(CardError::NotATestCard)
}

/// Whether the last digit is a valid check digit.
pub(in crate::domain) fn passes_luhn(digits: &str) -> bool {
    let mut sum = 0;
    for (place, digit) in digits.bytes().rev().enumerate() {
        if !digit.is_ascii_digit() {
            return false;
        }
        let digit = u32::from(digit - b'0');
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
        let last4 = |text: &str| parse(text).map(TestCard::last4);
        assert_eq!(last4("4242 4242-42424242"), Ok("4242"));
        assert_eq!(last4("4242424242424241"), Err(CardError::Invalid));
        assert_eq!(last4("4111111111111111"), Err(CardError::NotATestCard));
        for bad in ["", "4242", "4242424242424242 x", "４２４２４２４２４２４２４２４２"] {
            assert_eq!(last4(bad), Err(CardError::Invalid), "{bad}");
        }
        assert_eq!(from_json(&Value::from(4_242_424_242_424_242_u64)), Err(CardError::Invalid));
    }

    #[test]
    fn every_test_card_can_be_typed_and_told_by_its_last_digits() {
        let mut last: Vec<_> = TEST_CARDS.iter().map(|card| (card.brand, card.last4())).collect();
        last.sort_unstable();
        last.dedup();
        assert_eq!(last.len(), TEST_CARDS.len());
        for card in &TEST_CARDS {
            assert_eq!(parse(card.number), Ok(card));
            assert_eq!(card.kept().refund_course(), card.refund_course());
        }
    }
}
