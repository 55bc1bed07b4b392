//! Refunds: what a merchant asks for, what the refund is, and its shape on the wire (contract,
//! section 3). How much may be refunded is guarded where the order's row is locked, in `service`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use time::{Duration, OffsetDateTime};

use super::card::{Card, RefundCourse};
use super::fields::{self, FieldError, Fields, Parsed};
use super::id::{MerchantId, RefundNo, TradeNo};
use super::money::{Amount, Currency};
use super::number::MerchantNumber;
use super::order::{Differences, Failure, Order};
use super::view::View;
use super::web_url::{self, NotifyPolicy};

/// How long a refund that does not succeed at once is pending, of the merchant's time.
pub const SETTLES_AFTER: Duration = Duration::seconds(5);

const MAX_REASON: usize = 256;

/// Which order a refund is of: exactly one of its two numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefundedOrder {
    /// By the gateway's number, as sent.
    TradeNo(String),
    /// By the merchant's number.
    OutTradeNo(MerchantNumber),
}

impl RefundedOrder {
    /// Whether this means the order with these numbers.
    #[must_use]
    pub fn is(&self, trade_no: TradeNo, out_trade_no: &MerchantNumber) -> bool {
        match self {
            Self::TradeNo(text) => text.parse() == Ok(trade_no),
            Self::OutTradeNo(number) => number == out_trade_no,
        }
    }

    /// The number as it was sent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::TradeNo(text) => text,
            Self::OutTradeNo(number) => number.as_str(),
        }
    }

    const fn param(&self) -> &'static str {
        match self {
            Self::TradeNo(_) => "trade_no",
            Self::OutTradeNo(_) => "out_trade_no",
        }
    }
}

/// The content of a refund as the merchant asks for it: every known field after parsing.
#[derive(Debug, Clone)]
pub struct RefundContent {
    /// The merchant's number.
    pub out_refund_no: MerchantNumber,
    /// Which order to refund.
    pub order: RefundedOrder,
    /// How much goes back, in minor units.
    pub amount: Amount,
    /// Why; at most 256 characters.
    pub reason: Option<String>,
    /// Where this refund's events go.
    pub notify_url: Option<String>,
    /// The merchant's own notes.
    pub metadata: BTreeMap<String, String>,
}

impl RefundContent {
    /// Reads the body of `POST /v1/refunds`.
    #[must_use]
    pub fn from_json(object: Map<String, Value>, policy: NotifyPolicy) -> Parsed<Self> {
        let mut fields = Fields::new(object);
        let out_refund_no = fields.required("out_refund_no", MerchantNumber::from_json);
        let order = order_of(&mut fields);
        let amount = fields.required("amount", Amount::from_json);
        let reason = fields.optional("reason", |value| fields::note(value, MAX_REASON));
        let notify_url = fields.optional("notify_url", |value| web_url::notify_url_from_json(value, policy));
        let metadata = fields.optional("metadata", fields::metadata).unwrap_or_default();
        fields.finish(|| {
            Some(Self {
                out_refund_no: out_refund_no?,
                order: order?,
                amount: amount?,
                reason,
                notify_url,
                metadata,
            })
        })
    }
}

fn order_of(fields: &mut Fields) -> Option<RefundedOrder> {
    if fields.has("trade_no") && fields.has("out_trade_no") {
        fields.optional("trade_no", |_| Ok(()));
        fields.optional("out_trade_no", |_| Ok(()));
        fields.refuse(FieldError::invalid(
            "trade_no",
            "and out_trade_no were both sent; send exactly one of them",
        ));
        return None;
    }
    if fields.has("trade_no") {
        return fields.optional("trade_no", |value| {
            let text = value
                .as_str()
                .ok_or_else(|| format!("must be a string; {} was sent", fields::kind_of(value)))?;
            Ok(RefundedOrder::TradeNo(text.to_owned()))
        });
    }
    fields.optional("trade_no", |_| Ok(()));
    fields.required("out_trade_no", MerchantNumber::from_json).map(RefundedOrder::OutTradeNo)
}

/// Where a refund stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RefundStatus {
    /// On its way.
    Pending,
    /// The buyer has the money.
    Succeeded,
    /// It came back; the amount is refundable again.
    Failed,
}

impl RefundStatus {
    /// The status's name on the wire and in the database.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }

    /// The status of a name.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        [Self::Pending, Self::Succeeded, Self::Failed].into_iter().find(|status| status.code() == code)
    }
}

/// A refund as it is stored. Times are the merchant's.
#[derive(Debug, Clone)]
pub struct Refund {
    /// Whose refund it is.
    pub merchant: MerchantId,
    /// The gateway's number.
    pub refund_no: RefundNo,
    /// The merchant's number.
    pub out_refund_no: MerchantNumber,
    /// The order, by the gateway's number.
    pub trade_no: TradeNo,
    /// The order, by the merchant's number.
    pub out_trade_no: MerchantNumber,
    /// How much goes back, in minor units.
    pub amount: Amount,
    /// The order's currency.
    pub currency: Currency,
    /// Why.
    pub reason: Option<String>,
    /// Where this refund's events go.
    pub notify_url: Option<String>,
    /// The merchant's own notes.
    pub metadata: BTreeMap<String, String>,
    /// Where it stands.
    pub status: RefundStatus,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// When it was asked for.
    pub created_at: OffsetDateTime,
    /// When it succeeded.
    pub succeeded_at: Option<OffsetDateTime>,
    /// How it will end, while it is pending.
    pub settlement: Option<Settlement>,
}

