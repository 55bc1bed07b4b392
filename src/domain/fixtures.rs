//! Fixtures: the objects that a test starts from, in any state (contract, section 7). This file reads them. Errors
//! name their place by a JSON pointer, which the loader of files turns into a line. Unlike in a client's call, an
//! unknown field is an error: nobody would see the typo.

use ::time::OffsetDateTime;
use serde_json::{Map, Value};

use crate::domain::code::Code;
use crate::domain::fault::rule::RuleContent;
use crate::domain::json::fields::{self, FieldError, Fields, Parsed, kind_of};
use crate::domain::payment::card::{self, CardOutcome, Decline, TEST_CARDS, TestCard};
use crate::domain::payment::order::{OrderContent, OrderStatus, PAYABLE_FOR};
use crate::domain::payment::refund::{RefundContent, RefundStatus};
use crate::domain::time::clock;
use crate::domain::time::rfc3339;
use crate::domain::webhook::settings::SettingsChange;
use crate::domain::webhook::web_url::NotifyPolicy;

/// The seed of a fault rule that names none: fixtures are the same each time, chance included.
const DEFAULT_SEED: i64 = 1;

/// The objects that a merchant is to have.
#[derive(Debug, Clone, Default)]
pub struct Fixtures {
    /// Orders, the oldest first.
    pub orders: Vec<FixtureOrder>,
    /// Refunds of these or earlier orders, the oldest first.
    pub refunds: Vec<FixtureRefund>,
    /// The webhook settings that change.
    pub webhook: Option<SettingsChange>,
    /// Fault rules, the one that strikes first at the top.
    pub faults: Vec<RuleContent>,
}

/// An order in some state.
#[derive(Debug, Clone)]
pub struct FixtureOrder {
    /// What the merchant asked for.
    pub content: OrderContent,
    /// The state that it has reached.
    pub state: OrderState,
    /// When it was created; without it, at the first moment that the state names, or now.
    pub created_at: Option<OffsetDateTime>,
}

/// The state of an order. It becomes refunded by its refunds.
#[derive(Debug, Clone)]
pub enum OrderState {
    /// It waits for its buyer, whose last attempt may have failed.
    Pending(Option<Decline>),
    /// Paid, with this card and at this moment.
    Paid(&'static TestCard, Option<OffsetDateTime>),
    /// Closed, at this moment.
    Closed(Option<OffsetDateTime>),
}

/// A refund in some state.
#[derive(Debug, Clone)]
pub struct FixtureRefund {
    /// What the merchant asked for.
    pub content: RefundContent,
    /// Its status.
    pub status: RefundStatus,
    /// When it was created; without it, now.
    pub created_at: Option<OffsetDateTime>,
}

impl Fixtures {
    /// Reads `{"orders":[…],"refunds":[…],"webhook":{…},"faults":[…]}`; each may be absent.
    ///
    /// # Errors
    /// Every field that is wrong, by its JSON pointer.
    pub fn from_json(object: Map<String, Value>, policy: NotifyPolicy) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut fixtures = Self::default();
        for (name, value) in object {
            match name.as_str() {
                "orders" => fixtures.orders = list("orders", value, &mut errors, |o| order(o, policy)),
                "refunds" => fixtures.refunds = list("refunds", value, &mut errors, |o| refund(o, policy)),
                "faults" => {
                    let read = |object| RuleContent::from_json(object, DEFAULT_SEED);
                    fixtures.faults = list("faults", value, &mut errors, read);
                }
                "webhook" => fixtures.webhook = webhook(value, &mut errors, policy),
                _ => errors.push(at("", unknown(&name))),
            }
        }
        if errors.is_empty() { Ok(fixtures) } else { Err(errors) }
    }
}

impl FixtureOrder {
    /// When the order was created, if it is loaded `now`.
    #[must_use]
    pub fn created(&self, now: OffsetDateTime) -> OffsetDateTime {
        let ended = match self.state {
            OrderState::Pending(_) => None,
            OrderState::Paid(_, at) | OrderState::Closed(at) => at,
        };
        self.created_at.or(ended).unwrap_or(now)
    }
}

/// Prefixes an error's field with a place, so that it becomes a JSON pointer.
#[must_use]
pub fn at(place: &str, error: FieldError) -> FieldError {
    FieldError { param: format!("{place}/{}", error.param), ..error }
}

fn unknown(name: &str) -> FieldError {
    FieldError {
        param: name.to_owned(),
        code: "field_unknown".to_owned(),
        message: format!("No such field: {}.", name.escape_debug()),
    }
}

