//! The checkout pages as templates. The headers that each one carries are in `pages`.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use time::macros::format_description;
use time::{Duration, OffsetDateTime};
use url::Url;

use super::form::CardForm;
use super::texts::{self, Outcome, Texts};
use crate::domain::payment::card::{CardOutcome, RefundCourse, TEST_CARDS, TestCard};
use crate::domain::payment::checkout::{self, CheckoutState};
use crate::domain::payment::checkout_token::CheckoutToken;
use crate::domain::payment::money::Currency;
use crate::http::pages::{assets, html};
use crate::service::checkout::Checkout;

/// The page on which a buyer pays.
#[derive(Template)]
#[template(path = "checkout/pay.html")]
pub(super) struct Pay<'a> {
    pub(super) texts: &'static Texts,
    root: &'static str,
    version: &'static str,
    token: CheckoutToken,
    order: Summary<'a>,
    failure: Option<&'a str>,
    form: CardForm,
    groups: Vec<CardGroup>,
}

/// The page on which a buyer authenticates.
#[derive(Template)]
#[template(path = "checkout/challenge.html")]
pub(super) struct Challenge<'a> {
    texts: &'static Texts,
    root: &'static str,
    version: &'static str,
    token: CheckoutToken,
    order: Summary<'a>,
    card: String,
    card_name: String,
}

/// A page that shows an outcome.
#[derive(Template)]
#[template(path = "checkout/outcome.html")]
struct OutcomePage<'a> {
    texts: &'static Texts,
    root: &'a str,
    version: &'static str,
    outcome: Outcome,
    mood: &'static str,
    shop: Option<Url>,
    order: Option<Summary<'a>>,
}

/// The order as it is shown beside the form.
struct Summary<'a> {
    subject: &'a str,
    amount: String,
    out_trade_no: &'a str,
    left: Option<TimeLeft>,
    card: Option<String>,
    refunded: Option<String>,
    trade_no: Option<String>,
}

/// How long an order can be paid.
struct TimeLeft {
    until: String,
    until_text: String,
    seconds: i64,
    /// Whether the merchant's time stands still.
    frozen: bool,
}

/// Test cards that behave alike.
struct CardGroup {
    heading: &'static str,
    cards: Vec<ListedCard>,
}

/// A test card as the page lists it.
struct ListedCard {
    name: String,
    number: String,
    expiry: String,
    cvc: &'static str,
    brand: &'static str,
    does: &'static str,
}

/// The page of an order that can be paid.
pub(super) fn pay(texts: &'static Texts, checkout: &Checkout, form: CardForm) -> Response {
    let order = &checkout.order;
    let page = Pay {
        texts,
        root: "",
        version: assets::version(),
        token: CheckoutToken::of(order),
        order: Summary::new(checkout),
        failure: order.failure.as_ref().map(|failure| texts.failure(failure)),
        form,
        groups: groups(texts, checkout.now),
    };
    html(StatusCode::OK, &page, checkout::return_address(order).as_ref())
}

/// The page that asks the buyer to authenticate.
pub(super) fn challenge(texts: &'static Texts, checkout: &Checkout, card: &TestCard) -> Response {
    let page = Challenge {
        texts,
        root: "../",
        version: assets::version(),
        token: CheckoutToken::of(&checkout.order),
        order: Summary::new(checkout),
        card: shown_card(card.brand, card.last4()),
        card_name: card_name(card),
    };
    html(StatusCode::OK, &page, checkout::return_address(&checkout.order).as_ref())
}

/// The page of an order that cannot be paid now.
pub(super) fn outcome(texts: &'static Texts, checkout: &Checkout, outcome: Outcome) -> Response {
    let state = checkout.state();
    let shop = checkout::return_address(&checkout.order);
    let page = OutcomePage {
        texts,
        root: "",
        version: assets::version(),
        outcome,
        mood: if matches!(state, CheckoutState::Paid) { "good" } else { "" },
        shop: shop.filter(|_| matches!(state, CheckoutState::Paid | CheckoutState::Refunded)),
        order: Some(Summary::new(checkout)),
    };
    html(StatusCode::OK, &page, None)
}

/// The page of an error. `root` leads from the page's address to that of all checkout pages.
pub(super) fn error(texts: &'static Texts, status: StatusCode, root: &str) -> Response {
    let page = OutcomePage {
        texts,
        root,
        version: assets::version(),
        outcome: texts.error(status.as_u16()),
        mood: "bad",
        shop: None,
        order: None,
    };
    html(status, &page, None)
}

