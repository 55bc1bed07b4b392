//! The calls in the order in which they came in, sorted into operations: each is one write with all of
//! its attempts.

use std::borrow::Cow;
use std::collections::HashMap;

use time::OffsetDateTime;

use super::Call;
use super::call::Purpose;
use super::look_up::LookUps;
use super::names::Names;
use super::outcome::ClientOutcome;
use super::reach::Reach;
use crate::domain::idempotency::KEPT_HOURS;

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    CreateOrder,
    CloseOrder,
    CreateRefund,
}

impl Kind {
    /// The name of the number that identifies this write.
    pub(super) const fn number_name(self) -> &'static str {
        match self {
            Self::CreateOrder | Self::CloseOrder => "out_trade_no",
            Self::CreateRefund => "out_refund_no",
        }
    }
}

/// One attempt of a write.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    /// Its position among all attempts.
    pub(super) place: usize,
    pub(super) call: &'a Call,
    pub(super) kind: Kind,
    /// The merchant's number of the order or refund, if the body names it.
    pub(super) number: Option<String>,
    /// The order of a refund, by the merchant's number if that is known.
    pub(super) order: Option<String>,
    pub(super) outcome: ClientOutcome,
}

impl Attempt<'_> {
    /// When it ended, in real time; unknown if the client hung up.
    pub(super) fn ended_at(&self) -> Option<OffsetDateTime> {
        (!self.call.client_hung_up).then(|| self.call.received_at + self.call.duration)
    }

    /// Whether the client knew how this one ended when it sent that one.
    pub(super) fn ended_before(&self, other: &Self) -> bool {
        self.ended_at().is_some_and(|ended| ended <= other.call.received_at)
    }

    /// Whether the gateway worked on both at the same time.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let [one, other] = [self.call, other.call];
        one.received_at < other.received_at + other.duration
            && other.received_at < one.received_at + one.duration
    }

    /// Whether a key that was first used here had expired when the other attempt came in.
    pub(super) fn key_expired_by(&self, other: &Self) -> bool {
        other.call.at - self.call.at >= time::Duration::hours(KEPT_HOURS.into())
    }

    /// The write in words.
    pub(super) fn name(&self) -> String {
        let endpoint = format!("{} {}", self.call.method, self.call.bare_path());
        match (self.kind, &self.number) {
            (Kind::CloseOrder, _) | (_, None) => endpoint,
            (kind, Some(number)) => format!("{endpoint} for {} {number}", kind.number_name()),
        }
    }
}

impl<'a> Attempt<'a> {
    /// Whether the key, if there is one, may have been bound to this body.
    pub(super) fn may_have_bound_key(&self) -> bool {
        self.call.body_hash.is_some() && !self.outcome.leaves_key_unbound()
    }

    pub(super) fn key(&self) -> Option<&'a str> {
        self.call.idempotency_key.as_deref()
    }
}

/// One write with its attempts, of which there is at least one, in the order in which they came in.
#[derive(Debug)]
pub(super) struct Operation<'a> {
    pub(super) attempts: Vec<Attempt<'a>>,
}

impl Operation<'_> {
    pub(super) fn kind(&self) -> Kind {
        self.attempts[0].kind
    }

    /// The merchant's number of what is written.
    pub(super) fn number(&self) -> Option<&str> {
        self.attempts.iter().find_map(|attempt| attempt.number.as_deref())
    }

    /// The order that a refund is of.
    pub(super) fn order(&self) -> Option<&str> {
        self.attempts.iter().find_map(|attempt| attempt.order.as_deref())
    }

    /// The operation in words.
    pub(super) fn name(&self) -> String {
        let telling = self.attempts.iter().find(|attempt| attempt.number.is_some());
        telling.unwrap_or(&self.attempts[0]).name()
    }
}

/// All that a client did.
#[derive(Debug)]
pub(super) struct History<'a> {
    /// In the order of their first attempts.
    pub(super) operations: Vec<Operation<'a>>,
    pub(super) look_ups: LookUps,
    reach: &'a Reach,
}

impl<'a> History<'a> {
    /// Of the calls, those that the journal reaches to.
    pub(super) fn new(calls: &'a [Call], reach: &'a Reach) -> Self {
        let reaches_to = |call: &&Call| reach.missing_after.is_none_or(|after| call.received_at <= after);
        let mut calls: Vec<_> = calls.iter().filter(reaches_to).collect();
        calls.sort_by_key(|call| call.came_in());
        let mut names = Names::default();
        for call in &calls {
            names.learn_from(call);
        }
        let mut look_ups = LookUps::default();
        let mut attempts = Vec::new();
        for call in calls {
            look_ups.note(call, &names);
            attempts.extend(attempt(call, &names, attempts.len()));
        }
        Self { operations: operations(attempts), look_ups, reach }
    }

