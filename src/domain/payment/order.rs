//! Orders: what a merchant asks for, what the order is, and its shape on the wire (contract, section 2). The guarded
//! updates in `db` decide when its status may change.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use strum::{EnumString, IntoStaticStr, VariantArray};
use time::{Duration, OffsetDateTime};

use crate::domain::code::Code;
use crate::domain::id::{MerchantId, TradeNo};
use crate::domain::json::fields::{self, FieldError, Fields, Parsed};
use crate::domain::payment::card::{Card, Decline, TEST_CARDS};
use crate::domain::payment::checkout_token::{self, CheckoutToken};
use crate::domain::payment::money::{Amount, Currency};
use crate::domain::payment::number::MerchantNumber;
use crate::domain::view::View;
use crate::domain::webhook::web_url::{self, NotifyPolicy};

/// How long an order can be paid, in the merchant's time.
pub const PAYABLE_FOR: Duration = Duration::hours(2);

const MAX_SUBJECT: usize = 256;

/// The language of a checkout page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray, Serialize)]
#[strum(serialize_all = "lowercase")]
#[serde(into = "&'static str")]
pub enum Locale {
    /// Traditional Chinese.
    Zh,
    /// English.
    En,
}

/// The status of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray, Serialize)]
#[strum(serialize_all = "lowercase")]
#[serde(into = "&'static str")]
pub enum OrderStatus {
    /// Waits for its buyer.
    Pending,
    /// Paid, and not all of it refunded.
    Paid,
    /// All of its amount has been refunded.
    Refunded,
    /// Closed by the merchant or by expiry; it can never be paid.
    Closed,
}

/// The content of an order as the merchant asks for it: every known field after parsing. Two requests with the same
/// `out_trade_no` ask for the same order exactly if their content is equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderContent {
    /// The merchant's number.
    pub out_trade_no: MerchantNumber,
    /// What the buyer pays, in minor units.
    pub amount: Amount,
    /// The currency of the amount.
    pub currency: Currency,
    /// What the buyer buys; 1 to 256 characters.
    pub subject: String,
    /// Where the buyer goes after paying.
    pub return_url: Option<String>,
    /// Where this order's events go.
    pub notify_url: Option<String>,
    /// The checkout page's language; without it, the browser decides.
    pub locale: Option<Locale>,
    /// The merchant's own notes.
    pub metadata: BTreeMap<String, String>,
}

impl OrderContent {
    /// Reads the body of `POST /v1/orders`.
    #[must_use]
    pub fn from_json(object: Map<String, Value>, policy: NotifyPolicy) -> Parsed<Self> {
        let mut fields = Fields::new(object);
        let out_trade_no = fields.required("out_trade_no", MerchantNumber::from_json);
        let amount = fields.required("amount", Amount::from_json);
        let currency = fields.required("currency", Currency::from_json);
        let subject = fields.required("subject", |value| fields::text(value, 1, MAX_SUBJECT));
        let return_url = fields.optional("return_url", web_url::from_json);
        let notify_url = fields.optional("notify_url", |value| web_url::notify_url_from_json(value, policy));
        let locale = fields.optional("locale", fields::code);
        let metadata = fields.optional("metadata", fields::metadata).unwrap_or_default();
        fields.finish(|| {
            Some(Self {
                out_trade_no: out_trade_no?,
                amount: amount?,
                currency: currency?,
                subject: subject?,
                return_url,
                notify_url,
                locale,
                metadata,
            })
        })
    }

    /// The fields in which a request differs from the order with its number; empty if it asks for the same order.
    #[must_use]
    pub fn differences(&self, asked: &Self) -> Vec<FieldError> {
        // Destructured without `..`, so that a new field must be compared.
        let Self { out_trade_no: _, amount, currency, subject, return_url, notify_url, locale, metadata } =
            self;
        let mut found = Differences::new("out_trade_no_conflict");
        found.compare("amount", amount, &asked.amount);
        found.compare("currency", currency, &asked.currency);
        found.compare("subject", subject, &asked.subject);
        found.compare("return_url", return_url, &asked.return_url);
        found.compare("notify_url", notify_url, &asked.notify_url);
        found.compare("locale", locale, &asked.locale);
        found.compare("metadata", metadata, &asked.metadata);
        found.errors
    }
}

/// Collects the fields in which a repeated number's content differs from the first.
#[derive(Debug)]
pub(super) struct Differences {
    code: &'static str,
    pub(super) errors: Vec<FieldError>,
}

impl Differences {
    pub(super) const fn new(code: &'static str) -> Self {
        Self { code, errors: Vec::new() }
    }

    pub(super) fn compare<T: PartialEq + Serialize>(&mut self, param: &str, first: &T, asked: &T) {
        if first != asked {
            let show = |value| serde_json::to_string(value).unwrap_or_default();
            self.errors.push(FieldError {
                param: param.to_owned(),
                code: self.code.to_owned(),
                message: format!("{param} was {} at first, now it is {}.", show(first), show(asked)),
            });
        }
    }
}

/// An order as it is stored.
#[derive(Debug, Clone)]
pub struct Order {
    /// Whose order it is.
    pub merchant: MerchantId,
    /// The gateway's number.
    pub trade_no: TradeNo,
    /// What the merchant asked for.
    pub content: OrderContent,
    /// The sum of the refunds that have not failed, in minor units.
    pub amount_refunded: i64,
    /// Its status.
    pub status: OrderStatus,
    /// What makes the checkout page's address unguessable.
    pub checkout_secret: String,
    /// The card that paid it.
    pub card: Option<Card>,
    /// Why the last attempt to pay failed.
    pub failure: Option<Failure>,
    /// When it was created. All times here are the merchant's.
    pub created_at: OffsetDateTime,
    /// When it was paid.
    pub paid_at: Option<OffsetDateTime>,
    /// When it was closed.
    pub closed_at: Option<OffsetDateTime>,
    /// When it closes by itself unless paid.
    pub expires_at: OffsetDateTime,
}

