//! Faults of deliveries: the table of kinds, and the parts of an effect. `service::delivery` postpones attempts, and
//! `worker::attempt` obeys the rest (contract, section 7).

use std::time::Duration;

use super::kind::{self, Kind, OfKind};
use super::options::{FaultOption, FaultOptions, Takes};
use crate::domain::webhook::signature;

/// A fault of a delivery.
pub type DeliveryFault = OfKind<DeliveryEffect>;

/// What a fault does to an attempt to deliver an event. Any combination can be a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryEffect {
    /// How long the attempt is postponed, by the merchant's clock. Then the rest of the effect applies.
    pub postponed: Option<Duration>,
    /// How many times the event is sent in a row. With zero, the receiver seems not to have answered.
    pub posts: u8,
    /// Whose secret signs.
    pub signer: Signer,
    /// How old the signature claims to be, in seconds.
    pub signed_ago: i64,
}

/// Whose secret signs an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signer {
    /// The merchant's.
    Merchant,
    /// One that no receiver knows.
    Nobody,
}

/// The effect of no fault. A row of the table names what it changes.
const NO_FAULT: DeliveryEffect =
    DeliveryEffect { postponed: None, posts: 1, signer: Signer::Merchant, signed_ago: 0 };

/// Up to a day.
const DELAY: Takes = Takes { option: FaultOption::DelayMs, range: 0..=86_400_000, default: None };

/// How old a stale signature is, in seconds: twice what receivers tolerate.
const STALE: i64 = 2 * signature::TOLERANCE_SECONDS;

/// Every kind of fault of a delivery, in the order in which messages list them.
pub(super) const KINDS: &[Kind<DeliveryEffect>] = &[
    Kind { name: "webhook_lost", takes: &[], effect: |_| DeliveryEffect { posts: 0, ..NO_FAULT } },
    Kind { name: "webhook_duplicate", takes: &[], effect: |_| DeliveryEffect { posts: 2, ..NO_FAULT } },
    Kind {
        name: "webhook_delay",
        takes: &[DELAY],
        effect: |options| DeliveryEffect { postponed: Some(options.delay()), ..NO_FAULT },
    },
    Kind {
        name: "webhook_bad_signature",
        takes: &[],
        effect: |_| DeliveryEffect { signer: Signer::Nobody, ..NO_FAULT },
    },
    Kind {
        name: "webhook_stale_timestamp",
        takes: &[],
        effect: |_| DeliveryEffect { signed_ago: STALE, ..NO_FAULT },
    },
];

/// The kinds under which a receiver cannot or should not acknowledge an attempt.
#[must_use]
pub fn spoiling() -> Vec<&'static str> {
    let is_spoiling =
        |kind: &&Kind<DeliveryEffect>| kind.unchecked(FaultOptions::default()).effect().spoils();
    KINDS.iter().filter(is_spoiling).map(|kind| kind.name).collect()
}

/// The most posts beyond the first that any kind makes.
#[must_use]
pub fn most_further_posts() -> u8 {
    let further = KINDS.iter().map(|kind| kind.unchecked(FaultOptions::default()).effect().further_posts());
    further.max().unwrap_or_default()
}

/// The fault that is stored with an event, by its kind: its effect on the attempt itself. Its options, which
/// postponed the attempt, are not stored.
#[must_use]
pub fn stored(kind: &str) -> Option<DeliveryFault> {
    Some(kind::find(KINDS, kind)?.unchecked(FaultOptions::default()))
}

impl DeliveryEffect {
    /// The effect of the fault that strikes an attempt, or of none.
    #[must_use]
    pub fn of(fault: Option<DeliveryFault>) -> Self {
        fault.map_or(NO_FAULT, |fault| fault.effect())
    }

    /// Whether it does more than postpone the attempt.
    #[must_use]
    pub fn strikes_attempt(self) -> bool {
        self != Self { postponed: self.postponed, ..NO_FAULT }
    }

    /// Whether the event is sent at all.
    #[must_use]
    pub const fn is_sent(self) -> bool {
        self.posts > 0
    }

    /// How many posts follow the first.
    #[must_use]
    pub const fn further_posts(self) -> u8 {
        self.posts.saturating_sub(1)
    }

    /// Whether a receiver cannot or should not acknowledge the attempt.
    const fn spoils(self) -> bool {
        // Destructured without `..`, so that a new member is not forgotten.
        let Self { postponed: _, posts, signer, signed_ago } = self;
        let is_refused = match signer {
            Signer::Merchant => signed_ago > signature::TOLERANCE_SECONDS,
            Signer::Nobody => true,
        };
        is_refused || posts == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_acknowledge_is_known() {
        let spoils = |kind| stored(kind).unwrap().effect().spoils();
        assert!(["webhook_lost", "webhook_bad_signature", "webhook_stale_timestamp"].into_iter().all(spoils));
        assert!(!["webhook_duplicate", "webhook_delay"].into_iter().any(spoils));
    }

    #[test]
    fn a_delay_lets_the_attempt_itself_be() {
        let strikes = |kind| stored(kind).unwrap().effect().strikes_attempt();
        assert!(!strikes("webhook_delay") && strikes("webhook_lost") && strikes("webhook_duplicate"));
    }

    #[test]
    fn a_kind_can_hold_an_attempt_back_and_strike_it_after_that() {
        let effect = DeliveryEffect { postponed: Some(Duration::from_secs(1)), posts: 3, ..NO_FAULT };
        assert!(effect.strikes_attempt() && effect.is_sent() && !effect.spoils());
        assert_eq!(effect.further_posts(), 2);
    }
}