    /// The operations since whose first attempt no call is missing.
    pub(super) fn whole_operations(&self) -> impl Iterator<Item = &Operation<'a>> {
        self.operations.iter().filter(|operation| self.is_whole_since(&operation.attempts[0]))
    }

    /// Whether no call is missing since this attempt, as far as the journal reaches.
    pub(super) fn is_whole_since(&self, attempt: &Attempt<'_>) -> bool {
        self.reach.missing_before.is_none_or(|before| attempt.call.received_at >= before)
    }

    /// Whether no attempt of the operation can be missing, neither before nor after the known ones. The answer to a
    /// missing attempt could have told the client the outcome.
    pub(super) fn has_all_of(&self, operation: &Operation<'_>) -> bool {
        let is_first = || operation.attempts.iter().any(|attempt| attempt.call.created_it());
        self.reach.missing_after.is_none() && (self.reach.missing_before.is_none() || is_first())
    }

    /// The place of the last attempt of each kind.
    pub(super) fn latest_attempts(&self) -> HashMap<Kind, usize> {
        self.attempts().map(|attempt| (attempt.kind, attempt.place)).collect()
    }

    /// Every attempt, in the order in which they came in.
    pub(super) fn attempts(&self) -> impl Iterator<Item = &Attempt<'a>> {
        let mut attempts: Vec<_> = self.operations.iter().flat_map(|operation| &operation.attempts).collect();
        attempts.sort_by_key(|attempt| attempt.place);
        attempts.into_iter()
    }
}

fn attempt<'a>(call: &'a Call, names: &Names, place: usize) -> Option<Attempt<'a>> {
    let merchants = |number: String| names.merchants(number.into()).into_owned();
    let order_no = || call.order_nos.first().cloned();
    let (kind, number, order) = match call.purpose() {
        Purpose::CreateOrder => (Kind::CreateOrder, order_no(), None),
        Purpose::CloseOrder(no) => (Kind::CloseOrder, Some(merchants(no.into_owned())), None),
        Purpose::CreateRefund => {
            (Kind::CreateRefund, call.refund_nos.first().cloned(), order_no().map(merchants))
        }
        Purpose::ShowOrder(_)
        | Purpose::ListOrders { .. }
        | Purpose::ShowRefund(_)
        | Purpose::ListRefunds { .. }
        | Purpose::Nothing => return None,
    };
    Some(Attempt { place, call, kind, number, order, outcome: ClientOutcome::of(call) })
}

/// What identifies an operation: its number, or, where the number cannot be read, its key.
#[derive(PartialEq, Eq, Hash)]
enum Identity<'a> {
    Number(Kind, Cow<'a, str>),
    Key(Kind, &'a str),
    Alone(usize),
}

fn operations(attempts: Vec<Attempt<'_>>) -> Vec<Operation<'_>> {
    let mut numbers_of_keys = HashMap::new();
    for attempt in &attempts {
        if let (Some(key), Some(number)) = (&attempt.call.idempotency_key, &attempt.number) {
            let known = numbers_of_keys.entry((attempt.kind, key.as_str()));
            let known: &mut Option<String> = known.or_insert_with(|| Some(number.clone()));
            // A key that was used for several numbers identifies none.
            *known = known.take().filter(|known| known == number);
        }
    }
    let mut places = HashMap::new();
    let mut operations: Vec<Operation<'_>> = Vec::new();
    for attempt in attempts {
        let (kind, key) = (attempt.kind, attempt.call.idempotency_key.as_deref());
        let of_key = || key.and_then(|key| numbers_of_keys.get(&(kind, key)).cloned()?);
        let identity = match (attempt.number.clone().or_else(of_key), key) {
            (Some(number), _) => Identity::Number(kind, number.into()),
            (None, Some(key)) => Identity::Key(kind, key),
            (None, None) => Identity::Alone(attempt.place),
        };
        let place = *places.entry(identity).or_insert(operations.len());
        match operations.get_mut(place) {
            Some(operation) => operation.attempts.push(attempt),
            None => operations.push(Operation { attempts: vec![attempt] }),
        }
    }
    operations
}
