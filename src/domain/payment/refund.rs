//! Refunds: what a merchant asks for, what the refund is, and its shape on the wire (contract,
//! section 3). `service` checks how much may be refunded, under the lock of the order's row.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use strum::{EnumString, IntoStaticStr, VariantArray};
use time::{Duration, OffsetDateTime};

use crate::domain::id::{MerchantId, RefundNo, TradeNo};
use crate::domain::json::fields::{self, FieldError, Fields, Parsed};
use crate::domain::payment::card::{Card, RefundCourse};
use crate::domain::payment::money::{Amount, Currency};
use crate::domain::payment::number::MerchantNumber;
use crate::domain::payment::order::{Differences, Failure, Order};
use crate::domain::view::View;
use crate::domain::webhook::web_url::{self, NotifyPolicy};

/// How long a refund that does not succeed at once stays pending, in the merchant's time.
pub const SETTLES_AFTER: Duration = Duration::seconds(5);

const MAX_REASON: usize = 256;

/// The order of a refund, by exactly one of its two numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefundedOrder {
    /// By the gateway's number, as sent.
    TradeNo(String),
    /// By the merchant's number.
    OutTradeNo(MerchantNumber),
}

impl RefundedOrder {
    /// Whether this names the order with these numbers.
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

/// The status of a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray, Serialize)]
#[strum(serialize_all = "lowercase")]
#[serde(into = "&'static str")]
pub enum RefundStatus {
    /// It has not been settled yet.
    Pending,
    /// The buyer has the money.
    Succeeded,
    /// It failed; its amount can be refunded again.
    Failed,
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
    /// Its status.
    pub status: RefundStatus,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// When it was created.
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
    /// A new refund. The card that paid the order decides whether it succeeds at once or is pending for a while.
    #[must_use]
    pub fn open(order: &Order, content: RefundContent, now: OffsetDateTime) -> Self {
        let status = match Self::course(order) {
            RefundCourse::Immediate => RefundStatus::Succeeded,
            RefundCourse::SucceedsLater | RefundCourse::FailsLater => RefundStatus::Pending,
        };
        Self::in_status(order, content, status, now)
    }

    /// A refund that has just reached a status. If it is pending, the card decides how it ends.
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

    /// The reason of a refund that fails because of its card.
    #[must_use]
    pub fn failure_of_settlement() -> Failure {
        Failure {
            code: "expired_or_canceled_card".to_owned(),
            message: "The buyer's bank sent the refund back, as the card has expired or was cancelled. The amount can \
                      be refunded again."
                .to_owned(),
        }
    }

    /// The fields in which a request differs from the refund with its number; empty if it asks for the same refund.
    /// Both numbers of an order name the same order.
    #[must_use]
    pub fn differences(&self, asked: &RefundContent) -> Vec<FieldError> {
        // Named one by one, so that a field that is added must be compared.
        let RefundContent { out_refund_no: _, order, amount, reason, notify_url, metadata } = asked;
        let mut found = Differences::new("out_refund_no_conflict");
        if !order.is(self.trade_no, &self.out_trade_no) {
            let first = match order {
                RefundedOrder::TradeNo(_) => self.trade_no.to_string(),
                RefundedOrder::OutTradeNo(_) => self.out_trade_no.to_string(),
            };
            found.compare(order.param(), &first.as_str(), &order.as_str());
        }
        found.compare("amount", &self.amount, amount);
        found.compare("reason", &self.reason, reason);
        found.compare("notify_url", &self.notify_url, notify_url);
        found.compare("metadata", &self.metadata, metadata);
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
    #[serde(with = "crate::domain::time::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "crate::domain::time::rfc3339::option")]
    succeeded_at: Option<OffsetDateTime>,
}
