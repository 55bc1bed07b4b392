//! A gateway in twenty lines, which answers made-up clients as the real one does, or fails to, and writes
//! the journal that the audit reads.

use std::collections::HashMap;
use std::time::Duration;

use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::audit::Call;
use crate::domain::id::RequestId;

/// What goes wrong with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    RequestLost,
    ResponseLost,
    ErrorBefore,
    ErrorAfter,
    RateLimited,
    /// The upload breaks off: the client hangs up before all of its body has come.
    BrokenUpload,
    /// The call takes so long that its client does not wait for it.
    Slow,
}

/// The moment of a call, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) real: OffsetDateTime,
    pub(super) merchants: OffsetDateTime,
}

impl Now {
    pub(super) fn pass(&mut self, duration: Duration) {
        self.real += duration;
        self.merchants += duration;
    }
}

/// What a client sends.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) key: Option<String>,
    pub(super) body: String,
}

/// A request that is bound to a key, until when it runs, and what it came to.
#[derive(Debug)]
struct Bound {
    path: String,
    body: String,
    expires: OffsetDateTime,
    runs_until: OffsetDateTime,
    stored: Option<(u16, &'static str)>,
}

/// The gateway and its journal.
#[derive(Debug, Default)]
pub(super) struct Gateway {
    pub(super) journal: Vec<Call>,
    keys: HashMap<String, Bound>,
    /// The numbers that exist.
    numbers: Vec<String>,
}

impl Gateway {
    /// Takes a call. The status and code that the client gets to see, if any, and how long that takes.
    pub(super) fn answer(
        &mut self,
        sent: &Sent,
        now: Now,
        fault: Option<Fault>,
        slow: Duration,
    ) -> Option<u16> {
        let (status, code) = match fault {
            Some(Fault::RequestLost | Fault::BrokenUpload) => (None, ""),
            Some(Fault::ErrorBefore) => (Some(500), "sandbox_fault"),
            Some(Fault::RateLimited) => (Some(429), "sandbox_fault"),
            _ => self.run(sent, now, fault, slow),
        };
        let broke = fault == Some(Fault::BrokenUpload);
        let lost = broke || matches!(fault, Some(Fault::RequestLost | Fault::ResponseLost));
        // A refusal to run is not slow.
        let hung_up = fault == Some(Fault::Slow) && status != Some(409);
        let call = Call {
            request_id: RequestId::from_uuid(Uuid::now_v7()),
            at: now.merchants,
            received_at: now.real,
            duration: if hung_up { slow } else { super::call().duration },
            idempotency_key: sent.key.clone(),
            status,
            code: Some(code.to_owned()),
            answered: !lost && !hung_up,
            client_hung_up: hung_up,
            ..super::request(sent.method, &sent.path, &sent.body)
        };
        self.journal.push(if broke { super::broken(call) } else { call });
        status.filter(|_| !lost && !hung_up)
    }

    fn run(
        &mut self,
        sent: &Sent,
        now: Now,
        fault: Option<Fault>,
        slow: Duration,
    ) -> (Option<u16>, &'static str) {
        let number = number_in(sent);
        if sent.method == "GET" {
            let found = self.numbers.contains(&number);
            return (Some(if found { 200 } else { 404 }), "order_not_found");
        }
        if let Some(bound) = sent.key.as_ref().and_then(|key| self.keys.get(key))
            && now.merchants < bound.expires
        {
            if (&bound.path, &bound.body) != (&sent.path, &sent.body) {
                return (Some(400), "idempotency_key_reused");
            } else if now.real < bound.runs_until {
                return (Some(409), "idempotency_in_progress");
            } else if let Some((status, code)) = bound.stored {
                return (Some(status), code);
            }
        }
        let refused = sent.body.contains("\"amount\":0");
        let outcome = match (refused, self.numbers.contains(&number)) {
            (true, _) => (400, "amount_invalid"),
            (false, true) => (200, ""),
            (false, false) => {
                self.numbers.push(number);
                (201, "")
            }
        };
        let stored = (fault != Some(Fault::ErrorAfter)).then_some(outcome);
        if let Some(key) = &sent.key {
            let expires =
                self.keys.get(key).map(|bound| bound.expires).filter(|expires| now.merchants < *expires);
            let bound = Bound {
                path: sent.path.clone(),
                body: sent.body.clone(),
                expires: expires.unwrap_or(now.merchants + Duration::from_hours(24)),
                runs_until: if fault == Some(Fault::Slow) { now.real + slow } else { now.real },
                stored,
            };
            self.keys.insert(key.clone(), bound);
        }
        stored.map_or((Some(503), "sandbox_fault"), |(status, code)| (Some(status), code))
    }
}

/// The number that a call is about.
fn number_in(sent: &Sent) -> String {
    let body: serde_json::Value = serde_json::from_str(&sent.body).unwrap_or_default();
    let named = ["out_refund_no", "out_trade_no"].iter().find_map(|name| body[name].as_str());
    let in_path = || sent.path.split('/').nth(3).unwrap_or_default();
    named.unwrap_or_else(in_path).to_owned()
}
