//! Fault rules: the fault that strikes later calls or deliveries, and how often (contract, section 7). `matcher` says
//! which ones. Counting, which must be exact across instances, is left to the database.

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use super::Fault;
use super::matcher::Matcher;
use super::options::{FaultOption, FaultOptions};
use crate::domain::code::Code;
use crate::domain::id::FaultId;
use crate::domain::json::fields::{Fields, Parsed, kind_of};

/// How many times a rule may be asked to fire.
const MAX_TIMES: i64 = 1_000_000_000;

/// What a client asks of a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleContent {
    /// What goes wrong.
    pub fault: Fault,
    /// Which calls or deliveries it strikes.
    pub matcher: Matcher,
    /// How often it fires; without it, until it is deleted.
    pub times: Option<i64>,
    /// The probability with which it strikes a match; without it, it always strikes.
    pub probability: Option<f64>,
    /// The seed of the random decisions: the same seed gives the same sequence.
    pub seed: i64,
}

/// A rule as it is stored.
#[derive(Debug, Clone)]
pub struct FaultRule {
    /// Its identifier.
    pub fault_id: FaultId,
    /// What the client asked for.
    pub content: RuleContent,
    /// How often it has struck.
    pub fired: i64,
    /// When it was created, in the merchant's time.
    pub created_at: OffsetDateTime,
}

impl RuleContent {
    /// Reads the body of `POST /sandbox/faults`. `seed` is for a rule with a probability that names none.
    #[must_use]
    pub fn from_json(object: Map<String, Value>, seed: i64) -> Parsed<Self> {
        let mut fields = Fields::new(object);
        let kind = fields.required("kind", text);
        let mut options = FaultOptions::default();
        for option in FaultOption::ALL {
            options.set(*option, fields.optional(option.code(), integer));
        }
        let matcher = Matcher::read(&mut fields);
        // Null does not count as absent here: it means without end.
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
            matcher.refuse_what_never_matches(fault, &mut fields);
        }
        fields.finish(|| Some(Self { fault: fault?, matcher, times, probability, seed }))
    }

    /// Whether the `n`-th occasion that matches is struck, counted from 1.
    #[must_use]
    pub fn strikes(&self, n: i64) -> bool {
        self.probability.is_none_or(|probability| throw(self.seed, n) < probability)
    }
}

/// A pseudo-random number from 0 (included) to 1 (excluded), always the same for the same arguments.
fn throw(seed: i64, n: i64) -> f64 {
    let digest = Sha256::new().chain_update(seed.to_be_bytes()).chain_update(n.to_be_bytes()).finalize();
    let first = digest.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte));
    f64::from(first) / (f64::from(u32::MAX) + 1.0)
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
    #[serde(with = "crate::domain::time::rfc3339")]
    created_at: OffsetDateTime,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::fields::FieldError;
    use serde_json::json;

    fn rule(value: Value) -> Result<RuleContent, Vec<FieldError>> {
        let Value::Object(object) = value else { panic!("an object") };
        RuleContent::from_json(object, 7).content
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
