//! Fault rules: which of the next calls or deliveries a fault strikes, and how often (contract, section
//! 7). Counting, which must be exact across instances, is the database's.

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use super::event::EventType;
use super::fault::{Fault, FaultOptions};
use super::fields::{FieldError, Fields, Parsed, kind_of};
use super::id::FaultId;
use super::number::MerchantNumber;
use super::occasion::Occasion;

/// How many times a rule may be asked to fire.
const MAX_TIMES: i64 = 1_000_000_000;
const MAX_PATH: usize = 512;

/// What a rule is asked to be.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleContent {
    /// What goes wrong.
    pub fault: Fault,
    /// Which calls or deliveries it strikes.
    pub matcher: Matcher,
    /// How often it fires; without it, until it is deleted.
    pub times: Option<i64>,
    /// With which probability it strikes what it matches; without it, always.
    pub probability: Option<f64>,
    /// What the throws of the dice come from: the same seed gives the same sequence.
    pub seed: i64,
}

/// Which calls or deliveries are meant: all that the members given fit.
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

/// A rule as it is stored.
#[derive(Debug, Clone)]
pub struct FaultRule {
    /// Its identifier.
    pub fault_id: FaultId,
    /// What it was asked to be.
    pub content: RuleContent,
    /// How often it has struck.
    pub fired: i64,
    /// When it was made, in the merchant's time.
    pub created_at: OffsetDateTime,
}

impl RuleContent {
    /// Reads the body of `POST /sandbox/faults`. `seed` is for a rule with a probability that names none.
    #[must_use]
    pub fn from_json(object: Map<String, Value>, seed: i64) -> Parsed<Self> {
        let mut fields = Fields::new(object);
        let kind = fields.required("kind", text);
        let options = FaultOptions {
            delay_ms: fields.optional("delay_ms", integer),
            status: fields.optional("status", integer),
            retry_after: fields.optional("retry_after", integer),
        };
        let matcher = matcher(&mut fields);
        // Null is not the same as nothing here: it stands for no end.
        let endless = fields.is_null("times");
        let times = fields.optional("times", times).or(if endless { None } else { Some(1) });
        let probability = fields.optional("probability", probability);
        let seed = fields
            .optional("seed", |value| value.as_i64().ok_or("must be an integer".to_owned()))
            .unwrap_or(seed);
        let fault = kind.and_then(|kind| {
            let fault = Fault::new(&kind, options);
            fault.map_err(|errors| errors.into_iter().for_each(|error| fields.refuse(error))).ok()
        });
        if let Some(fault) = fault {
            refuse_what_never_matches(&mut fields, fault, &matcher);
        }
        fields.finish(|| Some(Self { fault: fault?, matcher, times, probability, seed }))
    }

    /// Whether the `n`-th occasion that matches is struck, counted from 1.
    #[must_use]
    pub fn strikes(&self, n: i64) -> bool {
        self.probability.is_none_or(|probability| throw(self.seed, n) < probability)
    }
}

/// A number from 0 (included) to 1 (excluded) that looks like chance, and is the same for the same
/// arguments for ever.
fn throw(seed: i64, n: i64) -> f64 {
    let digest = Sha256::new().chain_update(seed.to_be_bytes()).chain_update(n.to_be_bytes()).finalize();
    let first = digest.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte));
    f64::from(first) / (f64::from(u32::MAX) + 1.0)
}

fn matcher(fields: &mut Fields) -> Matcher {
    let number = |value: &Value| MerchantNumber::from_json(value).map(|number| number.as_str().to_owned());
    Matcher {
        method: fields.optional("method", |value| {
            let method = value.as_str().filter(|method| ["GET", "POST"].contains(method));
            method.map(str::to_owned).ok_or_else(|| "must be \"GET\" or \"POST\"".to_owned())
        }),
        path: fields.optional("path", |value| {
            let path = value.as_str().filter(|path| path.len() <= MAX_PATH && !path.contains(['?', '\0']));
            let path = path.filter(|path| path.starts_with("/v1") || path.starts_with('*'));
            path.map(str::to_owned).ok_or_else(|| {
                "must be a path under /v1 without a query, in which * stands for anything".to_owned()
            })
        }),
        out_trade_no: fields.optional("out_trade_no", number),
        out_refund_no: fields.optional("out_refund_no", number),
        event_type: fields.optional("event_type", |value| {
            let known = value.as_str().and_then(EventType::from_code).map(|known| known.code().to_owned());
            known.ok_or_else(|| format!("must be one of {}", EventType::ALL.map(EventType::code).join(", ")))
        }),
    }
}