impl<'a> Summary<'a> {
    fn new(checkout: &'a Checkout) -> Self {
        let order = &checkout.order;
        let currency = order.content.currency;
        let left = match checkout.state() {
            CheckoutState::Payable(left) => Some(TimeLeft::new(checkout, left)),
            _ => None,
        };
        Self {
            subject: &order.content.subject,
            amount: money(order.content.amount.minor_units(), currency),
            out_trade_no: order.content.out_trade_no.as_str(),
            card: order.card.as_ref().map(|card| shown_card(&card.brand, &card.last4)),
            refunded: (order.amount_refunded > 0).then(|| money(order.amount_refunded, currency)),
            trade_no: left.is_none().then(|| order.trade_no.to_string()),
            left,
        }
    }
}

impl TimeLeft {
    fn new(checkout: &Checkout, left: Duration) -> Self {
        let until = checkout.order.expires_at.to_offset(time::UtcOffset::UTC);
        let machine = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
        let people = format_description!("[year]-[month]-[day] [hour]:[minute] UTC");
        Self {
            until: until.format(machine).unwrap_or_default(),
            until_text: until.format(people).unwrap_or_default(),
            // Rounded up, so that the page reloads when the time is over and not before.
            seconds: left.whole_seconds() + i64::from(left.subsec_nanoseconds() > 0),
            frozen: checkout.frozen,
        }
    }
}

/// The name of a test card in an address: its network and last four digits.
pub(super) fn card_name(card: &TestCard) -> String {
    format!("{}-{}", card.brand, card.last4())
}

/// A future month, so that a test card is good.
pub(super) fn future_month(now: OffsetDateTime) -> String {
    // Two digits are read as a year of this century.
    format!("12/{:02}", (now.year() % 100 + 2).min(99))
}

/// Check digits: American Express has four.
pub(super) fn any_cvc(card: &TestCard) -> &'static str {
    if card.brand == "amex" { "1234" } else { "123" }
}

/// A card's number in groups, as it is printed on cards.
pub(super) fn grouped(number: &str) -> String {
    let sizes: &[usize] = if number.len() == 15 { &[4, 6, 5] } else { &[4, 4, 4, 4, 3] };
    let (mut rest, mut groups) = (number, Vec::new());
    for size in sizes {
        let (group, after) = rest.split_at(rest.len().min(*size));
        groups.push(group);
        rest = after;
    }
    groups.join(" ").trim_end().to_owned()
}

fn groups(texts: &'static Texts, now: OffsetDateTime) -> Vec<CardGroup> {
    let group = |heading, belongs: fn(&TestCard) -> bool| CardGroup {
        heading,
        cards: TEST_CARDS.iter().filter(|card| belongs(card)).map(|card| listed(texts, card, now)).collect(),
    };
    vec![
        group(texts.group_paid, |card| {
            card.outcome == CardOutcome::Paid && card.refund_course() == RefundCourse::Immediate
        }),
        group(texts.group_authentication, |card| card.outcome == CardOutcome::Authentication),
        group(texts.group_declined, |card| matches!(card.outcome, CardOutcome::Declined(_))),
        group(texts.group_refunds, |card| card.refund_course() != RefundCourse::Immediate),
    ]
}

fn listed(texts: &'static Texts, card: &'static TestCard, now: OffsetDateTime) -> ListedCard {
    ListedCard {
        name: card_name(card),
        number: grouped(card.number),
        expiry: future_month(now),
        cvc: any_cvc(card),
        brand: texts::brand(card.brand),
        does: texts.does(card),
    }
}

fn shown_card(brand: &str, last4: &str) -> String {
    format!("{} •••• {last4}", texts::brand(brand))
}

/// An amount with a sign that tells apart currencies of the same name, such as US$ and HK$.
fn money(minor_units: i64, currency: Currency) -> String {
    let sign = match currency {
        Currency::Usd => "US$",
        Currency::Hkd => "HK$",
        Currency::Cny => "CN¥",
    };
    let whole = (minor_units / 100).to_string();
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}.{:02}", minor_units % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_a_sign_and_two_decimals() {
        assert_eq!(money(2990, Currency::Usd), "US$29.90");
        assert_eq!(money(1, Currency::Hkd), "HK$0.01");
        assert_eq!(money(9_999_999_999, Currency::Cny), "CN¥99,999,999.99");
        assert_eq!(money(123_456, Currency::Usd), "US$1,234.56");
    }

    #[test]
    fn a_card_that_is_filled_in_is_good_whatever_the_clock_shows() {
        for year in [2026, 2097, 2098, 2099] {
            let now = time::macros::datetime!(2000-12-31 23:59 UTC).replace_year(year).unwrap();
            let card = checkout::read_card_form("4242424242424242", &future_month(now), "123", now);
            assert!(card.is_ok(), "{year}");
        }
    }

    #[test]
    fn numbers_are_grouped_as_on_cards() {
        assert_eq!(grouped("4242424242424242"), "4242 4242 4242 4242");
        assert_eq!(grouped("378282246310005"), "3782 822463 10005");
    }
}
