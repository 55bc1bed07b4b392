//! `no_backoff`: a retry too soon after a 409, a 5xx or a lost answer, by real time from the end of the
//! failed attempt to the receipt of the next.
//!
//! Attempts may run side by side, as after a double click, and each such chain makes its own pauses. So every attempt
//! is matched with the failed attempt that it repeats: the one that ended first among those not repeated yet. If none
//! has ended before it, it repeats nothing. If the client hung up, the end of the attempt is unknown and counts as
//! long enough ago.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use time::OffsetDateTime;

use super::finding::{Evidence, Finding, MAX_TEXTS, Rule, milliseconds};
use super::history::{Attempt, History, Operation};

/// How much shorter than required a pause may be, in percent: timers and the clocks of both ends are not exact.
const TOLERANCE_PERCENT: u32 = 5;

/// A retry, and the attempt that it followed too soon.
struct TooSoon<'h, 'a> {
    failed: &'h Attempt<'a>,
    retry: &'h Attempt<'a>,
    gap: Duration,
}

pub(super) fn findings(history: &History<'_>, min_backoff: Duration) -> Vec<Finding> {
    let least = min_backoff * (100 - TOLERANCE_PERCENT) / 100;
    let of = |operation| finding(operation, &too_soon(operation, least), min_backoff);
    history.whole_operations().filter_map(of).collect()
}

fn finding(operation: &Operation<'_>, found: &[TooSoon<'_, '_>], min_backoff: Duration) -> Option<Finding> {
    let first = found.first()?;
    let gaps: Vec<_> = found.iter().take(MAX_TEXTS).map(|it| milliseconds(it.gap)).collect();
    let in_words = gaps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let why = first.failed.outcome.unknown().map(|why| format!(" ({why})"));
    let message = format!(
        "{} was sent again {in_words} ms after an attempt had failed{}; {} ms is the least.",
        operation.name(),
        why.unwrap_or_default(),
        milliseconds(min_backoff)
    );
    let evidence = Evidence { gaps_ms: gaps, ..Evidence::of_operation(operation) };
    let mut shown: Vec<_> = found.iter().flat_map(|it| [it.failed, it.retry]).collect();
    shown.sort_by_key(|attempt| attempt.place);
    shown.dedup_by_key(|attempt| attempt.place);
    Some(Finding::new(Rule::NoBackoff, message, evidence).shown_by(shown.iter().map(|attempt| attempt.call)))
}

fn too_soon<'h, 'a>(operation: &'h Operation<'a>, least: Duration) -> Vec<TooSoon<'h, 'a>> {
    // The failed attempts that no later one has repeated yet, the one that ended first on top.
    let mut open: BinaryHeap<Reverse<(Option<OffsetDateTime>, usize)>> = BinaryHeap::new();
    let mut found = Vec::new();
    for (place, retry) in operation.attempts.iter().enumerate() {
        let received_at = retry.call.received_at;
        let has_ended = open.peek().is_some_and(|Reverse((ended_at, _))| *ended_at <= Some(received_at));
        if has_ended && let Some(Reverse((ended_at, failed))) = open.pop() {
            let gap = ended_at.and_then(|ended_at| Duration::try_from(received_at - ended_at).ok());
            if let Some(gap) = gap.filter(|gap| *gap < least) {
                found.push(TooSoon { failed: &operation.attempts[failed], retry, gap });
            }
        }
        if retry.outcome.unknown().is_some() {
            open.push(Reverse((retry.ended_at(), place)));
        }
    }
    found
}
