//! Faults: what can go wrong with one call or one delivery, and how a client asks for it in the header
//! `X-Sandbox-Fault` (contract, section 7). Rules, which ask for faults beforehand, are in `fault_rule`;
//! when a fault strikes is the service's.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::fields::FieldError;

/// The delay of a call, in milliseconds.
const CALL_DELAY_MS: RangeInclusive<u64> = 0..=60_000;
/// The delay of a delivery, in milliseconds: up to a day.
const DELIVERY_DELAY_MS: RangeInclusive<u64> = 0..=86_400_000;
/// The statuses of an error.
const STATUS: RangeInclusive<u64> = 500..=504;
/// What `Retry-After` may say, in seconds.
const RETRY_AFTER: RangeInclusive<u64> = 0..=3_600;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// With a call under `/v1`.
    Call(CallFault),
    /// With a delivery of an event.
    Delivery(DeliveryFault),
}

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFault {
    /// The connection is closed, and nothing has run.
    RequestLost,
    /// It has run and committed; then the connection is closed without a byte.
    ResponseLost,
    /// It has run and committed; then half of the body is sent.
    TruncatedResponse,
    /// The work waits while its key is in progress.
    Latency(Duration),
    /// A 5xx with this status, and nothing has run.
    ErrorBefore(u16),
    /// A 5xx with this status after the work has run and committed; the response is not stored.
    ErrorAfter(u16),
    /// A 429 that says when to come back, in seconds; nothing has run.
    RateLimited(u16),
}

/// What goes wrong with a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryFault {
    /// It is not sent, as if the receiver never answered.
    Lost,
    /// It is sent twice.
    Duplicate,
    /// It is sent later.
    Delay(Duration),
    /// Its signature fits nothing.
    BadSignature,
    /// It is signed for a time that is long over.
    StaleTimestamp,
}

/// The options that a kind may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultOptions {
    /// `delay_ms`, in milliseconds.
    pub delay_ms: Option<u64>,
    /// `status`, of an error.
    pub status: Option<u64>,
    /// `retry_after`, in seconds.
    pub retry_after: Option<u64>,
}

/// Every kind of fault of a call.
const CALL_KINDS: &str = "request_lost, response_lost, truncated_response, latency, error_before, error_after, \
                          rate_limited";
/// Every kind of fault of a delivery.
const DELIVERY_KINDS: &str =
    "webhook_lost, webhook_duplicate, webhook_delay, webhook_bad_signature, webhook_stale_timestamp";

impl Fault {
    /// The fault of a kind and its options. An option that its kind does not have is an error, and so is
    /// one out of its range.
    ///
    /// # Errors
    /// The fields that are wrong.
    pub fn new(kind: &str, options: FaultOptions) -> Result<Self, Vec<FieldError>> {
        let mut left = options;
        let mut errors = Vec::new();
        let mut take = |option: Option<u64>, name: &str, range: RangeInclusive<u64>, default: Option<u64>| {
            let number = option.or(default).filter(|number| range.contains(number));
            number.unwrap_or_else(|| {
                let (start, end) = (range.start(), range.end());
                errors.push(FieldError::invalid(name, &format!("must be an integer from {start} to {end}")));
                0
            })
        };
        let mut delay = |range| Duration::from_millis(take(left.delay_ms.take(), "delay_ms", range, None));
        let fault = match kind {
            "latency" => Self::Call(CallFault::Latency(delay(CALL_DELAY_MS))),
            "webhook_delay" => Self::Delivery(DeliveryFault::Delay(delay(DELIVERY_DELAY_MS))),
            "error_before" | "error_after" => {
                let status = short(take(left.status.take(), "status", STATUS, Some(500)));
                Self::Call(if kind == "error_before" {
                    CallFault::ErrorBefore(status)
                } else {
                    CallFault::ErrorAfter(status)
                })
            }
            "rate_limited" => {
                let after = take(left.retry_after.take(), "retry_after", RETRY_AFTER, Some(1));
                Self::Call(CallFault::RateLimited(short(after)))
            }
            "request_lost" => Self::Call(CallFault::RequestLost),
            "response_lost" => Self::Call(CallFault::ResponseLost),
            "truncated_response" => Self::Call(CallFault::TruncatedResponse),
            "webhook_lost" => Self::Delivery(DeliveryFault::Lost),
            "webhook_duplicate" => Self::Delivery(DeliveryFault::Duplicate),
            "webhook_bad_signature" => Self::Delivery(DeliveryFault::BadSignature),
            "webhook_stale_timestamp" => Self::Delivery(DeliveryFault::StaleTimestamp),
            _ => {
                let known = format!("must be one of {CALL_KINDS}, {DELIVERY_KINDS}");
                return Err(vec![FieldError::invalid("kind", &known)]);
            }
        };
        let unused =
            [("delay_ms", left.delay_ms), ("status", left.status), ("retry_after", left.retry_after)];
        for (name, _) in unused.iter().filter(|(_, option)| option.is_some()) {
            errors.push(FieldError::invalid(name, &format!("is no option of {kind}")));
        }
        if errors.is_empty() { Ok(fault) } else { Err(errors) }
    }

