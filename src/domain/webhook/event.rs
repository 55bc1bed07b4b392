//! Events: a change of an order or refund, and the exact bytes of its payload (contract, section 6). Sending is
//! left to the delivery.

use serde::Serialize;
use strum::{EnumString, IntoStaticStr, VariantArray};
use time::OffsetDateTime;

use crate::domain::code::Code;
use crate::domain::id::{EventId, MerchantId};
use crate::domain::payment::order::Order;
use crate::domain::view::View;

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
pub enum EventType {
    /// An order was paid.
    #[strum(serialize = "payment.succeeded")]
    PaymentSucceeded,
    /// An attempt to pay an order failed.
    #[strum(serialize = "payment.failed")]
    PaymentFailed,
    /// An order was closed, by its merchant or by expiry.
    #[strum(serialize = "order.closed")]
    OrderClosed,
    /// A refund reached the buyer.
    #[strum(serialize = "refund.succeeded")]
    RefundSucceeded,
    /// A refund failed; its amount can be refunded again.
    #[strum(serialize = "refund.failed")]
    RefundFailed,
}

/// An event, which is written in the transaction of its change.
#[derive(Debug)]
pub struct Event {
    /// Whose event it is.
    pub merchant: MerchantId,
    /// Its identifier, by which the receiver avoids fulfilling twice.
    pub event_id: EventId,
    /// What has happened.
    pub event_type: EventType,
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
    /// If `object` cannot be written as JSON.
    pub fn new<T: Serialize>(
        event_type: EventType,
        merchant: MerchantId,
        notify_url: Option<&str>,
        object: &T,
        now: OffsetDateTime,
    ) -> serde_json::Result<Self> {
        let mut event = Self::over(event_type, merchant, object, now, None)?;
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
        Ok(Self { merchant, event_id, event_type, notify_url: None, payload, created_at: now })
    }
}
