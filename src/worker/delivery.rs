//! Sends webhooks: takes what is due, POSTs each in a task of its own, and records what came of it. No
//! connection to the database is held during a POST. How much is under way is bounded for each receiver,
//! for each merchant and in all, so that one that hangs slows nobody else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::post::Sender;
use crate::db::DbError;
use crate::db::deliveries::{Attempt, Room, Taken, Underway};
use crate::domain::delivery::Outcome;
use crate::domain::fault::DeliveryFault;
use crate::domain::id::MerchantId;
use crate::domain::signature;
use crate::domain::webhook::WebhookSecret;
use crate::service::{Gateway, delivery};

/// How often events are looked for that come due by time. New ones ring a bell.
const POLL: Duration = Duration::from_millis(100);
/// With so many merchants that looking takes long, the pauses are so many times as long.
const PAUSE_PER_LOOK: u32 = 5;

/// How many attempts may be under way to one receiver (scheme, host and port) of a merchant. One look may
/// exceed it by what it takes at once.
const OF_RECEIVER: usize = 16;
/// How many events of one merchant one look takes.
const AT_ONCE: i64 = 8;
/// How many attempts of one merchant may be under way: several receivers may hang, and others get theirs.
const OF_MERCHANT: i64 = 128;
/// How many in all; each takes a socket.
const OF_ALL: usize = 512;

/// How old a stale timestamp is, in seconds: twice of what receivers tolerate.
const STALE_BY: i64 = 2 * signature::TOLERANCE_SECONDS;
/// What signs where a signature is to fit nothing.
const NOBODYS_SECRET: &str = "whsec_of_nobody";

/// How long attempts may go on after a signal. What is cut off then is sent again when its lease is over.
const FINISH_WITHIN: Duration = Duration::from_secs(5);

/// Sends what is due until `stop` is cancelled.
pub(super) async fn run(gateway: Arc<Gateway>, stop: CancellationToken) {
    let sender = Arc::new(Sender::new(gateway.notify_policy));
    let mut delivery = Delivery { gateway, sender, attempts: JoinSet::new(), underway: HashMap::new() };
    while !stop.is_cancelled() {
        let started = Instant::now();
        match delivery.run_once().await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => tracing::warn!(worker = "delivery", %error, "will try again"),
        }
        let pause = POLL.max(started.elapsed() * PAUSE_PER_LOOK);
        let gateway = Arc::clone(&delivery.gateway);
        tokio::select! {
            () = stop.cancelled() => {}
            () = gateway.delivery_bell.notified() => {}
            () = delivery.attempt_ended(), if delivery.is_crowded() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
    let finish = async { while delivery.attempts.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(FINISH_WITHIN, finish).await;
}

/// Who gets an attempt: a merchant, and its receiver.
type Whose = (MerchantId, Option<String>);

/// The attempts of this process.
struct Delivery {
    gateway: Arc<Gateway>,
    sender: Arc<Sender>,
    attempts: JoinSet<()>,
    underway: HashMap<Id, Whose>,
}

impl Delivery {
    /// Starts attempts that are due. Returns whether more may be due.
    async fn run_once(&mut self) -> Result<bool, DbError> {
        while let Some(ended) = self.attempts.try_join_next_with_id() {
            self.forget(ended);
        }
        let free = OF_ALL.saturating_sub(self.underway.len());
        if free == 0 {
            return Ok(false);
        }
        let of_all = i64::try_from(free).unwrap_or_default();
        let room = Room { at_once: AT_ONCE, of_merchant: OF_MERCHANT, of_all };
        let mut counts: HashMap<MerchantId, i64> = HashMap::new();
        for taken in delivery::take(&self.gateway, room, &self.count()).await? {
            *counts.entry(taken.merchant).or_default() += 1;
            self.start(taken);
        }
        Ok(counts.values().any(|count| *count >= AT_ONCE))
    }

    fn start(&mut self, taken: Taken) {
        let (gateway, sender) = (Arc::clone(&self.gateway), Arc::clone(&self.sender));
        let whose = (taken.merchant, taken.receiver.clone());
        let task = self.attempts.spawn(async move {
            if let Err(error) = deliver(&gateway, &sender, &taken).await {
                tracing::warn!(event = %taken.event_id, %error, "sent again when its lease is over");
            }
        });
        self.underway.insert(task.id(), whose);
    }

    /// What is under way, by merchant; and the receivers that have enough to do.
    fn count(&self) -> Underway {
        let (mut merchants, mut receivers) = (HashMap::new(), HashMap::new());
        for (merchant, receiver) in self.underway.values() {
            *merchants.entry(merchant.uuid()).or_insert(0) += 1;
            *receivers.entry((merchant.uuid(), receiver)).or_insert(0) += 1;
        }
        let (merchants, attempts) = merchants.into_iter().unzip();
        let crowded = receivers.into_iter().filter(|(_, count)| *count >= OF_RECEIVER);
        let crowded = crowded.filter_map(|((merchant, receiver), _)| Some((merchant, receiver.clone()?)));
        let (crowded_merchants, crowded_receivers) = crowded.unzip();
        Underway { merchants, attempts, crowded_merchants, crowded_receivers }
    }

    /// Whether something may be due that waits only for an attempt to end.
    fn is_crowded(&self) -> bool {
        let count = self.count();
        let full = count.attempts.iter().any(|attempts| *attempts >= OF_MERCHANT);
        full || !count.crowded_receivers.is_empty() || self.underway.len() >= OF_ALL
    }

    async fn attempt_ended(&mut self) {
        if let Some(ended) = self.attempts.join_next_with_id().await {
            self.forget(ended);
        }
    }

    fn forget(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                tracing::error!("an attempt to deliver panicked");
                error.id()
            }
        };
        self.underway.remove(&id);
    }
}

