//! Look-ups: how a client finds out by a number what came of a write whose answer it did not get.

use std::collections::HashMap;

use time::OffsetDateTime;

use super::Call;
use super::call::Purpose;
use super::history::{Kind, Operation};
use super::names::{Names, in_answer};
use super::outcome::Outcome;

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
pub(super) struct LookUps(HashMap<Subject, Vec<LookUp>>);

impl LookUps {
    /// Notes a call, if it is a look-up whose answer the client got.
    pub(super) fn note(&mut self, call: &Call, names: &Names) {
        let answered = match Outcome::of(call) {
            Outcome::Succeeded => true,
            Outcome::Refused(404, _) => false,
            _ => return,
        };
        for (subject, found) in subjects(call, names) {
            let answered_at = call.received_at + call.duration;
            let look_up = LookUp { received_at: call.received_at, answered_at, found: answered && found };
            self.0.entry(subject).or_default().push(look_up);
        }
    }

    /// Whether a look-up after this moment could tell the client what came of a write. A refund shows in
    /// its order, too, and in the list of its order's refunds.
    pub(super) fn any_after(&self, moment: OffsetDateTime, operation: &Operation<'_>) -> bool {
        let order = operation.order().filter(|_| operation.kind() == Kind::CreateRefund);
        let through_order =
            order.map(|no| [Subject::Order(no.to_owned()), Subject::RefundsOf(no.to_owned())]);
        let subjects = own_subject(operation).into_iter().chain(through_order.into_iter().flatten());
        subjects.into_iter().any(|subject| self.of(&subject).any(|it| it.received_at >= moment))
    }

    /// Whether a look-up between two moments told the client that nothing came of a write.
    pub(super) fn not_found_between(
        &self,
        (start, end): (OffsetDateTime, OffsetDateTime),
        operation: &Operation<'_>,
    ) -> bool {
        let within = |it: &LookUp| start <= it.received_at && it.answered_at <= end;
        own_subject(operation).is_some_and(|subject| self.of(&subject).any(|it| !it.found && within(it)))
    }

    fn of(&self, subject: &Subject) -> impl Iterator<Item = &LookUp> {
        self.0.get(subject).into_iter().flatten()
    }
}

fn own_subject(operation: &Operation<'_>) -> Option<Subject> {
    let number = operation.number()?.to_owned();
    Some(match operation.kind() {
        Kind::CreateOrder | Kind::CloseOrder => Subject::Order(number),
        Kind::CreateRefund => Subject::Refund(number),
    })
}

/// What a call looks up, and whether its answer has it, should it be a success.
fn subjects(call: &Call, names: &Names) -> Vec<(Subject, bool)> {
    let merchants = |number| names.merchants(number).into_owned();
    let listed = || in_answer(call).into_iter();
    match call.purpose() {
        Purpose::ShowOrder(no) => vec![(Subject::Order(merchants(no)), true)],
        Purpose::ShowRefund(no) => vec![(Subject::Refund(merchants(no)), true)],
        Purpose::ListOrders { out_trade_no: Some(no) } => {
            vec![(Subject::Order(merchants(no)), listed().next().is_some())]
        }
        Purpose::ListOrders { out_trade_no: None } => {
            listed().filter_map(|it| Some((Subject::Order(it.out_trade_no?), true))).collect()
        }
        Purpose::ListRefunds { out_trade_no } => {
            let of = out_trade_no.map(|no| (Subject::RefundsOf(merchants(no)), listed().next().is_some()));
            let refunds = listed().filter_map(|it| Some((Subject::Refund(it.out_refund_no?), true)));
            of.into_iter().chain(refunds).collect()
        }
        _ => Vec::new(),
    }
}
