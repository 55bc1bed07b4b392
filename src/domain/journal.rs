//! The journal: what a merchant's client did under `/v1`, and what came of it (contract, section 7). Here
//! is what an entry holds, and what never gets into it: API keys, and numbers that may be a card's.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;

use super::card;
use super::fault_rule::Occasion;
use super::id::{MerchantId, RequestId};

/// How much of a body is kept, in bytes.
const MAX_BODY: usize = 16 * 1024;
/// How much of a header's value is kept, in bytes.
const MAX_HEADER: usize = 1024;
/// How many digits a card's number has.
const CARD_DIGITS: std::ops::RangeInclusive<usize> = 13..=19;

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It ran, and succeeded.
    Executed,
    /// It was answered with the stored response of an earlier one.
    Replayed,
    /// It was refused with a 4xx.
    Refused,
    /// The first request with its key was still running.
    InProgress,
    /// It ended with a 5xx, or was lost before it ran.
    Error,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 5] = [Self::Executed, Self::Replayed, Self::Refused, Self::InProgress, Self::Error];

    /// The outcome's name on the wire and in the database.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Replayed => "replayed",
            Self::Refused => "refused",
            Self::InProgress => "in_progress",
            Self::Error => "error",
        }
    }

    /// The outcome of a name.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.code() == code)
    }
}

/// A call as the journal has it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Who called.
    pub merchant: MerchantId,
    /// The call's own id, also where an earlier response was replayed.
    pub request_id: RequestId,
    /// When it came in, in the merchant's time. Until it is written, this is real time.
    pub at: OffsetDateTime,
    /// When it came in, in real time.
    pub received_at: OffsetDateTime,
    /// How long it took, until its response was there.
    pub duration: Duration,
    /// The HTTP method.
    pub method: String,
    /// The path with its query, as sent.
    pub path: String,
    /// The Idempotency-Key, as sent.
    pub idempotency_key: Option<String>,
    /// The headers, by their names in lower case.
    pub request_headers: BTreeMap<String, String>,
    /// The body, as sent.
    pub request_body: String,
    /// The numbers of orders that it names, the merchant's and the gateway's.
    pub order_nos: Vec<String>,
    /// The numbers of refunds that it names, the merchant's and the gateway's.
    pub refund_nos: Vec<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// The kind of the fault that struck it.
    pub fault: Option<String>,
    /// The status that was sent, or would have been; none where nothing ran.
    pub status: Option<u16>,
    /// The body that was sent, or would have been.
    pub response_body: String,
    /// Whether the whole response was sent.
    pub answered: bool,
    /// Whether the client hung up before the response was there.
    pub client_hung_up: bool,
}

/// A header as the journal keeps it: what proves who somebody is stays out.
#[must_use]
pub fn header(name: &str, value: &[u8]) -> String {
    let value = String::from_utf8_lossy(value);
    match name {
        "x-api-key" => value.split_at_checked(10).map_or("…", |(prefix, _)| prefix).to_owned() + "…",
        "authorization" | "proxy-authorization" | "cookie" => "…".to_owned(),
        _ => shorten(&value, MAX_HEADER),
    }
}

/// A body as the journal keeps it: shortened, and with the middle digits masked of what may be a card's
/// number. The numbers that the call is about are none.
#[must_use]
pub fn body(bytes: &[u8], occasion: &Occasion) -> String {
    let text = shorten(&String::from_utf8_lossy(bytes), MAX_BODY);
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let length = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        let (digits, after) = from.split_at(length);
        kept.push_str(before);
        let named = |numbers: &[String]| numbers.iter().any(|number| number == digits);
        let is_number = named(&occasion.order_nos) || named(&occasion.refund_nos);
        if CARD_DIGITS.contains(&length) && !is_number && card::passes_luhn(digits) {
            kept.extend([&digits[..4], &"*".repeat(length - 8), &digits[length - 4..]]);
        } else {
            kept.push_str(digits);
        }
        rest = after;
    }
    kept + rest
}

/// At most so many bytes; an ellipsis tells where something is left out. No Postgres text holds a NUL.
fn shorten(text: &str, bytes: usize) -> String {
    let text = text.replace('\0', "\u{fffd}");
    if text.len() <= bytes {
        return text;
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}…", &text[..end])
}

impl Serialize for Entry {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        EntryView {
            request_id: self.request_id,
            at: self.at,
            method: &self.method,
            path: &self.path,
            idempotency_key: self.idempotency_key.as_deref(),
            request_headers: &self.request_headers,
            request_body: &self.request_body,
            outcome: self.outcome,
            fault: self.fault.as_deref(),
            status: self.status,
            response_body: &self.response_body,
            answered: self.answered,
            duration_ms: u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
            client_hung_up: self.client_hung_up,
        }
        .serialize(serializer)
    }
}

/// An entry on the wire.
#[derive(Serialize)]
struct EntryView<'a> {
    request_id: RequestId,
    #[serde(with = "super::time")]
    at: OffsetDateTime,
    method: &'a str,
    path: &'a str,
    idempotency_key: Option<&'a str>,
    request_headers: &'a BTreeMap<String, String>,
    request_body: &'a str,
    outcome: Outcome,
    fault: Option<&'a str>,
    status: Option<u16>,
    response_body: &'a str,
    answered: bool,
    duration_ms: u64,
    client_hung_up: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_out() {
        assert_eq!(header("x-api-key", b"kuko_test_local_000001"), "kuko_test_…");
        assert_eq!(header("x-api-key", b"short"), "……");
        assert_eq!(header("authorization", b"Bearer secret"), "…");
        assert_eq!(header("user-agent", b"shop/1.0"), "shop/1.0");
    }

    #[test]
    fn numbers_of_cards_are_masked_and_other_numbers_are_not() {
        let occasion = Occasion { order_nos: vec!["4000000000000002".to_owned()], ..Occasion::default() };
        let keep = |text: &str| body(text.as_bytes(), &occasion);
        assert_eq!(keep(r#"{"card":"4242424242424242"}"#), r#"{"card":"4242********4242"}"#);
        assert_eq!(keep("378282246310005,1"), "3782*******0005,1");
        for other in [
            r#"{"out_trade_no":"4000000000000002"}"#,
            "4242424242424241",
            "20261104091234567890123456",
            "1764553200",
            "",
        ] {
            assert_eq!(keep(other), other);
        }
    }

    #[test]
    fn long_bodies_are_cut_between_characters() {
        let kept = body("年".repeat(6000).as_bytes(), &Occasion::default());
        assert!(kept.ends_with("年…") && kept.len() <= MAX_BODY + 3);
        assert_eq!(body(b"a\0b", &Occasion::default()), "a\u{fffd}b");
    }
}
