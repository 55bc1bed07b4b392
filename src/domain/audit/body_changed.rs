//! `body_changed`: a retry whose body differs from the first attempt's: a timestamp, a random number, a
//! signature, or only the order of members. The gateway refuses it under the same key.

use std::collections::BTreeMap;

use serde_json::Value;

use super::finding::{Evidence, Finding, MAX_TEXTS, Rule};
use super::history::{Attempt, History};
use super::key_use::{KeyUse, key_uses};
use super::shared_key::is_same_write;
use crate::domain::json::diff::{self, Change};
use crate::domain::masking;

pub(super) fn findings(history: &History<'_>) -> Vec<Finding> {
    key_uses(history).iter().filter_map(finding).collect()
}

/// Judges the retries of the write that the key was first used for; others are judged by `shared_key`.
fn finding(key_use: &KeyUse<'_, '_>) -> Option<Finding> {
    let mut attempts = key_use.attempts.iter().copied().filter(|attempt| attempt.may_have_bound_key());
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

/// Whether two attempts have the same query and body.
fn is_same_request(first: &Attempt<'_>, retry: &Attempt<'_>) -> bool {
    (&first.call.path, first.call.body_hash) == (&retry.call.path, retry.call.body_hash)
}

/// What differs between the first attempt and its retries.
enum What {
    /// The query.
    Query,
    /// Places in the JSON body, in the order of their names, each as it was when it first differed.
    Fields(BTreeMap<String, Change>),
    /// The same JSON, other bytes.
    Bytes,
    /// A body of which the journal cannot tell what has changed: not JSON, too long, or masked there.
    Other,
}

impl What {
    fn changed(first: &Attempt<'_>, retries: &[&Attempt<'_>]) -> Self {
        let mut fields = BTreeMap::new();
        for retry in retries.iter().take(MAX_TEXTS) {
            if retry.call.path != first.call.path {
                return Self::Query;
            }
            let bodies = [first, retry].map(|attempt| attempt.call.request_body.as_bytes());
            // What differs was masked.
            if bodies[0] == bodies[1] {
                return Self::Other;
            }
            let [Ok(before), Ok(after)] = bodies.map(masking::parse) else { return Self::Other };
            for change in diff::changes(&before, &after).listed {
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
    // The pointer to the whole document is empty.
    let place = if change.pointer.is_empty() { "the body" } else { &change.pointer };
    let (before, after) = change.shown();
    format!("{place} was {before}, then {after}")
}

/// A value as evidence; a long one as text, shortened.
fn bounded(value: &Value) -> Value {
    let shown = diff::show(value);
    if shown.ends_with('…') { shown.into() } else { value.clone() }
}