fn list<T>(
    name: &str,
    value: Value,
    errors: &mut Vec<FieldError>,
    read: impl Fn(Map<String, Value>) -> Parsed<T>,
) -> Vec<T> {
    let Value::Array(items) = value else {
        errors.push(at(
            "",
            FieldError::invalid(name, &format!("must be a list; {} was sent", kind_of(&value))),
        ));
        return Vec::new();
    };
    let mut found = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        let place = format!("/{name}/{index}");
        let Value::Object(object) = item else {
            let wrong = FieldError::invalid(name, &format!("must hold objects; {} was sent", kind_of(&item)));
            errors.push(FieldError { param: place, ..wrong });
            continue;
        };
        let parsed = read(object);
        errors.extend(parsed.ignored.iter().map(|name| at(&place, unknown(name))));
        match parsed.content {
            Ok(item) => found.push(item),
            Err(wrong) => errors.extend(wrong.into_iter().map(|error| at(&place, error))),
        }
    }
    found
}

fn webhook(value: Value, errors: &mut Vec<FieldError>, policy: NotifyPolicy) -> Option<SettingsChange> {
    let Value::Object(object) = value else {
        let wrong = format!("must be an object; {} was sent", kind_of(&value));
        errors.push(at("", FieldError::invalid("webhook", &wrong)));
        return None;
    };
    let parsed = SettingsChange::from_json(object, policy);
    errors.extend(parsed.ignored.iter().map(|name| at("/webhook", unknown(name))));
    let place = |wrong: Vec<FieldError>| errors.extend(wrong.into_iter().map(|error| at("/webhook", error)));
    parsed.content.map_err(place).ok()
}

/// Takes the members of these names out of an object.
fn split(object: &mut Map<String, Value>, names: &[&str]) -> Fields {
    Fields::new(names.iter().filter_map(|name| object.remove_entry(*name)).collect())
}

/// What came of reading the two parts of an object.
fn join<A, B, T>(content: Parsed<A>, state: Parsed<B>, join: impl FnOnce(A, B) -> T) -> Parsed<T> {
    let joined = match (content.content, state.content) {
        (Ok(content), Ok(state)) => Ok(join(content, state)),
        (first, second) => Err([first.err(), second.err()].into_iter().flatten().flatten().collect()),
    };
    Parsed { content: joined, ignored: [content.ignored, state.ignored].concat() }
}

fn order(mut object: Map<String, Value>, policy: NotifyPolicy) -> Parsed<FixtureOrder> {
    let names = ["status", "card", "failure", "created_at", "paid_at", "closed_at"];
    let fields = split(&mut object, &names);
    join(OrderContent::from_json(object, policy), order_state(fields), |content, (state, created_at)| {
        FixtureOrder { content, state, created_at }
    })
}

fn order_state(mut fields: Fields) -> Parsed<(OrderState, Option<OffsetDateTime>)> {
    let status = fields.optional("status", |value| match value.as_str().and_then(OrderStatus::from_code) {
        Some(OrderStatus::Refunded) => Err("must be paid; its refunds make it refunded".to_owned()),
        Some(status) => Ok(status),
        None => {
            let mut names = OrderStatus::names();
            names.retain(|name| *name != OrderStatus::Refunded.code());
            Err(format!("must be {}", fields::listed(&names, "or")))
        }
    });
    let status = status.unwrap_or(OrderStatus::Pending);
    let created_at = fields.optional("created_at", moment);
    let only_if = |fields: &mut Fields, name: &str, wanted: OrderStatus| {
        if fields.has(name) && status != wanted {
            let reason = format!("fits only an order whose status is {}", wanted.code());
            fields.refuse(FieldError::invalid(name, &reason));
        }
    };
    only_if(&mut fields, "card", OrderStatus::Paid);
    only_if(&mut fields, "paid_at", OrderStatus::Paid);
    only_if(&mut fields, "closed_at", OrderStatus::Closed);
    only_if(&mut fields, "failure", OrderStatus::Pending);
    let card = fields.optional("card", paying_card).unwrap_or(&TEST_CARDS[0]);
    let paid_at = fields.optional("paid_at", moment);
    let closed_at = fields.optional("closed_at", moment);
    let failure = fields.optional("failure", fields::code);
    if let (Some(created_at), Some(paid_at)) = (created_at, paid_at)
        && !(created_at..created_at + PAYABLE_FOR).contains(&paid_at)
    {
        fields.refuse(FieldError::invalid("paid_at", "must be within two hours after created_at"));
    }
    if let (Some(created_at), Some(closed_at)) = (created_at, closed_at)
        && closed_at < created_at
    {
        fields.refuse(FieldError::invalid("closed_at", "must not be before created_at"));
    }
    let state = match status {
        OrderStatus::Pending => OrderState::Pending(failure),
        OrderStatus::Paid | OrderStatus::Refunded => OrderState::Paid(card, paid_at),
        OrderStatus::Closed => OrderState::Closed(closed_at),
    };
    fields.finish(|| Some((state, created_at)))
}

