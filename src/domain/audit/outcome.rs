//! What a client knows after an attempt.

use serde::Deserialize;

use super::Call;

/// What an attempt told the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is done.
    Succeeded,
    /// It is refused, and the same request will be again. The status and the code.
    Refused(u16, String),
    /// 429: nothing ran, and the same request may be sent later.
    Throttled,
    /// Nobody knows.
    Unknown(Unknown),
}

/// Why nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    /// 409: an earlier attempt still runs.
    InProgress,
    /// A 5xx.
    ServerError(u16),
    /// The connection closed without a whole response.
    NoAnswer,
    /// The client did not wait for the response.
    HungUp,
}

impl Outcome {
    pub(super) fn of(call: &Call) -> Self {
        if call.client_hung_up {
            return Self::Unknown(Unknown::HungUp);
        }
        match call.status {
            Some(status) if call.answered => Self::of_status(status, &call.response_body),
            _ => Self::Unknown(Unknown::NoAnswer),
        }
    }

    fn of_status(status: u16, body: &[u8]) -> Self {
        match status {
            200..=299 => Self::Succeeded,
            409 => Self::Unknown(Unknown::InProgress),
            429 => Self::Throttled,
            300..=499 => Self::Refused(status, code(body)),
            _ => Self::Unknown(Unknown::ServerError(status)),
        }
    }

    pub(super) const fn unknown(&self) -> Option<Unknown> {
        match self {
            Self::Unknown(why) => Some(*why),
            _ => None,
        }
    }

    pub(super) const fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(..))
    }

    /// Whether the gateway refused what stood around the request, before it looked at what the key is
    /// bound to: then this attempt bound it to nothing.
    pub(super) fn leaves_key_unbound(&self) -> bool {
        match self {
            Self::Refused(401 | 405 | 413 | 415, _) => true,
            Self::Refused(_, code) => code == "fault_invalid" || self.is_malformed_key(),
            _ => false,
        }
    }

    /// Whether the header Idempotency-Key was there, and could not be read.
    pub(super) fn is_malformed_key(&self) -> bool {
        matches!(self, Self::Refused(_, code) if code == "idempotency_key_invalid")
    }
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InProgress => f.write_str("409: an earlier attempt still ran"),
            Self::ServerError(status) => write!(f, "{status}"),
            Self::NoAnswer => f.write_str("no whole answer"),
            Self::HungUp => f.write_str("no answer before the client hung up"),
        }
    }
}

/// The code of an error's body; empty where there is none.
fn code(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Error {
        code: String,
    }
    serde_json::from_slice(body).map_or_else(|_| String::new(), |error: Error| error.code)
}
