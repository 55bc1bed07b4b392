//! `retried_final_error`: the same request again after a 4xx other than 409 and 429, whatever the key.
//!
//! What a client mended need not be in the body: a header, the key, or the state of the order. So there is
//! no finding where the repeated request had another outcome, nor where the answers do not tell.

use std::collections::HashMap;

use super::finding::{Evidence, Finding, Rule};
use super::history::{Attempt, History};
use super::outcome::Outcome;

pub(super) fn findings(history: &History<'_>) -> Vec<Finding> {
    same_requests(history).iter().filter_map(|attempts| finding(attempts)).collect()
}

/// Groups attempts whose path, query and body are the same.
fn same_requests<'h, 'a>(history: &'h History<'a>) -> Vec<Vec<&'h Attempt<'a>>> {
    let mut places = HashMap::new();
    let mut groups: Vec<Vec<_>> = Vec::new();
    for attempt in history.attempts() {
        let request = (attempt.call.target.as_str(), attempt.call.request_body.as_slice());
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
        } else if attempt.outcome.is_refused() && is_whole(attempt) && !ran_beside_unknown(attempts, attempt)
        {
            refused.retain(|first| first.outcome != attempt.outcome);
            refused.push(attempt);
        }
    }
    let first = shown.first()?;
    let Outcome::Refused(status, code) = &first.outcome else { return None };
    let message = format!(
        "{} got the final answer {status} {code}, and the same request was sent again.",
        first.name()
    );
    let evidence = Evidence { status: Some(*status), ..Evidence::of(first) };
    let finding = Finding::new(Rule::RetriedFinalError, message, evidence);
    Some(finding.shown_by(shown.iter().map(|attempt| attempt.call)))
}

/// Whether an attempt repeats what was refused, and nothing was mended in between.
fn is_repeated(refused: &Attempt<'_>, attempt: &Attempt<'_>) -> bool {
    let same_outcome = match &attempt.outcome {
        Outcome::Refused(..) => attempt.outcome == refused.outcome,
        Outcome::Succeeded => false,
        // The refusal is stored under the key, so this cannot have had another outcome.
        Outcome::Throttled | Outcome::Unknown(_) => {
            let same_key = attempt.key().is_some() && attempt.key() == refused.key();
            same_key && !refused.outcome.leaves_key_unbound()
        }
    };
    same_outcome && refused.ended_before(attempt) && !refused.key_expired_by(attempt)
}

/// Whether another attempt ran at the same time and ended unknown, as after a double click: whoever sent
/// that one does not know of the refusal, and rightly sends it again.
fn ran_beside_unknown(attempts: &[&Attempt<'_>], refused: &Attempt<'_>) -> bool {
    let unknown = attempts.iter().filter(|attempt| attempt.outcome.unknown().is_some());
    unknown.into_iter().any(|attempt| attempt.overlaps(refused))
}

/// Whether the body is known. Of one that was too large, nothing may have been kept.
fn is_whole(attempt: &Attempt<'_>) -> bool {
    !(attempt.call.request_body.is_empty() && matches!(attempt.outcome, Outcome::Refused(413, _)))
}
