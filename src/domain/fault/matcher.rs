//! Which calls or deliveries a fault rule is about (contract, section 7).

use serde_json::Value;

use super::Fault;
use super::occasion::Occasion;
use crate::domain::code::Code;
use crate::domain::json::fields::{self, FieldError, Fields};
use crate::domain::payment::number::MerchantNumber;
use crate::domain::webhook::event::EventType;

/// How long a pattern of a path may be, in bytes.
const MAX_PATH: usize = 512;
/// The methods of calls under `/v1`.
const METHODS: [&str; 2] = ["GET", "POST"];

/// Which calls or deliveries are meant: those that match every given member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matcher {
    /// The HTTP method.
    pub method: Option<String>,
    /// The path without its query; `*` stands for anything.
    pub path: Option<String>,
    /// The merchant's number of the order.
    pub out_trade_no: Option<String>,
    /// The merchant's number of the refund.
    pub out_refund_no: Option<String>,
    /// The type of the event, for deliveries.
    pub event_type: Option<String>,
}

impl Matcher {
    /// Reads the members of a rule that say what it strikes.
    pub(super) fn read(fields: &mut Fields) -> Self {
        let number =
            |value: &Value| MerchantNumber::from_json(value).map(|number| number.as_str().to_owned());
        Self {
            method: fields.optional("method", |value| {
                let method = value.as_str().filter(|method| METHODS.contains(method));
                method.map(str::to_owned).ok_or_else(|| fields::one_of(&METHODS))
            }),
            path: fields.optional("path", |value| {
                let path =
                    value.as_str().filter(|path| path.len() <= MAX_PATH && !path.contains(['?', '\0']));
                let path = path.filter(|path| path.starts_with("/v1") || path.starts_with('*'));
                path.map(str::to_owned).ok_or_else(|| {
                    "must be a path under /v1 without a query, in which * stands for anything".to_owned()
                })
            }),
            out_trade_no: fields.optional("out_trade_no", number),
            out_refund_no: fields.optional("out_refund_no", number),
            event_type: fields.optional("event_type", |value| {
                fields::code(value).map(|known: EventType| known.code().to_owned())
            }),
        }
    }

    /// Refuses a matcher that the fault can never match: such a rule is a mistake.
    pub(super) fn refuse_what_never_matches(&self, fault: Fault, fields: &mut Fields) {
        let of_calls = [("method", self.method.is_some()), ("path", self.path.is_some())];
        let of_deliveries = [("event_type", self.event_type.is_some())];
        let (wrong, what): (&[_], _) = match fault {
            Fault::Call(_) => (&of_deliveries, "calls under /v1"),
            Fault::Delivery(_) => (&of_calls, "deliveries of webhooks"),
        };
        for (name, _) in wrong.iter().filter(|(_, is_there)| *is_there) {
            let reason = format!("never matches: {} is about {what}", fault.kind());
            fields.refuse(FieldError::invalid(name, &reason));
        }
    }

    /// Whether an occasion is meant.
    #[must_use]
    pub fn matches(&self, occasion: &Occasion) -> bool {
        let fits = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let names = |wanted: &Option<String>, found: &[String]| {
            wanted.as_ref().is_none_or(|wanted| found.contains(wanted))
        };
        let path = occasion.path.as_deref().unwrap_or_default();
        fits(&self.method, occasion.method.as_deref())
            && self.path.as_deref().is_none_or(|pattern| fits_pattern(pattern, path))
            && names(&self.out_trade_no, &occasion.order_nos)
            && names(&self.out_refund_no, &occasion.refund_nos)
            && fits(&self.event_type, occasion.event_type)
    }
}

/// Whether a path fits a pattern in which `*` stands for anything.
fn fits_pattern(pattern: &str, path: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == path };
    let Some(mut left) = path.strip_prefix(start) else { return false };
    let Some((middle, end)) = rest.rsplit_once('*') else { return left.ends_with(rest) };
    for piece in middle.split('*') {
        match left.find(piece) {
            Some(at) => left = &left[at + piece.len()..],
            None => return false,
        }
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_exact_but_for_its_stars() {
        for (pattern, path, fits) in [
            ("/v1/orders", "/v1/orders", true),
            ("/v1/orders", "/v1/orders/A", false),
            ("/v1/orders/*", "/v1/orders/A", true),
            ("/v1/orders/*", "/v1/orders", false),
            ("/v1/*/A*", "/v1/refunds/ABC", true),
            ("/v1/*/close", "/v1/orders/A/close", true),
            ("/v1/*/close", "/v1/orders/A", false),
            ("*", "/v1/orders", true),
            ("*s*s*", "/v1/orders", false),
            ("/v1/aa*aa", "/v1/aaa", false),
        ] {
            assert_eq!(fits_pattern(pattern, path), fits, "{pattern} {path}");
        }
    }
}
