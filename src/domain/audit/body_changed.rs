//! `body_changed`: a retry whose body differs from the first attempt's: a timestamp, a random number, a
//! signature, or only the order of members. The gateway refuses it under the same key.

use std::collections::BTreeMap;

use serde_json::Value;

use super::finding::{Evidence, Finding, MAX_TEXTS, Rule};
use super::history::{Attempt, History};
use super::key_use::{KeyUse, key_uses};
use super::shared_key::is_same_write;
use crate::domain::json_diff::{self, Change};
use crate::domain::strict_json;

pub(super) fn findings(history: &History<'_>) -> Vec<Finding> {
    key_uses(history).iter().filter_map(finding).collect()
}

/// Judges the retries of the write that the key was first used for; others are judged by `shared_key`.
fn finding(key_use: &KeyUse<'_, '_>) -> Option<Finding> {
    let mut attempts =
        key_use.attempts.iter().copied().filter(|attempt| !attempt.outcome.leaves_key_unbound());
    let first = attempts.next()?;
    let changed: Vec<_> =
        attempts.filter(|retry| is_same_write(first, retry) && !is_same_request(first, retry)).collect();
    if changed.is_empty() {
        return None;
    }
    let what = What::changed(first, &changed);
    let message = format!(
        "{} was sent again under the Idempotency-Key {} with {}.",
        first.name(),
        key_use.key,
        what.in_words()
    );
    let finding = Finding::new(Rule::BodyChanged, message, what.evidence(first, key_use.key));
    let shown = std::iter::once(first).chain(changed);
    Some(finding.shown_by(shown.map(|attempt| attempt.call)))
}

/// Whether two attempts have the same query and body. Of an upload that broke off, what arrived counts.
fn is_same_request(first: &Attempt<'_>, retry: &Attempt<'_>) -> bool {
    let (one, other) = (&first.call.request_body, &retry.call.request_body);
    let cut = first.call.client_hung_up && other.starts_with(one)
        || retry.call.client_hung_up && one.starts_with(other);
    first.call.target == retry.call.target && (one == other || cut)
}

/// What differs between the first attempt and its retries.
enum What {
    /// The query.
    Query,
    /// Places in the JSON body, in the order of their names, each as it was when it first differed.
    Fields(BTreeMap<String, Change>),
    /// The same JSON, other bytes.
    Bytes,
    /// A body that is no JSON.
    Other,
}

impl What {
    fn changed(first: &Attempt<'_>, retries: &[&Attempt<'_>]) -> Self {
        let mut fields = BTreeMap::new();
        for retry in retries.iter().take(MAX_TEXTS) {
            if retry.call.target != first.call.target {
                return Self::Query;
            }
            let bodies = [first, retry].map(|attempt| strict_json::parse(&attempt.call.request_body));
            let [Ok(before), Ok(after)] = bodies else { return Self::Other };
            for change in json_diff::changes(&before, &after) {
                fields.entry(change.pointer.clone()).or_insert(change);
            }
        }
        if fields.is_empty() { Self::Bytes } else { Self::Fields(fields) }
    }

    fn in_words(&self) -> String {
        match self {
            Self::Query => "another query".to_owned(),
            Self::Bytes => {
                "the same JSON, other bytes: the order of members, white space or escapes differ".into()
            }
            Self::Other => "another body".to_owned(),
            Self::Fields(fields) => {
                let places: Vec<_> = fields.values().take(MAX_TEXTS).map(in_words).collect();
                format!("another body: {}", places.join("; "))
            }
        }
    }

    fn evidence(self, first: &Attempt<'_>, key: &str) -> Evidence {
        let fields = match self {
            Self::Fields(fields) => fields,
            Self::Query | Self::Bytes | Self::Other => BTreeMap::new(),
        };
        let mut evidence = Evidence { idempotency_keys: vec![key.to_owned()], ..Evidence::of(first) };
        for (pointer, change) in fields.iter().take(MAX_TEXTS) {
            evidence.before.extend(change.before.as_ref().map(|value| (pointer.clone(), bounded(value))));
            evidence.after.extend(change.after.as_ref().map(|value| (pointer.clone(), bounded(value))));
        }
        evidence.changed = Some(fields.into_keys().take(MAX_TEXTS).collect());
        evidence
    }
}

fn in_words(change: &Change) -> String {
    // The whole document has no name.
    let place = if change.pointer.is_empty() { "the body" } else { &change.pointer };
    let (before, after) = change.shown();
    format!("{place} was {before}, then {after}")
}

/// A value as evidence; a long one as text, shortened.
fn bounded(value: &Value) -> Value {
    let shown = json_diff::show(value);
    if shown.ends_with('…') { shown.into() } else { value.clone() }
}
