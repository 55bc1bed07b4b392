//! Clients that are made up at random, in a storm of faults. The correct ones never get a finding; one with
//! a single mistake gets that finding and no other.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::gateway::{Fault, Gateway, Now, Sent};
use super::{call, rule_names, whole};
use crate::domain::audit::{Reach, Report, Thresholds, judge};

const HISTORIES: u64 = 2000;

/// What a client does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    NoKey,
    NewKeyPerAttempt,
    OneKeyForAll,
    TimestampInBody,
    NoPause,
    RetriesFinalErrors,
    GivesUp,
}

/// A client that writes one order or refund after the other, each on a timeline of its own, so that
/// their calls mingle.
struct Client {
    rng: StdRng,
    gateway: Gateway,
    mistake: Option<Mistake>,
    now: Now,
    /// How many keys and timestamps were made up.
    made_up: u32,
}

/// How a write ended for the client.
enum Known {
    Done,
    Refused,
    NotThere,
}

impl Client {
    fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        let now = Now { real: call().received_at, merchants: call().at };
        Self { rng: StdRng::seed_from_u64(seed), gateway: Gateway::default(), mistake, now, made_up: 0 }
    }

    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    fn fault(&mut self) -> Option<Fault> {
        use Fault::{BrokenUpload, ErrorAfter, ErrorBefore, RateLimited, RequestLost, ResponseLost, Slow};
        let faults = [RequestLost, ResponseLost, ErrorBefore, ErrorAfter, RateLimited, Slow, BrokenUpload];
        self.chance(40).then(|| faults[self.rng.random_range(0..faults.len())])
    }

    fn new_key(&mut self) -> Option<String> {
        self.made_up += 1;
        let number = if self.has(Mistake::OneKeyForAll) { 1 } else { self.made_up };
        (!self.has(Mistake::NoKey)).then(|| format!("key_{number}"))
    }

    /// Sends one call, and waits for the answer as long as a client does.
    fn send(&mut self, sent: &Sent, fault: Option<Fault>) -> Option<u16> {
        let slow = Duration::from_millis(self.rng.random_range(1000..5000));
        let status = self.gateway.answer(sent, self.now, fault, slow);
        let patience = if fault == Some(Fault::Slow) { Duration::from_secs(1) } else { call().duration };
        self.now.pass(patience);
        status
    }

    fn pause(&mut self) {
        let milliseconds = if self.has(Mistake::NoPause) {
            self.rng.random_range(0..300)
        } else {
            self.rng.random_range(500..4000)
        };
        self.now.pass(Duration::from_millis(milliseconds));
    }

    /// Sends a write until its outcome is known, or looks its number up instead.
    fn find_out(&mut self, sent: &Sent, number: &str) -> Known {
        let mut sent = sent.clone();
        // A mistake shows only where something goes wrong.
        let mut fault = if self.mistake.is_some() { Some(Fault::ResponseLost) } else { self.fault() };
        loop {
            if self.has(Mistake::TimestampInBody) {
                self.made_up += 1;
                sent.body = sent.body.replace('}', &format!(",\"timestamp\":{}}}", self.made_up));
            }
            match self.send(&sent, fault) {
                Some(200..=299) => return Known::Done,
                Some(409 | 429 | 500..) | None => {}
                Some(_) => return Known::Refused,
            }
            if self.has(Mistake::GivesUp) {
                return Known::Done;
            }
            self.pause();
            if self.mistake.is_none() && self.chance(20) {
                return self.look_up(&sent, number);
            }
            if self.has(Mistake::NewKeyPerAttempt) {
                sent.key = self.new_key();
            }
            fault = self.fault();
        }
    }

    fn look_up(&mut self, sent: &Sent, number: &str) -> Known {
        let collection = if sent.path.starts_with("/v1/refunds") { "refunds" } else { "orders" };
        let path = format!("/v1/{collection}/{number}");
        let get = Sent { method: "GET", path, key: None, body: String::new() };
        loop {
            let fault = self.fault();
            match self.send(&get, fault) {
                Some(200) => return Known::Done,
                Some(404) => return Known::NotThere,
                _ => self.pause(),
            }
        }
    }

    fn body(kind: &str, number: &str, amount: u32) -> String {
        match kind {
            "orders" => format!("{{\"out_trade_no\":\"{number}\",\"amount\":{amount}}}"),
            _ => format!("{{\"out_refund_no\":\"{number}\",\"out_trade_no\":\"A\",\"amount\":{amount}}}"),
        }
    }

    fn write(&mut self, number: &str) {
        let kind = if self.chance(70) { "orders" } else { "refunds" };
        let wrong = self.has(Mistake::RetriesFinalErrors) || self.mistake.is_none() && self.chance(20);
        let body = Self::body(kind, number, if wrong { 0 } else { 2990 });
        let mut sent = Sent { method: "POST", path: format!("/v1/{kind}"), key: self.new_key(), body };
        if self.mistake.is_none() && self.chance(10) {
            self.click_twice(&sent);
        }
        loop {
            match self.find_out(&sent, number) {
                Known::Done => break,
                Known::Refused if self.has(Mistake::RetriesFinalErrors) => {
                    self.pause();
                    self.find_out(&sent, number);
                    break;
                }
                Known::Refused if self.mistake.is_some() || self.chance(30) => return,
                Known::Refused => sent.body = Self::body(kind, number, 2990),
                // Nothing ran: the same under the same key, or as something new.
                Known::NotThere if self.chance(50) => continue,
                Known::NotThere => {}
            }
            sent.key = self.new_key();
        }
        if self.mistake.is_none() {
            self.go_on(sent, number);
        }
    }

    /// A second click while the first is running: refused, and not repeated.
    fn click_twice(&mut self, sent: &Sent) {
        let started = self.now;
        self.send(sent, Some(Fault::Slow));
        let ended = std::mem::replace(&mut self.now, started);
        self.now.pass(Duration::from_millis(50));
        self.send(sent, None);
        self.now = ended;
        self.now.pass(Duration::from_secs(5));
    }

    /// What may follow: the same again after a restart, or much later; or closing the order.
    fn go_on(&mut self, mut sent: Sent, number: &str) {
        if self.chance(20) {
            self.now.pass(Duration::from_mins(10));
            self.find_out(&sent, number);
        }
        if self.chance(20) {
            self.now.merchants += Duration::from_hours(25);
            sent.key = self.new_key();
            self.find_out(&sent, number);
        }
        if self.chance(30) {
            let path = format!("/v1/orders/{number}/close");
            let close = Sent { method: "POST", path, key: self.new_key(), body: String::new() };
            self.find_out(&close, number);
        }
    }

    /// Several writes side by side.
    fn report(self) -> Report {
        self.report_of(|_| whole())
    }

    /// The same, with a part of the journal missing.
    fn report_of(mut self, lose: impl FnOnce(&mut Self) -> Reach) -> Report {
        let start = self.now;
        for number in 0..self.rng.random_range(2..6) {
            self.now = start;
            self.now.pass(Duration::from_millis(self.rng.random_range(0..2000)));
            self.write(&format!("N{number}"));
        }
        let reach = lose(&mut self);
        judge(&self.gateway.journal, &[], Thresholds::default(), reach)
    }
}