fn refund(mut object: Map<String, Value>, policy: NotifyPolicy) -> Parsed<FixtureRefund> {
    let mut fields = split(&mut object, &["status", "created_at"]);
    let status = fields.optional("status", |value| {
        let status = value.as_str().and_then(RefundStatus::from_code);
        status.ok_or_else(|| format!("must be {}", fields::listed(&RefundStatus::names(), "or")))
    });
    let status = status.unwrap_or(RefundStatus::Succeeded);
    let created_at = fields.optional("created_at", moment);
    let state = fields.finish(|| Some((status, created_at)));
    join(RefundContent::from_json(object, policy), state, |content, (status, created_at)| FixtureRefund {
        content,
        status,
        created_at,
    })
}

/// A time that the merchant's clock can show, so that no deadline counted from it overflows.
fn moment(value: &Value) -> Result<OffsetDateTime, String> {
    clock::checked(rfc3339::from_json(value)?)
        .map_err(|_| "must lie within the years 2000 to 2099".to_owned())
}

fn paying_card(value: &Value) -> Result<&'static TestCard, String> {
    let wrong = "must be a test card that pays, as a string in quotes";
    let card = card::from_json(value).map_err(|_| wrong.to_owned())?;
    if matches!(card.outcome, CardOutcome::Declined(_)) { Err(wrong.to_owned()) } else { Ok(card) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<Fixtures, Vec<FieldError>> {
        let Value::Object(object) = value else { panic!("an object") };
        Fixtures::from_json(object, NotifyPolicy::Anywhere)
    }

    #[test]
    fn an_order_may_be_in_any_state() {
        let order = |state: Value| {
            let mut order = json!({"out_trade_no": "A", "amount": 1, "currency": "USD", "subject": "S"});
            order.as_object_mut().unwrap().extend(state.as_object().unwrap().clone());
            read(json!({"orders": [order]})).map(|mut fixtures| fixtures.orders.remove(0).state)
        };
        assert!(matches!(order(json!({})), Ok(OrderState::Pending(None))));
        let failed = order(json!({"failure": "lost_card"}));
        assert!(matches!(failed, Ok(OrderState::Pending(Some(Decline::LostCard)))));
        let paid = order(json!({"status": "paid", "card": "378282246310005"}));
        assert!(matches!(paid, Ok(OrderState::Paid(card, None)) if card.brand == "amex"));
        assert!(matches!(order(json!({"status": "closed"})), Ok(OrderState::Closed(None))));
        for bad in [
            json!({"status": "refunded"}),
            json!({"card": "4242424242424242"}),
            json!({"status": "paid", "card": "4000000000000002"}),
            json!({"status": "paid", "failure": "lost_card"}),
            json!({"status": "paid", "created_at": "2026-11-04T08:00:00Z", "paid_at": "2026-11-04T10:00:00Z"}),
        ] {
            assert!(order(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_outside_of_the_clocks_range_is_named_by_its_place() {
        let order = |member: &str, time: &str| {
            let status = if member == "closed_at" { "closed" } else { "paid" };
            let mut order = json!({"out_trade_no": "A", "amount": 1, "currency": "USD", "subject": "S"});
            order["status"] = json!(status);
            order[member] = json!(time);
            read(json!({ "orders": [order] }))
        };
        let refund = |time: &str| {
            let refund = json!({"out_refund_no": "R", "out_trade_no": "A", "amount": 1, "created_at": time});
            read(json!({ "refunds": [refund] }))
        };
        for time in [
            "9999-12-31T23:59:59.999Z",
            "9999-12-31T23:59:59-23:59",
            "2100-01-01T00:00:00Z",
            "1999-12-31T23:59:59.999Z",
            "0000-01-01T00:00:00+23:59",
        ] {
            for member in ["created_at", "paid_at", "closed_at"] {
                let errors = order(member, time).unwrap_err();
                assert_eq!(errors[0].param, format!("/orders/0/{member}"), "{time}");
                assert_eq!((errors[0].code.as_str(), errors.len()), (&*format!("{member}_invalid"), 1));
            }
            assert_eq!(refund(time).unwrap_err()[0].param, "/refunds/0/created_at", "{time}");
        }
        for time in ["2000-01-01T00:00:00Z", "2099-12-31T23:59:59.999Z"] {
            assert!(order("created_at", time).is_ok() && refund(time).is_ok(), "{time}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_by_its_place() {
        let errors = read(json!({
            "orders": [{"out_trade_no": "A", "amount": 29.9, "currency": "USD", "subject": "S", "paid": true}, 1],
            "refunds": {}, "order": []
        }))
        .unwrap_err();
        let params: Vec<_> = errors.iter().map(|error| error.param.as_str()).collect();
        assert_eq!(params, ["/order", "/orders/0/paid", "/orders/0/amount", "/orders/1", "/refunds"]);
    }
}