/// One attempt, from the fault that strikes it to its record.
async fn deliver(gateway: &Gateway, sender: &Sender, taken: &Taken) -> Result<(), DbError> {
    let Some(url) = &taken.url else {
        return delivery::give_up(gateway, taken).await;
    };
    let fault = delivery::fault(gateway, taken).await?;
    if let Some(DeliveryFault::Delay(delay)) = fault {
        return delivery::postpone(gateway, taken, delay).await;
    }
    attempt(gateway, sender, taken, url, fault, false).await?;
    if fault == Some(DeliveryFault::Duplicate) {
        attempt(gateway, sender, taken, url, fault, true).await?;
    }
    Ok(())
}

async fn attempt(
    gateway: &Gateway,
    sender: &Sender,
    taken: &Taken,
    url: &str,
    fault: Option<DeliveryFault>,
    is_extra: bool,
) -> Result<(), DbError> {
    let signature = sign(taken, fault);
    let outcome = match fault {
        Some(DeliveryFault::Lost) => Outcome::lost(),
        _ => sender.post(url, taken.event_id, &signature, &taken.payload).await,
    };
    tracing::info!(
        event = %taken.event_id,
        event_type = taken.event_type.code(),
        fault = fault.map(DeliveryFault::kind),
        status = outcome.status,
        error = outcome.error,
        duration_ms = outcome.duration_ms,
        "webhook sent"
    );
    let attempt = Attempt { taken, url, signature: &signature, outcome: &outcome, is_extra };
    delivery::record(gateway, &attempt).await
}

/// The signature of an attempt, at this moment.
fn sign(taken: &Taken, fault: Option<DeliveryFault>) -> String {
    let secrets = [Some(&taken.secret), taken.previous_secret.as_ref()].into_iter().flatten();
    let secrets = secrets.map(|secret| match fault {
        Some(DeliveryFault::BadSignature) => NOBODYS_SECRET,
        _ => WebhookSecret::as_str(secret),
    });
    // Real time, whatever the merchant's clock says: receivers refuse a timestamp that is far off.
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let timestamp = if fault == Some(DeliveryFault::StaleTimestamp) { now - STALE_BY } else { now };
    signature::header(&secrets.collect::<Vec<_>>(), timestamp, taken.payload.as_bytes())
}
