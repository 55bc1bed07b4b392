//! A call as the audit reads it, and what it was for: an attempt of a write, or a look-up. Other calls
//! say nothing about retries.

use std::borrow::Cow;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use time::OffsetDateTime;
use url::form_urlencoded;

use crate::domain::id::RequestId;
use crate::domain::journal::Entry;

/// One call under `/v1`, as the journal has it.
#[derive(Debug, Clone)]
pub struct Call {
    /// The call's own id, also where an earlier response was replayed.
    pub request_id: RequestId,
    /// When it came in, in the merchant's time, which keys expire by.
    pub at: OffsetDateTime,
    /// When it came in, in real time, which pauses are measured by.
    pub received_at: OffsetDateTime,
    /// How long it took, until the response was sent or the connection closed.
    pub duration: Duration,
    /// The HTTP method.
    pub method: String,
    /// The path with its query, as sent.
    pub target: String,
    /// The Idempotency-Key, as sent.
    pub idempotency_key: Option<String>,
    /// The body's bytes, as sent.
    pub request_body: Vec<u8>,
    /// The status that was sent, or would have been; `None` where nothing ran.
    pub status: Option<u16>,
    /// The body that was sent, or would have been.
    pub response_body: Vec<u8>,
    /// Whether a whole response was sent.
    pub answered: bool,
    /// Whether the client hung up before that.
    pub client_hung_up: bool,
}

impl From<Entry> for Call {
    fn from(entry: Entry) -> Self {
        Self {
            request_id: entry.request_id,
            at: entry.at,
            received_at: entry.received_at,
            duration: entry.duration,
            method: entry.method,
            target: entry.path,
            idempotency_key: entry.idempotency_key,
            request_body: entry.request_body.into_bytes(),
            status: entry.status,
            response_body: entry.response_body.into_bytes(),
            answered: entry.answered,
            client_hung_up: entry.client_hung_up,
        }
    }
}

/// What a call under `/v1` was for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Purpose<'a> {
    CreateOrder,
    CloseOrder(Cow<'a, str>),
    CreateRefund,
    ShowOrder(Cow<'a, str>),
    ListOrders {
        out_trade_no: Option<Cow<'a, str>>,
    },
    ShowRefund(Cow<'a, str>),
    ListRefunds {
        out_trade_no: Option<Cow<'a, str>>,
    },
    /// No such endpoint: nothing that a retry could do twice.
    Nothing,
}

impl Call {
    /// The path without the query.
    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub(super) fn purpose(&self) -> Purpose<'_> {
        let mut parts = self.path().split('/').skip(1);
        let parts = [parts.next(), parts.next(), parts.next(), parts.next(), parts.next()];
        let number = |part: &'_ str| percent_decode_str(part).decode_utf8_lossy().into_owned().into();
        match (self.method.as_str(), parts) {
            ("POST", [Some("v1"), Some("orders"), None, ..]) => Purpose::CreateOrder,
            ("POST", [Some("v1"), Some("orders"), Some(no), Some("close"), None]) => {
                Purpose::CloseOrder(number(no))
            }
            ("POST", [Some("v1"), Some("refunds"), None, ..]) => Purpose::CreateRefund,
            ("GET", [Some("v1"), Some("orders"), None, ..]) => {
                Purpose::ListOrders { out_trade_no: self.filter_by_order() }
            }
            ("GET", [Some("v1"), Some("orders"), Some(no), None, _]) => Purpose::ShowOrder(number(no)),
            ("GET", [Some("v1"), Some("refunds"), None, ..]) => {
                Purpose::ListRefunds { out_trade_no: self.filter_by_order() }
            }
            ("GET", [Some("v1"), Some("refunds"), Some(no), None, _]) => Purpose::ShowRefund(number(no)),
            _ => Purpose::Nothing,
        }
    }

    fn filter_by_order(&self) -> Option<Cow<'_, str>> {
        let (_, query) = self.target.split_once('?')?;
        form_urlencoded::parse(query.as_bytes())
            .find_map(|(name, value)| (name == "out_trade_no").then_some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    #[test]
    fn a_path_says_what_a_call_is_for() {
        let purpose = |method: &str, target: &str| {
            let call = Call { method: method.into(), target: target.into(), ..call() };
            format!("{:?}", call.purpose())
        };
        assert_eq!(purpose("POST", "/v1/orders?x=1"), "CreateOrder");
        assert_eq!(purpose("POST", "/v1/orders/A%2e1/close"), r#"CloseOrder("A.1")"#);
        assert_eq!(purpose("POST", "/v1/refunds"), "CreateRefund");
        assert_eq!(purpose("GET", "/v1/orders/A1"), r#"ShowOrder("A1")"#);
        assert_eq!(
            purpose("GET", "/v1/orders?limit=1&out_trade_no=A%31"),
            r#"ListOrders { out_trade_no: Some("A1") }"#
        );
        assert_eq!(purpose("GET", "/v1/refunds"), "ListRefunds { out_trade_no: None }");
        assert_eq!(purpose("GET", "/v1/refunds/R1?expand=1"), r#"ShowRefund("R1")"#);
        for (method, target) in
            [("POST", "/v1/orders/"), ("POST", "/v1/orders/A1"), ("PUT", "/v1/orders"), ("POST", "/v1")]
        {
            assert_eq!(purpose(method, target), "Nothing");
        }
    }
}