    /// The kind's name on the wire and in the database.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Call(fault) => fault.kind(),
            Self::Delivery(fault) => fault.kind(),
        }
    }

    /// The options, with the defaults filled in.
    #[must_use]
    pub fn options(self) -> FaultOptions {
        let none = FaultOptions::default();
        match self {
            Self::Call(CallFault::Latency(delay)) | Self::Delivery(DeliveryFault::Delay(delay)) => {
                FaultOptions { delay_ms: u64::try_from(delay.as_millis()).ok(), ..none }
            }
            Self::Call(CallFault::ErrorBefore(status) | CallFault::ErrorAfter(status)) => {
                FaultOptions { status: Some(status.into()), ..none }
            }
            Self::Call(CallFault::RateLimited(after)) => {
                FaultOptions { retry_after: Some(after.into()), ..none }
            }
            _ => none,
        }
    }
}

impl DeliveryFault {
    /// The kind's name on the wire and in the database.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Lost => "webhook_lost",
            Self::Duplicate => "webhook_duplicate",
            Self::Delay(_) => "webhook_delay",
            Self::BadSignature => "webhook_bad_signature",
            Self::StaleTimestamp => "webhook_stale_timestamp",
        }
    }
}

impl CallFault {
    /// The kind's name on the wire and in the database.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::RequestLost => "request_lost",
            Self::ResponseLost => "response_lost",
            Self::TruncatedResponse => "truncated_response",
            Self::Latency(_) => "latency",
            Self::ErrorBefore(_) => "error_before",
            Self::ErrorAfter(_) => "error_after",
            Self::RateLimited(_) => "rate_limited",
        }
    }

    /// Reads the header: `<kind>[;delay_ms=…;status=…;retry_after=…]`.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn parse(header: &str) -> Result<Self, String> {
        let mut parts = header.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let mut options = FaultOptions::default();
        for part in parts.filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| format!("'{part}' is not name=value"))?;
            let option = match name.trim() {
                "delay_ms" => &mut options.delay_ms,
                "status" => &mut options.status,
                "retry_after" => &mut options.retry_after,
                other => return Err(format!("'{other}' is no option; use delay_ms, status or retry_after")),
            };
            let number = value.trim().parse().map_err(|_| format!("'{value}' is not a number"))?;
            *option = Some(number);
        }
        match Fault::new(kind, options) {
            Ok(Fault::Call(fault)) => Ok(fault),
            Err(errors) if errors.iter().all(|error| error.param != "kind") => Err(errors[0].message.clone()),
            _ => Err(format!("'{kind}' is no kind of a call; use {CALL_KINDS}")),
        }
    }
}

/// A number that its range keeps small.
fn short(number: u64) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_header() {
        let second = Duration::from_secs(3);
        assert_eq!(CallFault::parse("latency;delay_ms=3000"), Ok(CallFault::Latency(second)));
        assert_eq!(CallFault::parse("error_after; status=503"), Ok(CallFault::ErrorAfter(503)));
        assert_eq!(CallFault::parse("error_before"), Ok(CallFault::ErrorBefore(500)));
        assert_eq!(CallFault::parse("response_lost;"), Ok(CallFault::ResponseLost));
        assert_eq!(CallFault::parse("rate_limited;retry_after=7"), Ok(CallFault::RateLimited(7)));
        for bad in [
            "",
            "latency",
            "latency;delay_ms=x",
            "latency;delay_ms=60001",
            "error_after;status=200",
            "response_lost;status=500",
            "webhook_lost",
            "crash",
            "latency;3",
        ] {
            assert!(CallFault::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_fault_is_made_from_what_it_tells_of_itself() {
        for kind in CALL_KINDS.split(", ").chain(DELIVERY_KINDS.split(", ")) {
            let delay_ms = kind.ends_with("delay") || kind == "latency";
            let options = FaultOptions { delay_ms: delay_ms.then_some(5), ..FaultOptions::default() };
            let fault = Fault::new(kind, options).unwrap();
            assert_eq!(fault.kind(), kind);
            assert_eq!(Fault::new(kind, fault.options()), Ok(fault));
        }
    }
}
