//! `retried_final_error`: the same request again after a 4xx other than 409 and 429, whatever the key.
//!
//! A client may have mended something outside the body: a header, the key, or the state of the order. So there is no
//! finding if the repeated request had another outcome, or if the answers do not show it.

use std::collections::HashMap;

use super::finding::{Evidence, Finding, Rule};
use super::history::{Attempt, History};
use super::outcome::ClientOutcome;

pub(super) fn findings(history: &History<'_>) -> Vec<Finding> {
    same_requests(history).iter().filter_map(|attempts| finding(attempts)).collect()
}

/// Groups attempts whose path, query and body are the same.
fn same_requests<'h, 'a>(history: &'h History<'a>) -> Vec<Vec<&'h Attempt<'a>>> {
    let mut places = HashMap::new();
    let mut groups: Vec<Vec<_>> = Vec::new();
    for attempt in history.attempts().filter(|attempt| history.is_whole_since(attempt)) {
        // An incomplete body equals no other.
        let Some(hash) = attempt.call.body_hash else { continue };
        let request = (attempt.call.path.as_str(), hash);
        let place = *places.entry(request).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(attempt),
            None => groups.push(vec![attempt]),
        }
    }
    groups
}

fn finding(attempts: &[&Attempt<'_>]) -> Option<Finding> {
    // One attempt for each refusal: the first, until its key has expired.
    let mut refused: Vec<&Attempt<'_>> = Vec::new();
    let mut shown: Vec<&Attempt<'_>> = Vec::new();
    for attempt in attempts {
        if let Some(first) = refused.iter().find(|first| is_repeated(first, attempt)) {
            shown.extend(shown.is_empty().then_some(*first));
            shown.push(attempt);
        } else if attempt.outcome.is_refused() && !ran_beside_unknown(attempts, attempt) {
            refused.retain(|first| first.outcome != attempt.outcome);
            refused.push(attempt);
        }
    }
    let first = shown.first()?;
    let ClientOutcome::Refused(status, code) = &first.outcome else { return None };
    let message = format!(
        "{} got the final answer {status} {code}, and the same request was sent again.",
        first.name()
    );
    let evidence = Evidence { status: Some(*status), ..Evidence::of(first) };
    let finding = Finding::new(Rule::RetriedFinalError, message, evidence);
    Some(finding.shown_by(shown.iter().map(|attempt| attempt.call)))
}

/// Whether an attempt repeats a refused one with nothing mended in between.
fn is_repeated(refused: &Attempt<'_>, attempt: &Attempt<'_>) -> bool {
    let same_outcome = match &attempt.outcome {
        ClientOutcome::Refused(..) => attempt.outcome == refused.outcome,
        ClientOutcome::Succeeded => false,
        // The refusal is stored under the key, so this cannot have had another outcome.
        ClientOutcome::Throttled | ClientOutcome::Unknown(_) => {
            let same_key = attempt.key().is_some() && attempt.key() == refused.key();
            same_key && !refused.outcome.leaves_key_unbound()
        }
    };
    same_outcome && refused.ended_before(attempt) && !refused.key_expired_by(attempt)
}

/// Whether another attempt ran at the same time and its outcome is unknown, as after a double click. Its sender does
/// not know of the refusal and is right to send it again.
fn ran_beside_unknown(attempts: &[&Attempt<'_>], refused: &Attempt<'_>) -> bool {
    let unknown = attempts.iter().filter(|attempt| attempt.outcome.unknown().is_some());
    unknown.into_iter().any(|attempt| attempt.overlaps(refused))
}