/// Why a payment or a refund failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// For programs.
    pub code: String,
    /// For people.
    pub message: String,
}

impl From<Decline> for Failure {
    fn from(decline: Decline) -> Self {
        Self { code: decline.code().to_owned(), message: decline.message().to_owned() }
    }
}

impl Order {
    /// A new order, pending from `now` on.
    #[must_use]
    pub fn open(merchant: MerchantId, content: OrderContent, now: OffsetDateTime) -> Self {
        Self {
            merchant,
            trade_no: TradeNo::generate(),
            content,
            amount_refunded: 0,
            status: OrderStatus::Pending,
            checkout_secret: checkout_token::generate_secret(),
            card: None,
            failure: None,
            created_at: now,
            paid_at: None,
            closed_at: None,
            expires_at: now + PAYABLE_FOR,
        }
    }

    /// A paid order that does not exist, for the test callback.
    #[must_use]
    pub fn sample(merchant: MerchantId, now: OffsetDateTime) -> Self {
        let content = OrderContent {
            out_trade_no: MerchantNumber::sample(),
            amount: Amount::SAMPLE,
            currency: Currency::Usd,
            subject: "Test callback 測試通知".to_owned(),
            return_url: None,
            notify_url: None,
            locale: None,
            metadata: BTreeMap::new(),
        };
        Self {
            status: OrderStatus::Paid,
            card: Some(TEST_CARDS[0].kept()),
            paid_at: Some(now),
            ..Self::open(merchant, content, now)
        }
    }

    /// What can still be refunded, in minor units.
    #[must_use]
    pub const fn refundable(&self) -> i64 {
        self.content.amount.minor_units() - self.amount_refunded
    }
}

impl View for Order {
    fn view<'a>(&'a self, public_url: &str) -> impl Serialize + use<'a> {
        // Destructured without `..`, so that a new field must be shown.
        let OrderContent {
            out_trade_no,
            amount,
            currency,
            subject,
            return_url,
            notify_url,
            locale,
            metadata,
        } = &self.content;
        let token = CheckoutToken::of(self);
        OrderView {
            object: "order",
            trade_no: self.trade_no,
            out_trade_no,
            amount: *amount,
            amount_refunded: self.amount_refunded,
            currency: *currency,
            subject,
            status: self.status,
            checkout_url: format!("{public_url}/checkout/{token}"),
            return_url: return_url.as_deref(),
            notify_url: notify_url.as_deref(),
            locale: *locale,
            metadata,
            payment: self.card.as_ref().map(|card| PaymentView {
                method: "card",
                brand: &card.brand,
                last4: &card.last4,
            }),
            failure: self.failure.as_ref(),
            livemode: false,
            created_at: self.created_at,
            paid_at: self.paid_at,
            closed_at: self.closed_at,
            expires_at: self.expires_at,
        }
    }
}

/// An order on the wire: the field names and their order (contract, section 2).
#[derive(Debug, Serialize)]
struct OrderView<'a> {
    object: &'static str,
    trade_no: TradeNo,
    out_trade_no: &'a MerchantNumber,
    amount: Amount,
    amount_refunded: i64,
    currency: Currency,
    subject: &'a str,
    status: OrderStatus,
    checkout_url: String,
    return_url: Option<&'a str>,
    notify_url: Option<&'a str>,
    locale: Option<Locale>,
    metadata: &'a BTreeMap<String, String>,
    payment: Option<PaymentView<'a>>,
    failure: Option<&'a Failure>,
    livemode: bool,
    #[serde(with = "crate::domain::time::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "crate::domain::time::rfc3339::option")]
    paid_at: Option<OffsetDateTime>,
    #[serde(with = "crate::domain::time::rfc3339::option")]
    closed_at: Option<OffsetDateTime>,
    #[serde(with = "crate::domain::time::rfc3339")]
    expires_at: OffsetDateTime,
}

#[derive(Debug, Serialize)]
struct PaymentView<'a> {
    method: &'static str,
    brand: &'a str,
    last4: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(body: Value) -> Parsed<OrderContent> {
        let Value::Object(object) = body else { panic!("an object") };
        OrderContent::from_json(object, NotifyPolicy::Anywhere)
    }

    #[test]
    fn every_bad_field_is_named_at_once() {
        let errors = parse(json!({"out_trade_no": "A 1", "amount": 29.9, "currency": "usd", "locale": "fr"}))
            .content
            .unwrap_err();
        let codes: Vec<_> = errors.iter().map(|error| error.code.as_str()).collect();
        assert_eq!(
            codes,
            [
                "out_trade_no_invalid",
                "amount_invalid",
                "currency_invalid",
                "subject_missing",
                "locale_invalid"
            ]
        );
    }

    #[test]
    fn content_ignores_nulls_and_names_differences() {
        let body = json!({"out_trade_no": "A1", "amount": 2990, "currency": "USD", "subject": "Pro"});
        let mut with_null = body.clone();
        with_null["return_url"] = Value::Null;
        let first = parse(body.clone()).content.unwrap();
        assert_eq!(first.differences(&parse(with_null).content.unwrap()), []);

        let mut other = body;
        other["amount"] = json!(3990);
        other["notfy_url"] = json!("http://x.test/");
        let other = parse(other);
        assert_eq!(other.ignored, ["notfy_url"]);
        let differences = first.differences(&other.content.unwrap());
        assert_eq!(differences[0].message, "amount was 2990 at first, now it is 3990.");
        assert_eq!(differences.len(), 1);
    }
}
