//! The rules of the checkout page: the state of an order for its buyer, what a card form must hold, and where the
//! buyer goes after paying (contract, section 5). How the page looks is left to `http`.

use strum::{EnumString, IntoStaticStr, VariantArray};
use time::{Duration, OffsetDateTime};
use url::Url;

use crate::domain::payment::card::{self, CardError, TestCard};
use crate::domain::payment::order::{Order, OrderStatus};
use crate::domain::refusal::Refusal;

/// The state of an order for its buyer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckoutState {
    /// It can be paid, for this long.
    Payable(Duration),
    /// It is paid, and not all of it refunded.
    Paid,
    /// All of it has been refunded.
    Refunded,
    /// The merchant has closed it.
    Closed,
    /// It has expired, even if it has not been closed yet.
    Expired,
}

impl CheckoutState {
    /// The state of an order at `now`, in its merchant's time.
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

    /// Why it cannot be paid now; `None` if it can. The page and the API obey the same rule.
    #[must_use]
    pub const fn why_not_payable(self) -> Option<Refusal> {
        match self {
            Self::Payable(_) => None,
            Self::Paid | Self::Refunded => Some(Refusal::OrderAlreadyPaid),
            Self::Closed | Self::Expired => Some(Refusal::OrderClosed),
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum CardFieldError {
    /// Nothing was entered.
    Missing,
    /// It is mistyped.
    Invalid,
    /// The number may be a real card's.
    #[strum(serialize = "test_card_required")]
    NotATestCard,
    /// The card has expired.
    Past,
}

/// The errors of a card form, field by field. They do not quote what was entered.
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
    use crate::domain::id::MerchantId;
    use time::macros::datetime;
    use uuid::Uuid;

    const NOW: OffsetDateTime = datetime!(2026-11-04 08:30 UTC);

    #[test]
    fn an_order_can_be_paid_while_it_is_pending_and_its_time_is_not_over() {
        let order = Order::sample(MerchantId::from_uuid(Uuid::nil()), NOW);
        let end = order.expires_at;
        let state = |status, now| CheckoutState::of(&Order { status, ..order.clone() }, now);
        let last = state(OrderStatus::Pending, end - Duration::MILLISECOND);
        assert_eq!(last, CheckoutState::Payable(Duration::MILLISECOND));
        assert!(last.why_not_payable().is_none());
        assert!(matches!(state(OrderStatus::Pending, end).why_not_payable(), Some(Refusal::OrderClosed)));
        assert!(matches!(state(OrderStatus::Closed, NOW).why_not_payable(), Some(Refusal::OrderClosed)));
        for status in [OrderStatus::Paid, OrderStatus::Refunded] {
            assert!(matches!(state(status, NOW).why_not_payable(), Some(Refusal::OrderAlreadyPaid)));
        }
    }

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