/// How a pending refund will end. No client sees this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settlement {
    /// When.
    pub at: OffsetDateTime,
    /// As what: succeeded or failed.
    pub status: RefundStatus,
}

impl Refund {
    /// A new refund: it succeeds at once, or is pending for a while, as the card that paid the order has
    /// it.
    #[must_use]
    pub fn open(order: &Order, content: RefundContent, now: OffsetDateTime) -> Self {
        let status = match Self::course(order) {
            RefundCourse::Immediate => RefundStatus::Succeeded,
            RefundCourse::SucceedsLater | RefundCourse::FailsLater => RefundStatus::Pending,
        };
        Self::in_status(order, content, status, now)
    }

    /// A refund that has just reached some status. A pending one ends as the card has it.
    #[must_use]
    pub fn in_status(
        order: &Order,
        content: RefundContent,
        status: RefundStatus,
        now: OffsetDateTime,
    ) -> Self {
        let end = match Self::course(order) {
            RefundCourse::Immediate | RefundCourse::SucceedsLater => RefundStatus::Succeeded,
            RefundCourse::FailsLater => RefundStatus::Failed,
        };
        let settlement = Settlement { at: now + SETTLES_AFTER, status: end };
        Self {
            merchant: order.merchant,
            refund_no: RefundNo::generate(),
            out_refund_no: content.out_refund_no,
            trade_no: order.trade_no,
            out_trade_no: order.content.out_trade_no.clone(),
            amount: content.amount,
            currency: order.content.currency,
            reason: content.reason,
            notify_url: content.notify_url,
            metadata: content.metadata,
            status,
            failure: (status == RefundStatus::Failed).then(Self::failure_of_settlement),
            created_at: now,
            succeeded_at: (status == RefundStatus::Succeeded).then_some(now),
            settlement: (status == RefundStatus::Pending).then_some(settlement),
        }
    }

    fn course(order: &Order) -> RefundCourse {
        order.card.as_ref().map_or(RefundCourse::Immediate, Card::refund_course)
    }

    /// Why a refund fails that its card lets fail.
    #[must_use]
    pub fn failure_of_settlement() -> Failure {
        Failure {
            code: "expired_or_canceled_card".to_owned(),
            message: "The buyer's bank sent the refund back, as the card has expired or was cancelled. The amount can \
                      be refunded again."
                .to_owned(),
        }
    }

    /// The fields in which a request differs from the refund that has its number; empty where it asks
    /// for the same refund. Either number of the same order is the same order.
    #[must_use]
    pub fn differences(&self, asked: &RefundContent) -> Vec<FieldError> {
        let mut found = Differences::new("out_refund_no_conflict");
        if !asked.order.is(self.trade_no, &self.out_trade_no) {
            let first = match asked.order {
                RefundedOrder::TradeNo(_) => self.trade_no.to_string(),
                RefundedOrder::OutTradeNo(_) => self.out_trade_no.to_string(),
            };
            found.compare(asked.order.param(), &first.as_str(), &asked.order.as_str());
        }
        found.compare("amount", &self.amount, &asked.amount);
        found.compare("reason", &self.reason, &asked.reason);
        found.compare("notify_url", &self.notify_url, &asked.notify_url);
        found.compare("metadata", &self.metadata, &asked.metadata);
        found.errors
    }
}

impl View for Refund {
    fn view<'a>(&'a self, _public_url: &str) -> impl Serialize + use<'a> {
        RefundView {
            object: "refund",
            refund_no: self.refund_no,
            out_refund_no: &self.out_refund_no,
            trade_no: self.trade_no,
            out_trade_no: &self.out_trade_no,
            amount: self.amount,
            currency: self.currency,
            reason: self.reason.as_deref(),
            status: self.status,
            failure: self.failure.as_ref(),
            metadata: &self.metadata,
            livemode: false,
            created_at: self.created_at,
            succeeded_at: self.succeeded_at,
        }
    }
}

/// A refund on the wire: the field names and their order (contract, section 3).
#[derive(Debug, Serialize)]
struct RefundView<'a> {
    object: &'static str,
    refund_no: RefundNo,
    out_refund_no: &'a MerchantNumber,
    trade_no: TradeNo,
    out_trade_no: &'a MerchantNumber,
    amount: Amount,
    currency: Currency,
    reason: Option<&'a str>,
    status: RefundStatus,
    failure: Option<&'a Failure>,
    metadata: &'a BTreeMap<String, String>,
    livemode: bool,
    #[serde(with = "super::time")]
    created_at: OffsetDateTime,
    #[serde(with = "super::time::option")]
    succeeded_at: Option<OffsetDateTime>,
}
