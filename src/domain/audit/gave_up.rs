//! `gave_up`: the outcome of the last attempt is unknown, and the client did not find out: neither by a retry, nor by
//! a look-up that was answered, nor by an event that its receiver acknowledged.
//!
//! A 429 does not change what the client knew before. A success stays known, whatever follows. If the number of the
//! write is unknown, as after a broken upload, any later call of the client may have found out.

use std::collections::HashSet;

use super::finding::{Evidence, Finding, Rule};
use super::history::{Attempt, History, Kind, Operation};
use super::outcome::ClientOutcome;
use super::unacknowledged_webhook::SentEvent;
use crate::domain::webhook::event::EventType;

pub(super) fn findings(history: &History<'_>, events: &[SentEvent]) -> Vec<Finding> {
    let told: HashSet<_> = events.iter().filter(|event| event.acknowledged).flat_map(tells).collect();
    let is_told = |it: &Operation<'_>| it.number().is_some_and(|number| told.contains(&(it.kind(), number)));
    let unknown = |operation| Some((operation, last_unknown(operation)?));
    let operations = history.whole_operations().filter(|it| history.has_all_of(it)).filter_map(unknown);
    let latest = history.latest_attempts();
    let may_be_told = |last: &Attempt<'_>| {
        let written_since = latest.get(&last.kind).is_some_and(|latest| *latest > last.place);
        !told.is_empty() || written_since || history.look_ups.any_at_all_after(last.call.received_at)
    };
    let found_out = |it: &Operation<'_>, last: &Attempt<'_>| match it.number() {
        Some(_) => is_told(it) || history.look_ups.any_after(last.call.received_at, it),
        None => may_be_told(last),
    };
    operations
        .filter(|(it, last)| !found_out(it, last))
        .map(|(operation, last)| finding(operation, last))
        .collect()
}

/// The writes that an event tells the outcome of.
fn tells(event: &SentEvent) -> impl Iterator<Item = (Kind, &str)> {
    let order = event.out_trade_no.as_deref();
    let refund = event.out_refund_no.as_deref().map(|number| (Kind::CreateRefund, number));
    let created = order.map(|number| (Kind::CreateOrder, number));
    let is_closed = event.event_type == EventType::OrderClosed;
    let closed = order.filter(|_| is_closed).map(|number| (Kind::CloseOrder, number));
    [refund, created, closed].into_iter().flatten()
}

/// The last attempt, if nobody knows how it ended and no other attempt tells.
fn last_unknown<'o, 'a>(operation: &'o Operation<'a>) -> Option<&'o Attempt<'a>> {
    let attempts = &operation.attempts;
    let last = attempts.iter().rfind(|attempt| attempt.outcome != ClientOutcome::Throttled)?;
    // A refusal of an attempt that ran beside this one and ended later.
    let is_later = |attempt: &Attempt<'_>| {
        attempt.outcome.is_refused() && attempt.ended_at() >= Some(last.call.received_at)
    };
    let is_known = attempts.iter().any(|it| it.outcome == ClientOutcome::Succeeded || is_later(it));
    (last.outcome.unknown().is_some() && !is_known).then_some(last)
}

fn finding(operation: &Operation<'_>, last: &Attempt<'_>) -> Finding {
    let why = last.outcome.unknown().map(|why| format!(" ({why})")).unwrap_or_default();
    let message = format!(
        "The last attempt of {} ended unknown{why}, and neither a retry nor a look-up by number followed.",
        operation.name()
    );
    let unknown = operation.attempts.iter().filter(|attempt| attempt.outcome.unknown().is_some());
    Finding::new(Rule::GaveUp, message, Evidence::of_operation(operation))
        .shown_by(unknown.map(|attempt| attempt.call))
}
