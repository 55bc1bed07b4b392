//! The header `X-Sandbox-Fault`, by which one call asks for a fault (contract, section 7).

use super::call::{self, CallFault};
use super::options::{FaultOption, FaultOptions};
use super::{Fault, kind};
use crate::domain::code::Code;
use crate::domain::json::fields;

/// Reads the header: `<kind>[;delay_ms=…;status=…;retry_after=…]`.
///
/// # Errors
/// What is wrong, and what would be right.
pub fn parse(header: &str) -> Result<CallFault, String> {
    let mut parts = header.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    let mut options = FaultOptions::default();
    for part in parts.filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(|| format!("'{part}' is not name=value"))?;
        let name = name.trim();
        let option = FaultOption::from_code(name).ok_or_else(|| {
            format!("'{name}' is no option; use {}", fields::listed(&FaultOption::names(), "or"))
        })?;
        let number = value.trim().parse().map_err(|_| format!("'{value}' is not a number"))?;
        options.set(option, Some(number));
    }
    match Fault::new(kind, options) {
        Ok(Fault::Call(fault)) => Ok(fault),
        Err(errors) if errors.iter().all(|error| error.param != "kind") => Err(errors[0].message.clone()),
        Ok(Fault::Delivery(_)) | Err(_) => {
            let known: Vec<_> = kind::names(call::KINDS).collect();
            Err(format!("'{kind}' is no kind of a call; use {}", known.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str) -> Result<(&'static str, FaultOptions), String> {
        parse(header).map(|fault| (fault.kind(), fault.options()))
    }

    #[test]
    fn reads_a_kind_and_its_options() {
        let none = FaultOptions::default();
        let status = |status| FaultOptions { status: Some(status), ..none };
        assert_eq!(
            read("latency;delay_ms=3000"),
            Ok(("latency", FaultOptions { delay_ms: Some(3000), ..none }))
        );
        assert_eq!(read("error_after; status=503"), Ok(("error_after", status(503))));
        assert_eq!(read("error_before"), Ok(("error_before", status(500))));
        assert_eq!(read("response_lost;"), Ok(("response_lost", none)));
        let after = FaultOptions { retry_after: Some(7), ..none };
        assert_eq!(read("rate_limited;retry_after=7"), Ok(("rate_limited", after)));
    }

    #[test]
    fn says_what_is_wrong_and_what_would_be_right() {
        let kinds = kind::names(call::KINDS).collect::<Vec<_>>().join(", ");
        for (header, told) in [
            ("", format!("'' is no kind of a call; use {kinds}")),
            ("crash", format!("'crash' is no kind of a call; use {kinds}")),
            ("webhook_lost", format!("'webhook_lost' is no kind of a call; use {kinds}")),
            ("webhook_lost;status=500", "status is no option of webhook_lost.".to_owned()),
            ("latency", "delay_ms must be an integer from 0 to 60000.".to_owned()),
            ("latency;delay_ms=60001", "delay_ms must be an integer from 0 to 60000.".to_owned()),
            ("latency;delay_ms=x", "'x' is not a number".to_owned()),
            ("latency;3", "'3' is not name=value".to_owned()),
            ("latency;delay=3", "'delay' is no option; use delay_ms, status or retry_after".to_owned()),
            ("error_after;status=200", "status must be an integer from 500 to 504.".to_owned()),
            ("response_lost;status=500", "status is no option of response_lost.".to_owned()),
        ] {
            assert_eq!(read(header), Err(told), "{header}");
        }
    }
}