#[test]
fn a_correct_client_never_gets_a_finding() {
    for seed in 0..HISTORIES {
        let report = Client::new(seed, None).report();
        assert!(report.findings.is_empty(), "seed {seed}: {:#?}", report.findings);
    }
}

/// The oldest calls are gone, others were dropped until some moment, and the last are not written yet.
#[test]
fn a_correct_client_never_gets_a_finding_by_a_journal_that_lacks_calls() {
    for seed in 0..HISTORIES {
        let report = Client::new(seed, None).report_of(|client| {
            client.gateway.journal.sort_by_key(|call| call.received_at);
            let journal = &client.gateway.journal;
            let moment = |rng: &mut StdRng| journal[rng.random_range(0..journal.len())].received_at;
            let (missing_before, missing_after) = (moment(&mut client.rng), moment(&mut client.rng));
            let reach = match seed % 3 {
                0 => Reach { missing_before: Some(missing_before), ..whole() },
                1 => Reach { missing_after: Some(missing_after), ..whole() },
                _ => Reach {
                    missing_before: Some(missing_before),
                    missing_after: Some(missing_after),
                    ..whole()
                },
            };
            let before = |at| reach.missing_before.is_some_and(|before| at < before);
            let after = |at| reach.missing_after.is_some_and(|after| at > after);
            let rng = &mut client.rng;
            client.gateway.journal.retain(|call| {
                !(before(call.received_at) && rng.random_bool(0.5) || after(call.received_at))
            });
            reach
        });
        assert!(report.findings.is_empty(), "seed {seed}: {:#?}", report.findings);
    }
}

#[test]
fn each_mistake_gets_its_finding_and_no_other() {
    for (mistake, rule) in [
        (Mistake::NoKey, "missing_key"),
        (Mistake::NewKeyPerAttempt, "new_key_per_retry"),
        (Mistake::OneKeyForAll, "shared_key"),
        (Mistake::TimestampInBody, "body_changed"),
        (Mistake::NoPause, "no_backoff"),
        (Mistake::RetriesFinalErrors, "retried_final_error"),
        (Mistake::GivesUp, "gave_up"),
    ] {
        for seed in 0..HISTORIES / 10 {
            let report = Client::new(seed, Some(mistake)).report();
            let expected = BTreeSet::from([rule.to_owned()]);
            assert_eq!(rule_names(&report), expected, "{mistake:?}, seed {seed}: {:#?}", report.findings);
        }
    }
}
