//! An entry of the journal: one call under `/v1`, and its outcome (contract, section 7). What is masked in it is
//! said in `masking`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest, Sha256};
use strum::{EnumString, IntoStaticStr, VariantArray};
use time::OffsetDateTime;

use crate::domain::id::{MerchantId, RequestId};

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray, Serialize)]
#[strum(serialize_all = "snake_case")]
#[serde(into = "&'static str")]
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

/// A call as the journal holds it.
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
    /// The path with its query.
    pub path: String,
    /// The Idempotency-Key, as sent.
    pub idempotency_key: Option<String>,
    /// The headers, by their names in lower case.
    pub request_headers: BTreeMap<String, String>,
    /// The body as text.
    pub request_body: String,
    /// The numbers of the orders that it is about, the merchant's and the gateway's.
    pub order_nos: Vec<String>,
    /// The numbers of the refunds that it is about, the merchant's and the gateway's.
    pub refund_nos: Vec<String>,
    /// Its outcome.
    pub outcome: Outcome,
    /// The kind of the fault that struck it.
    pub fault: Option<String>,
    /// The status of the response, sent or lost; `None` if nothing ran.
    pub status: Option<u16>,
    /// The body of the response, sent or lost.
    pub response_body: String,
    /// Whether the whole response was sent.
    pub answered: bool,
    /// Whether the client hung up before the response was ready, or while it sent its body.
    pub client_hung_up: bool,
    /// The hash of the whole body as it was sent; `None` if the body was incomplete.
    pub body_hash: Option<i64>,
    /// The code of the error that was answered.
    pub code: Option<String>,
    /// The numbers of the orders and refunds in the answer, those of a list included: the gateway's and the
    /// merchant's in turn.
    pub answer_nos: Vec<String>,
}

/// How much of a merchant's journal is kept.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How many entries.
    pub entries: i64,
    /// How many bytes of text they hold together (see [`Entry::bytes`]).
    pub bytes: i64,
}

impl Bounds {
    /// How much a journal may hold until somebody reads it: a tenth more, and at least a hundred entries more. So old
    /// entries are deleted many at a time, and a reader still sees the bounds.
    #[must_use]
    pub const fn unread(self) -> Self {
        let Self { entries, bytes } = self;
        let more = if entries / 10 > 100 { entries / 10 } else { 100 };
        Self { entries: entries + more, bytes: bytes + bytes / 10 }
    }
}

/// How much an entry keeps of its headers, in bytes of names and values.
const MAX_HEADERS: usize = 8 * 1024;

impl Entry {
    /// How much text is stored of it, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let headers = self.request_headers.iter().map(|(name, value)| name.len() + value.len());
        let texts = [Some(&self.path), self.idempotency_key.as_ref(), Some(&self.request_body)];
        let texts = texts.into_iter().flatten().chain([&self.response_body]);
        let numbers = self.order_nos.iter().chain(&self.refund_nos).chain(&self.answer_nos);
        headers.sum::<usize>() + texts.chain(numbers).map(String::len).sum::<usize>()
    }
}

/// The headers that an entry keeps. If they exceed the bound, the longest are left out.
#[must_use]
pub fn bounded_headers(headers: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let mut headers: Vec<_> = headers.collect();
    headers.sort_by_key(|(name, value)| name.len() + value.len());
    let mut bytes = 0;
    let fits = |(name, value): &(String, String)| {
        bytes += name.len() + value.len();
        bytes <= MAX_HEADERS
    };
    headers.into_iter().take_while(fits).collect()
}

/// The hash by which bodies are told apart.
#[must_use]
pub fn body_hash(body: &[u8]) -> i64 {
    Sha256::digest(body).first_chunk().copied().map(i64::from_be_bytes).unwrap_or_default()
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
    #[serde(with = "crate::domain::time::rfc3339")]
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
    fn of_many_headers_the_short_ones_are_kept() {
        let long = (0..85).map(|n| (format!("x-long-{n}"), "x".repeat(1024)));
        let headers = long.chain([("content-type".to_owned(), "application/json".to_owned())]);
        let kept = bounded_headers(headers);
        assert_eq!(kept["content-type"], "application/json");
        let bytes: usize = kept.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!((MAX_HEADERS - 1100..=MAX_HEADERS).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_body_has_the_hash_that_the_migration_gives_it() {
        assert_eq!(body_hash(b"{}"), 0x4413_6fa3_55b3_678a);
        assert_ne!(body_hash(b"{}"), body_hash(b"{ }"));
    }
}
