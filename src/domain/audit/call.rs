//! A call as the audit reads it, and what it was for: an attempt of a write, or a look-up. Other calls
//! say nothing about retries.

use std::borrow::Cow;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use time::OffsetDateTime;
use url::form_urlencoded;

use crate::domain::id::RequestId;
use crate::domain::journal::entry::Outcome;

/// One call under `/v1`, as the journal holds it.
#[derive(Debug, Clone)]
pub struct Call {
    /// The call's own id, also where an earlier response was replayed.
    pub request_id: RequestId,
    /// When it came in, in the merchant's time, by which keys expire.
    pub at: OffsetDateTime,
    /// When it came in, in real time, by which pauses are measured.
    pub received_at: OffsetDateTime,
    /// How long it took, until the response was sent or the connection closed.
    pub duration: Duration,
    /// The HTTP method.
    pub method: String,
    /// The path with its query, as sent.
    pub path: String,
    /// The Idempotency-Key, as sent.
    pub idempotency_key: Option<String>,
    /// The body, as far as the journal keeps it.
    pub request_body: String,
    /// The hash of the whole body as it was sent; `None` if the body was incomplete.
    pub body_hash: Option<i64>,
    /// The numbers of orders that it is about. A write's own number comes first.
    pub order_nos: Vec<String>,
    /// The numbers of refunds that it is about, likewise.
    pub refund_nos: Vec<String>,
    /// The numbers of the orders and refunds in the answer, the gateway's and the merchant's in turn.
    pub answer_nos: Vec<String>,
    /// Its outcome.
    pub outcome: Outcome,
    /// The status of the response, sent or lost; `None` if nothing ran.
    pub status: Option<u16>,
    /// The code of the error in the response, sent or lost.
    pub code: Option<String>,
    /// Whether a whole response was sent.
    pub answered: bool,
    /// Whether the client hung up before that.
    pub client_hung_up: bool,
}

/// Every endpoint under `/v1` as the router has it, and what a call of it is for, by the number in its path. A test
/// compares this list with the router's, so that no endpoint that moves money is overlooked.
const ENDPOINTS: [(&str, &str, Read); 7] = [
    ("POST", "/v1/orders", |_, _| Purpose::CreateOrder),
    ("GET", "/v1/orders", |call, _| Purpose::ListOrders { out_trade_no: call.filter_by_order() }),
    ("GET", "/v1/orders/{no}", |_, no| Purpose::ShowOrder(no)),
    ("POST", "/v1/orders/{no}/close", |_, no| Purpose::CloseOrder(no)),
    ("POST", "/v1/refunds", |_, _| Purpose::CreateRefund),
    ("GET", "/v1/refunds", |call, _| Purpose::ListRefunds { out_trade_no: call.filter_by_order() }),
    ("GET", "/v1/refunds/{no}", |_, no| Purpose::ShowRefund(no)),
];

type Read = for<'a> fn(&'a Call, Cow<'a, str>) -> Purpose<'a>;

/// The method and the path of every endpoint that the audit knows.
pub fn endpoints() -> impl Iterator<Item = (&'static str, &'static str)> {
    ENDPOINTS.iter().map(|(method, path, _)| (*method, *path))
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
    /// The order of calls across instances.
    pub(super) const fn came_in(&self) -> (OffsetDateTime, RequestId) {
        (self.received_at, self.request_id)
    }

    /// The numbers of the orders and refunds in the answer, the gateway's with the merchant's.
    pub(super) fn answered_numbers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.answer_nos.as_chunks().0.iter().map(|[gateways, merchants]| (&**gateways, &**merchants))
    }

    /// Whether this call created what it asked for, so that no earlier one had.
    pub(super) fn created_it(&self) -> bool {
        self.outcome == Outcome::Executed && self.status == Some(201)
    }

    /// The path without the query.
    pub(super) fn bare_path(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    pub(super) fn purpose(&self) -> Purpose<'_> {
        let of_endpoint = ENDPOINTS.iter().find_map(|(method, path, read)| {
            let number = number_in(self.bare_path(), path).filter(|_| *method == self.method)?;
            Some(read(self, number))
        });
        of_endpoint.unwrap_or(Purpose::Nothing)
    }

    fn filter_by_order(&self) -> Option<Cow<'_, str>> {
        let (_, query) = self.path.split_once('?')?;
        form_urlencoded::parse(query.as_bytes())
            .find_map(|(name, value)| (name == "out_trade_no").then_some(value))
    }
}

/// The number that stands in a path where its endpoint has `{no}`; empty for an endpoint without one, and `None` for
/// a path of another endpoint.
fn number_in<'p>(path: &str, endpoint: &str) -> Option<Cow<'p, str>> {
    let mut number = Cow::default();
    let mut parts = path.split('/');
    for expected in endpoint.split('/') {
        match (expected, parts.next()?) {
            ("{no}", part) => number = percent_decode_str(part).decode_utf8_lossy().into_owned().into(),
            (expected, part) if expected == part => {}
            _ => return None,
        }
    }
    parts.next().is_none().then_some(number)
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    #[test]
    fn a_path_says_what_a_call_is_for() {
        let purpose = |method: &str, path: &str| {
            let call = Call { method: method.into(), path: path.into(), ..call() };
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
        for (method, path) in [
            ("POST", "/v1/orders/"),
            ("POST", "/v1/orders/A1"),
            ("POST", "/v1/orders/A1/close/now"),
            ("PUT", "/v1/orders"),
            ("POST", "/v1"),
        ] {
            assert_eq!(purpose(method, path), "Nothing");
        }
    }
}