/// A rule that can never fire is a mistake.
fn refuse_what_never_matches(fields: &mut Fields, fault: Fault, matcher: &Matcher) {
    let of_calls = [("method", matcher.method.is_some()), ("path", matcher.path.is_some())];
    let of_deliveries = [("event_type", matcher.event_type.is_some())];
    let (wrong, what): (&[_], _) = match fault {
        Fault::Call(_) => (&of_deliveries, "calls under /v1"),
        Fault::Delivery(_) => (&of_calls, "deliveries of webhooks"),
    };
    for (name, _) in wrong.iter().filter(|(_, is_there)| *is_there) {
        let reason = format!("never matches: {} is about {what}", fault.kind());
        fields.refuse(FieldError::invalid(name, &reason));
    }
}

impl Matcher {
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

fn text(value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("must be a string; {} was sent", kind_of(value)))
}

fn integer(value: &Value) -> Result<u64, String> {
    value.as_u64().ok_or_else(|| format!("must be an integer; {} was sent", kind_of(value)))
}

fn times(value: &Value) -> Result<i64, String> {
    let times = value.as_i64().filter(|times| (1..=MAX_TIMES).contains(times));
    times.ok_or_else(|| format!("must be an integer from 1 to {MAX_TIMES}, or null for no end"))
}

fn probability(value: &Value) -> Result<f64, String> {
    let probability = value.as_f64().filter(|probability| (0.0..=1.0).contains(probability));
    probability.ok_or_else(|| "must be a number from 0 to 1".to_owned())
}

impl Serialize for FaultRule {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (content, matcher) = (&self.content, &self.content.matcher);
        let options = content.fault.options();
        FaultRuleView {
            id: self.fault_id,
            kind: content.fault.kind(),
            method: matcher.method.as_deref(),
            path: matcher.path.as_deref(),
            out_trade_no: matcher.out_trade_no.as_deref(),
            out_refund_no: matcher.out_refund_no.as_deref(),
            event_type: matcher.event_type.as_deref(),
            delay_ms: options.delay_ms,
            status: options.status,
            retry_after: options.retry_after,
            times: content.times,
            probability: content.probability,
            seed: content.probability.map(|_| content.seed),
            fired: self.fired,
            created_at: self.created_at,
        }
        .serialize(serializer)
    }
}

/// A rule on the wire.
#[derive(Serialize)]
struct FaultRuleView<'a> {
    id: FaultId,
    kind: &'static str,
    method: Option<&'a str>,
    path: Option<&'a str>,
    out_trade_no: Option<&'a str>,
    out_refund_no: Option<&'a str>,
    event_type: Option<&'a str>,
    delay_ms: Option<u64>,
    status: Option<u64>,
    retry_after: Option<u64>,
    times: Option<i64>,
    probability: Option<f64>,
    seed: Option<i64>,
    fired: i64,
    #[serde(with = "super::time")]
    created_at: OffsetDateTime,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule(value: Value) -> Result<RuleContent, Vec<FieldError>> {
        let Value::Object(object) = value else { panic!("an object") };
        RuleContent::from_json(object, 7).content
    }

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

    #[test]
    fn a_rule_fires_once_unless_it_says_otherwise() {
        assert_eq!(rule(json!({"kind": "response_lost"})).unwrap().times, Some(1));
        assert_eq!(rule(json!({"kind": "response_lost", "times": null})).unwrap().times, None);
        assert_eq!(rule(json!({"kind": "response_lost", "times": 3})).unwrap().times, Some(3));
        for bad in [json!(0), json!(-1), json!(1.5), json!("1")] {
            assert!(rule(json!({"kind": "response_lost", "times": bad})).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_rule_that_can_never_fire_is_refused() {
        assert!(rule(json!({"kind": "webhook_lost", "path": "/v1/orders"})).is_err());
        assert!(rule(json!({"kind": "latency", "delay_ms": 1, "event_type": "order.closed"})).is_err());
        assert!(rule(json!({"kind": "latency", "delay_ms": 1, "path": "/sandbox/clock"})).is_err());
        assert!(rule(json!({"kind": "webhook_lost", "event_type": "order.opened"})).is_err());
    }

    #[test]
    fn the_same_seed_gives_the_same_sequence() {
        let content = rule(json!({"kind": "response_lost", "probability": 0.3, "seed": 42})).unwrap();
        let sequence: Vec<_> = (1..=1000).map(|n| content.strikes(n)).collect();
        assert_eq!(sequence, (1..=1000).map(|n| content.strikes(n)).collect::<Vec<_>>());
        let struck = sequence.iter().filter(|struck| **struck).count();
        assert!((250..350).contains(&struck), "{struck}");
        let other = rule(json!({"kind": "response_lost", "probability": 0.3, "seed": 43})).unwrap();
        assert_ne!(sequence, (1..=1000).map(|n| other.strikes(n)).collect::<Vec<_>>());
        assert!(!rule(json!({"kind": "response_lost", "probability": 0})).unwrap().strikes(1));
        assert!(rule(json!({"kind": "response_lost", "probability": 1})).unwrap().strikes(1));
    }
}
