//! Faults: what a client can ask to go wrong with one request, in the header `X-Sandbox-Fault`
//! (contract, section 7). When a fault strikes is the service's.

use std::time::Duration;

const MAX_DELAY_MS: u64 = 60_000;

/// What goes wrong with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The work waits while its key is in progress.
    Latency(Duration),
    /// A 5xx with this status, and nothing has run.
    ErrorBefore(u16),
    /// A 5xx with this status after the work has run and committed.
    ErrorAfter(u16),
}

impl Fault {
    /// Reads `<kind>[;delay_ms=…;status=…]`.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn parse(header: &str) -> Result<Self, String> {
        let mut parts = header.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let (mut delay_ms, mut status) = (None, None);
        for part in parts.filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| format!("'{part}' is not name=value"))?;
            match name.trim() {
                "delay_ms" => delay_ms = Some(number(value, 0..=MAX_DELAY_MS)?),
                "status" => status = Some(number(value, 500..=504)?),
                other => return Err(format!("'{other}' is no option; use delay_ms or status")),
            }
        }
        let status = status.and_then(|status| u16::try_from(status).ok()).unwrap_or(500);
        match kind {
            "latency" => {
                let delay = delay_ms.ok_or("latency needs delay_ms, as in latency;delay_ms=3000")?;
                Ok(Self::Latency(Duration::from_millis(delay)))
            }
            "error_before" => Ok(Self::ErrorBefore(status)),
            "error_after" => Ok(Self::ErrorAfter(status)),
            other => Err(format!("'{other}' is no kind; use latency, error_before or error_after")),
        }
    }
}

fn number(text: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let (start, end) = (range.start(), range.end());
    let wrong = || format!("'{text}' is not a number from {start} to {end}");
    text.trim().parse().ok().filter(|number| range.contains(number)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_header() {
        assert_eq!(Fault::parse("latency;delay_ms=3000"), Ok(Fault::Latency(Duration::from_secs(3))));
        assert_eq!(Fault::parse("error_after; status=503"), Ok(Fault::ErrorAfter(503)));
        assert_eq!(Fault::parse("error_before"), Ok(Fault::ErrorBefore(500)));
        for bad in [
            "",
            "latency",
            "latency;delay_ms=x",
            "latency;delay_ms=60001",
            "error_after;status=200",
            "crash",
            "latency;3",
        ] {
            assert!(Fault::parse(bad).is_err(), "{bad}");
        }
    }
}
