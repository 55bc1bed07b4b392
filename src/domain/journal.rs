//! The journal: what a merchant's client did under `/v1`, and what came of it (contract, section 7). Here
//! is what an entry holds; what never gets into it is in `masking`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;

use super::id::{MerchantId, RequestId};

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
    /// The path with its query.
    pub path: String,
    /// The Idempotency-Key, as sent.
    pub idempotency_key: Option<String>,
    /// The headers, by their names in lower case.
    pub request_headers: BTreeMap<String, String>,
    /// The body as text.
    pub request_body: String,
    /// The numbers of orders that it is about, the merchant's and the gateway's.
    pub order_nos: Vec<String>,
    /// The numbers of refunds that it is about, the merchant's and the gateway's.
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

impl Entry {
    /// How much text it holds, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let headers = self.request_headers.iter().map(|(name, value)| name.len() + value.len());
        self.path.len() + headers.sum::<usize>() + self.request_body.len() + self.response_body.len()
    }
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
