//! `gave_up`: the last attempt ended unknown, and the client did not find out: neither by a retry, nor by
//! a look-up that was answered. An acknowledged event about the write tells it as well.
//!
//! A 429 changes nothing about what is known before it. A success stays known, whatever follows it.

use std::collections::HashSet;

use super::finding::{Evidence, Finding, Rule};
use super::history::{Attempt, History, Kind, Operation};
use super::outcome::Outcome;
use super::webhooks::SentEvent;
use crate::domain::event::EventType;

pub(super) fn findings(history: &History<'_>, events: &[SentEvent]) -> Vec<Finding> {
    let told: HashSet<_> = events.iter().filter(|event| event.acknowledged).flat_map(tells).collect();
    let is_told = |it: &Operation<'_>| it.number().is_some_and(|number| told.contains(&(it.kind(), number)));
    let unknown = |operation| Some((operation, last_unknown(operation)?));
    let operations = history.operations.iter().filter_map(unknown);
    operations
        .filter(|(it, last)| !is_told(it) && !history.look_ups.any_after(last.call.received_at, it))
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
    let last = attempts.iter().rfind(|attempt| attempt.outcome != Outcome::Throttled)?;
    // A refusal that came later than this attempt: of one that ran beside it.
    let is_later = |attempt: &Attempt<'_>| {
        attempt.outcome.is_refused() && attempt.ended_at() >= Some(last.call.received_at)
    };
    let is_known = attempts.iter().any(|it| it.outcome == Outcome::Succeeded || is_later(it));
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
