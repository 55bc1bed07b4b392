//! The checkout page's rules: where an order stands for its buyer, what a card form must hold, and where
//! the buyer goes after paying (contract, section 5). How the page looks is left to `http`.

use time::{Duration, OffsetDateTime};
use url::Url;

use super::card::{self, CardError, TestCard};
use super::order::{Order, OrderStatus};

/// Where an order stands for its buyer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckoutState {
    /// It can be paid, for so long.
    Payable(Duration),
    /// It is paid, and not all of it refunded.
    Paid,
    /// All of it has been refunded.
    Refunded,
    /// The merchant has closed it.
    Closed,
    /// Its time is over, whether or not that has been written down yet.
    Expired,
}

impl CheckoutState {
    /// Where an order stands at `now`, in its merchant's time.
    #[must_use]
    pub fn of(order: &Order, now: OffsetDateTime) -> Self {
        match order.status {
            OrderStatus::Pending if now < order.expires_at => Self::Payable(order.expires_at - now),
            OrderStatus::Pending => Self::Expired,
            OrderStatus::Paid => Self::Paid,
            OrderStatus::Refunded => Self::Refunded,
            OrderStatus::Closed if order.closed_at.is_some_and(|at| at >= order.expires_at) => Self::Expired,
            OrderStatus::Closed => Self::Closed,
        }
    }
}

/// Where the buyer goes after paying: the merchant's `return_url` with both numbers appended to its
/// query. No status, since a redirect proves nothing.
#[must_use]
pub fn return_address(order: &Order) -> Option<Url> {
    let mut url = Url::parse(order.content.return_url.as_deref()?).ok()?;
    url.query_pairs_mut()
        .append_pair("out_trade_no", order.content.out_trade_no.as_str())
        .append_pair("trade_no", &order.trade_no.to_string());
    Some(url)
}

/// What is wrong with a field of the card form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardFieldError {
    /// Nothing was entered.
    Missing,
    /// It is mistyped.
    Invalid,
    /// The number may be a real card's.
    NotATestCard,
    /// The card's time is over.
    Past,
}

impl CardFieldError {
    const ALL: [Self; 4] = [Self::Missing, Self::Invalid, Self::NotATestCard, Self::Past];

    /// The error's name in an address.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Invalid => "invalid",
            Self::NotATestCard => "test_card_required",
            Self::Past => "past",
        }
    }

    /// The error of a name.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|error| error.code() == code)
    }
}

/// What is wrong with a card form, field by field. It tells nothing of what was entered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CardFormErrors {
    /// With the number.
    pub number: Option<CardFieldError>,
    /// With the month of expiry.
    pub expiry: Option<CardFieldError>,
    /// With the check digits.
    pub cvc: Option<CardFieldError>,
}

/// Reads a card form.
///
/// # Errors
/// All that is wrong with it.
pub fn read_card_form(
    number: &str,
    expiry: &str,
    cvc: &str,
    now: OffsetDateTime,
) -> Result<&'static TestCard, CardFormErrors> {
    let card = present(number).and_then(|text| {
        card::parse(text).map_err(|error| match error {
            CardError::Invalid => CardFieldError::Invalid,
            CardError::NotATestCard => CardFieldError::NotATestCard,
        })
    });
    let expiry = present(expiry).and_then(|text| read_expiry(text, now)).err();
    let is_cvc = |text: &str| matches!(text.len(), 3 | 4) && text.bytes().all(|byte| byte.is_ascii_digit());
    let cvc =
        present(cvc).and_then(|text| if is_cvc(text) { Ok(()) } else { Err(CardFieldError::Invalid) }).err();
    match card {
        Ok(card) if expiry.is_none() && cvc.is_none() => Ok(card),
        card => Err(CardFormErrors { number: card.err(), expiry, cvc }),
    }
}

fn present(text: &str) -> Result<&str, CardFieldError> {
    Some(text.trim()).filter(|text| !text.is_empty()).ok_or(CardFieldError::Missing)
}

/// Reads a month as `MM/YY`, `MM/YYYY`, or the digits alone. A card is good until the month is over.
fn read_expiry(text: &str, now: OffsetDateTime) -> Result<(), CardFieldError> {
    let digits: String = text.chars().filter(|c| !matches!(c, ' ' | '/' | '-')).collect();
    let clean = matches!(digits.len(), 4 | 6) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let (month, year) = digits.split_at_checked(2).filter(|_| clean).ok_or(CardFieldError::Invalid)?;
    let month: u8 = month.parse().map_err(|_| CardFieldError::Invalid)?;
    let mut year: i32 = year.parse().map_err(|_| CardFieldError::Invalid)?;
    if digits.len() == 4 {
        year += now.year() / 100 * 100;
    }
    match month {
        1..=12 if (year, month) >= (now.year(), now.month().into()) => Ok(()),
        1..=12 => Err(CardFieldError::Past),
        _ => Err(CardFieldError::Invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    const NOW: OffsetDateTime = datetime!(2026-11-04 08:30 UTC);

    #[test]
    fn a_card_is_good_until_its_month_is_over() {
        for good in ["11/26", "1126", "11 / 26", "12/26", "01/27", "11/2026", "12-99"] {
            assert_eq!(read_expiry(good, NOW), Ok(()), "{good}");
        }
        for past in ["10/26", "12/25", "10/2026"] {
            assert_eq!(read_expiry(past, NOW), Err(CardFieldError::Past), "{past}");
        }
        for bad in ["13/26", "00/27", "1/27", "11/027", "aa/bb", "１１/26", "11/26/1", "é1/2"] {
            assert_eq!(read_expiry(bad, NOW), Err(CardFieldError::Invalid), "{bad}");
        }
    }

    #[test]
    fn every_bad_field_is_named_at_once() {
        use CardFieldError::{Invalid, Missing, NotATestCard, Past};
        let errors = |number, expiry, cvc| read_card_form(number, expiry, cvc, NOW).unwrap_err();
        let named = |number, expiry, cvc| CardFormErrors { number, expiry, cvc };
        assert_eq!(errors("", " ", ""), named(Some(Missing), Some(Missing), Some(Missing)));
        assert_eq!(errors("4242", "10/26", "12"), named(Some(Invalid), Some(Past), Some(Invalid)));
        assert_eq!(errors("4111 1111 1111 1111", "12/30", "123"), named(Some(NotATestCard), None, None));
        assert_eq!(errors("4242 4242 4242 4242", "12/30", "12a"), named(None, None, Some(Invalid)));
        assert!(read_card_form(" 4242 4242 4242 4242 ", "12/30", "1234", NOW).is_ok());
    }
}
