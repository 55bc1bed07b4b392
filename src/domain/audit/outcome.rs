//! What a client knows after an attempt.

use super::Call;

/// What an attempt told the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ClientOutcome {
    /// It is done.
    Succeeded,
    /// It is refused, and a repetition would be refused again. The status and the code.
    Refused(u16, String),
    /// 429: nothing ran, and the same request may be sent later.
    Throttled,
    /// The outcome is unknown.
    Unknown(Unknown),
}

/// Why the outcome is unknown.
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

impl ClientOutcome {
    pub(super) fn of(call: &Call) -> Self {
        if call.client_hung_up {
            return Self::Unknown(Unknown::HungUp);
        }
        match call.status {
            Some(status) if call.answered => {
                Self::of_status(status, call.code.as_deref().unwrap_or_default())
            }
            _ => Self::Unknown(Unknown::NoAnswer),
        }
    }

    fn of_status(status: u16, code: &str) -> Self {
        match status {
            200..=299 => Self::Succeeded,
            409 => Self::Unknown(Unknown::InProgress),
            429 => Self::Throttled,
            300..=499 => Self::Refused(status, code.to_owned()),
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

    /// Whether the gateway refused the request before it looked at its key, so that this attempt did not bind the
    /// key.
    pub(super) fn leaves_key_unbound(&self) -> bool {
        match self {
            Self::Refused(401 | 405 | 413 | 415, _) => true,
            Self::Refused(_, code) => code == "fault_invalid" || self.is_malformed_key(),
            _ => false,
        }
    }

    /// Whether the header Idempotency-Key was malformed.
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
