//! The calls in the order in which they came in, sorted into operations: each is one write with all of
//! its attempts.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};
use time::OffsetDateTime;

use super::Call;
use super::call::Purpose;
use super::look_up::LookUps;
use super::names::Names;
use super::outcome::Outcome;
use crate::domain::idempotency::KEPT_HOURS;
use crate::domain::strict_json;

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    CreateOrder,
    CloseOrder,
    CreateRefund,
}

impl Kind {
    /// What the number is called that makes this write one of its own.
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
    /// Where it stands among all attempts, from the first on.
    pub(super) place: usize,
    pub(super) call: &'a Call,
    pub(super) kind: Kind,
    /// The merchant's number of what is written, unless the body does not tell.
    pub(super) number: Option<String>,
    /// The order that a refund is of, by the merchant's number where that is known.
    pub(super) order: Option<String>,
    pub(super) outcome: Outcome,
}

impl Attempt<'_> {
    /// When it ended, in real time; unknown where the client did not wait for that.
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

    /// Whether a key that was first used here is new again by the time of that attempt.
    pub(super) fn key_expired_by(&self, other: &Self) -> bool {
        other.call.at - self.call.at >= time::Duration::hours(KEPT_HOURS.into())
    }

    /// The write in words.
    pub(super) fn name(&self) -> String {
        let endpoint = format!("{} {}", self.call.method, self.call.path());
        match (self.kind, &self.number) {
            (Kind::CloseOrder, _) | (_, None) => endpoint,
            (kind, Some(number)) => format!("{endpoint} for {} {number}", kind.number_name()),
        }
    }
}

impl<'a> Attempt<'a> {
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
}

impl<'a> History<'a> {
    pub(super) fn new(calls: &'a [Call]) -> Self {
        let mut calls: Vec<_> = calls.iter().collect();
        // Calls of the same moment stay as they came.
        calls.sort_by_key(|call| call.received_at);
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
        Self { operations: operations(attempts), look_ups }
    }

    /// Every attempt, in the order in which they came in.
    pub(super) fn attempts(&self) -> impl Iterator<Item = &Attempt<'a>> {
        let mut attempts: Vec<_> = self.operations.iter().flat_map(|operation| &operation.attempts).collect();
        attempts.sort_by_key(|attempt| attempt.place);
        attempts.into_iter()
    }
}

fn attempt<'a>(call: &'a Call, names: &Names, place: usize) -> Option<Attempt<'a>> {
    let fields = || strict_json::parse_object(&call.request_body).unwrap_or_default();
    let merchants = |number: Option<String>| number.map(|it| names.merchants(it.into()).into_owned());
    let (kind, number, order) = match call.purpose() {
        Purpose::CreateOrder => (Kind::CreateOrder, text(&fields(), "out_trade_no"), None),
        Purpose::CloseOrder(no) => (Kind::CloseOrder, merchants(Some(no.into_owned())), None),
        Purpose::CreateRefund => {
            let fields = fields();
            let order = text(&fields, "out_trade_no").or_else(|| merchants(text(&fields, "trade_no")));
            (Kind::CreateRefund, text(&fields, "out_refund_no"), order)
        }
        _ => return None,
    };
    Some(Attempt { place, call, kind, number, order, outcome: Outcome::of(call) })
}

fn text(fields: &Map<String, Value>, name: &str) -> Option<String> {
    fields.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// What attempts of one operation have in common. An attempt whose number cannot be read belongs where its
/// key does.
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
            numbers_of_keys.entry((attempt.kind, key.as_str())).or_insert_with(|| number.clone());
        }
    }
    let mut places = HashMap::new();
    let mut operations: Vec<Operation<'_>> = Vec::new();
    for attempt in attempts {
        let (kind, key) = (attempt.kind, attempt.call.idempotency_key.as_deref());
        let of_key = || key.and_then(|key| numbers_of_keys.get(&(kind, key)).cloned());
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
