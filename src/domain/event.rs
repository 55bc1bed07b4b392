//! Events: what is told about a change, and the exact bytes of its payload (contract, section 6).
//! Where and when an event is sent is left to the delivery.

use serde::Serialize;
use time::OffsetDateTime;

use super::id::{EventId, MerchantId, TradeNo};
use super::order::Order;
use super::view::View;

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// An order was paid.
    PaymentSucceeded,
    /// An attempt to pay an order failed.
    PaymentFailed,
    /// An order was closed, by its merchant or by expiry.
    OrderClosed,
    /// A refund reached the buyer.
    RefundSucceeded,
    /// A refund came back; its amount can be refunded again.
    RefundFailed,
}

impl EventType {
    /// Every type.
    pub const ALL: [Self; 5] = [
        Self::PaymentSucceeded,
        Self::PaymentFailed,
        Self::OrderClosed,
        Self::RefundSucceeded,
        Self::RefundFailed,
    ];

    /// The type of a name.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event_type| event_type.code() == code)
    }

    /// The type's name on the wire and in the database.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::PaymentSucceeded => "payment.succeeded",
            Self::PaymentFailed => "payment.failed",
            Self::OrderClosed => "order.closed",
            Self::RefundSucceeded => "refund.succeeded",
            Self::RefundFailed => "refund.failed",
        }
    }
}

/// An event, to be written in the transaction of the change that it tells.
#[derive(Debug)]
pub struct Event {
    /// Whose event it is.
    pub merchant: MerchantId,
    /// Its identifier; the receiver's guard against fulfilling twice.
    pub event_id: EventId,
    /// What has happened.
    pub event_type: EventType,
    /// The order that it belongs to; none for the test callback.
    pub trade_no: Option<TradeNo>,
    /// The URL that the order or refund names; without one, the merchant's.
    pub notify_url: Option<String>,
    /// The body that is signed and sent, byte for byte.
    pub payload: String,
    /// When it happened, in the merchant's time.
    pub created_at: OffsetDateTime,
}

#[derive(Serialize)]
struct Payload<'a, T> {
    id: EventId,
    object: &'static str,
    #[serde(rename = "type")]
    event_type: &'static str,
    created: i64,
    livemode: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<bool>,
    data: Data<'a, T>,
}

#[derive(Serialize)]
struct Data<'a, T> {
    object: &'a T,
}

impl Event {
    /// An event about `object`, the order or refund as a client sees it at this moment.
    ///
    /// # Errors
    /// Where `object` cannot be written as JSON.
    pub fn new<T: Serialize>(
        event_type: EventType,
        (merchant, trade_no): (MerchantId, TradeNo),
        notify_url: Option<&str>,
        object: &T,
        now: OffsetDateTime,
    ) -> serde_json::Result<Self> {
        let mut event = Self::over(event_type, merchant, object, now, None)?;
        event.trade_no = Some(trade_no);
        event.notify_url = notify_url.map(str::to_owned);
        Ok(event)
    }

    /// The test callback, about an order that does not exist: a receiver confirms it and fulfils nothing.
    ///
    /// # Errors
    /// As for [`Event::new`].
    pub fn test_callback(
        merchant: MerchantId,
        public_url: &str,
        now: OffsetDateTime,
    ) -> serde_json::Result<Self> {
        let sample = Order::sample(merchant, now);
        Self::over(EventType::PaymentSucceeded, merchant, &sample.view(public_url), now, Some(true))
    }

    fn over<T: Serialize>(
        event_type: EventType,
        merchant: MerchantId,
        object: &T,
        now: OffsetDateTime,
        test: Option<bool>,
    ) -> serde_json::Result<Self> {
        let event_id = EventId::generate();
        let payload = serde_json::to_string(&Payload {
            id: event_id,
            object: "event",
            event_type: event_type.code(),
            created: now.unix_timestamp(),
            livemode: false,
            test,
            data: Data { object },
        })?;
        Ok(Self {
            merchant,
            event_id,
            event_type,
            trade_no: None,
            notify_url: None,
            payload,
            created_at: now,
        })
    }
}
