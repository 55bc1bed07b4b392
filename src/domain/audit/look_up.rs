//! Look-ups: how a client finds out by a number whether a write succeeded whose answer it did not get.

use std::collections::HashMap;

use time::OffsetDateTime;

use super::Call;
use super::call::Purpose;
use super::history::{Kind, Operation};
use super::names::Names;
use super::outcome::ClientOutcome;

/// What was looked up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    Order(String),
    Refund(String),
    RefundsOf(String),
}

/// One look-up that was answered.
#[derive(Debug)]
struct LookUp {
    received_at: OffsetDateTime,
    answered_at: OffsetDateTime,
    found: bool,
}

/// Every look-up that was answered, by what was looked up.
#[derive(Debug, Default)]
pub(super) struct LookUps {
    by_subject: HashMap<Subject, Vec<LookUp>>,
    latest: Option<OffsetDateTime>,
}

impl LookUps {
    /// Notes a call, if it is a look-up whose answer the client got.
    pub(super) fn note(&mut self, call: &Call, names: &Names) {
        let answered = match ClientOutcome::of(call) {
            ClientOutcome::Succeeded => true,
            ClientOutcome::Refused(404, _) => false,
            _ => return,
        };
        let subjects = subjects(call, names);
        if !subjects.is_empty() {
            self.latest = self.latest.max(Some(call.received_at));
        }
        for (subject, found) in subjects {
            let answered_at = call.received_at + call.duration;
            let look_up = LookUp { received_at: call.received_at, answered_at, found: answered && found };
            self.by_subject.entry(subject).or_default().push(look_up);
        }
    }

    /// Whether a look-up after this moment could tell the client the outcome of a write. A refund also shows in its
    /// order and in the list of the order's refunds.
    pub(super) fn any_after(&self, moment: OffsetDateTime, operation: &Operation<'_>) -> bool {
        let order = operation.order().filter(|_| operation.kind() == Kind::CreateRefund);
        let through_order =
            order.map(|no| [Subject::Order(no.to_owned()), Subject::RefundsOf(no.to_owned())]);
        let subjects = own_subject(operation).into_iter().chain(through_order.into_iter().flatten());
        subjects.into_iter().any(|subject| self.of(&subject).any(|it| it.received_at >= moment))
    }

    /// Whether there was a look-up of anything after this moment.
    pub(super) fn any_at_all_after(&self, moment: OffsetDateTime) -> bool {
        self.latest >= Some(moment)
    }

    /// Whether a look-up between two moments told the client that a write had not happened.
    pub(super) fn not_found_between(
        &self,
        (start, end): (OffsetDateTime, OffsetDateTime),
        operation: &Operation<'_>,
    ) -> bool {
        let within = |it: &LookUp| start <= it.received_at && it.answered_at <= end;
        own_subject(operation).is_some_and(|subject| self.of(&subject).any(|it| !it.found && within(it)))
    }

    fn of(&self, subject: &Subject) -> impl Iterator<Item = &LookUp> {
        self.by_subject.get(subject).into_iter().flatten()
    }
}

fn own_subject(operation: &Operation<'_>) -> Option<Subject> {
    let number = operation.number()?.to_owned();
    Some(match operation.kind() {
        Kind::CreateOrder | Kind::CloseOrder => Subject::Order(number),
        Kind::CreateRefund => Subject::Refund(number),
    })
}

/// What a call looks up, and whether a success means that it exists.
fn subjects(call: &Call, names: &Names) -> Vec<(Subject, bool)> {
    let merchants = |number| names.merchants(number).into_owned();
    let listed = |prefix| {
        let numbers = call.answered_numbers().filter(move |(gateways, _)| gateways.starts_with(prefix));
        numbers.map(|(_, merchants)| merchants.to_owned())
    };
    let has_any = !call.answer_nos.is_empty();
    match call.purpose() {
        Purpose::ShowOrder(no) => vec![(Subject::Order(merchants(no)), true)],
        Purpose::ShowRefund(no) => vec![(Subject::Refund(merchants(no)), true)],
        Purpose::ListOrders { out_trade_no: Some(no) } => vec![(Subject::Order(merchants(no)), has_any)],
        Purpose::ListOrders { out_trade_no: None } => {
            listed("trd_").map(|number| (Subject::Order(number), true)).collect()
        }
        Purpose::ListRefunds { out_trade_no } => {
            let of = out_trade_no.map(|no| (Subject::RefundsOf(merchants(no)), has_any));
            of.into_iter().chain(listed("rfd_").map(|number| (Subject::Refund(number), true))).collect()
        }
        Purpose::CreateOrder | Purpose::CloseOrder(_) | Purpose::CreateRefund | Purpose::Nothing => {
            Vec::new()
        }
    }
}
