//! Sends webhooks: takes due events merchant by merchant, and starts each attempt in its own task. The attempts in
//! flight are bounded per receiver, per merchant and in total, so that a receiver that hangs slows nobody else. A
//! merchant at its bound rests for a moment, so that its backlog is not searched in vain.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::attempt;
use super::post::Sender;
use crate::db::DbError;
use crate::db::leases::{Capacity, LeaseHolder};
use crate::domain::id::MerchantId;
use crate::service::Gateway;
use crate::service::delivery::{self, Haul};

/// How often the loop looks for events that have come due, and how long a merchant at its capacity rests. New events
/// ring a bell, and an attempt that ends frees capacity, so neither waits this long.
const POLL: Duration = Duration::from_millis(100);
/// How long a merchant rests while others write its events, or another instance sends them.
const BRIEFLY: Duration = Duration::from_millis(10);
/// How long a merchant rests after its events could not be taken, for example because of a lock.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// How many attempts may be in flight to one receiver (scheme, host and port) of a merchant.
const OF_RECEIVER: usize = 16;
/// How many events of one merchant are taken at once.
const AT_ONCE: usize = 16;
/// How many attempts may be in flight or wait for their records in total. Each in flight takes a socket.
const OF_ALL: usize = 512;
/// A merchant may have one part in this many of the free capacity in flight. Several of its receivers may hang, and
/// even if those of many merchants hang, capacity is left for a merchant that has none in flight.
const PART_OF_FREE: usize = 4;
/// How many merchants with due events are found at once.
const MERCHANTS: usize = 64;

/// How long attempts may run on after a signal. An attempt that is cut off is made again when its lease is over.
const FINISH_WITHIN: Duration = Duration::from_secs(5);

/// Sends what is due until `stop` is cancelled.
pub(super) async fn run(gateway: Arc<Gateway>, stop: CancellationToken) {
    let mut delivery = DeliveryLoop::new(Arc::clone(&gateway));
    while !stop.is_cancelled() {
        match delivery.run_once().await {
            Ok(more) => {
                gateway.health.is_up("delivery");
                if more {
                    continue;
                }
            }
            Err(error) => tracing::warn!(worker = "delivery", %error, "will try again"),
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = gateway.delivery_bell.notified() => {}
            () = delivery.until_capacity_is_free() => {}
            () = tokio::time::sleep(POLL) => {}
        }
    }
    let _ = tokio::time::timeout(FINISH_WITHIN, delivery.finish()).await;
}

/// To whom an attempt goes: the merchant, and its receiver.
type Whose = (MerchantId, Option<String>);

/// The attempts of this process.
struct DeliveryLoop {
    gateway: Arc<Gateway>,
    sender: Arc<Sender>,
    lease_holder: LeaseHolder,
    attempts: JoinSet<()>,
    in_flight: HashMap<Id, Whose>,
    /// The records of attempts that have ended. Meanwhile their places in flight are free for others.
    records: TaskTracker,
    /// Merchants that are not looked at until then.
    resting: HashMap<MerchantId, Instant>,
}

impl DeliveryLoop {
    fn new(gateway: Arc<Gateway>) -> Self {
        let sender = Arc::new(Sender::new(gateway.notify_policy));
        let lease_holder = LeaseHolder { id: Uuid::new_v4(), alone: gateway.db.is_exclusive() };
        let (attempts, records) = (JoinSet::new(), TaskTracker::new());
        let (in_flight, resting) = (HashMap::new(), HashMap::new());
        Self { gateway, sender, lease_holder, attempts, in_flight, records, resting }
    }

    /// Starts attempts that are due. Returns whether more may be due.
    async fn run_once(&mut self) -> Result<bool, DbError> {
        while let Some(ended) = self.attempts.try_join_next_with_id() {
            self.forget(ended);
        }
        let now = Instant::now();
        self.resting.retain(|_, until| *until > now);
        let resting: Vec<_> = self.resting.keys().copied().collect();
        let due = delivery::due(&self.gateway, &resting, count(MERCHANTS)).await?;
        let mut more = due.len() == MERCHANTS;
        for merchant in due {
            if self.free() == 0 {
                return Ok(false);
            }
            match self.serve(merchant).await {
                Ok(is_full) => more |= is_full,
                Err(error @ DbError::Unavailable(_)) if !error.is_lock_timeout() => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "the events of a merchant wait");
                    self.rest(merchant, AFTER_FAILURE);
                }
            }
        }
        Ok(more)
    }

    /// Starts attempts of one merchant. Returns whether more of its events may be taken at once.
    async fn serve(&mut self, merchant: MerchantId) -> Result<bool, DbError> {
        let capacity = self.capacity(merchant);
        if capacity.in_all == 0 {
            self.rest(merchant, POLL);
            return Ok(false);
        }
        let haul = delivery::take(&self.gateway, merchant, self.lease_holder, &capacity).await?;
        let is_full = haul.is_full;
        self.start(haul);
        if is_full {
            return Ok(true);
        }
        if self.is_crowded(merchant) {
            self.rest(merchant, POLL);
        } else if !delivery::raise(&self.gateway, merchant, self.lease_holder).await? {
            self.rest(merchant, BRIEFLY);
        }
        Ok(false)
    }

    fn start(&mut self, haul: Haul) {
        let ends: Vec<_> = haul.taken.iter().map(|taken| haul.lease_ends(taken)).collect();
        for (taken, ends) in haul.taken.into_iter().zip(ends) {
            let (gateway, sender) = (Arc::clone(&self.gateway), Arc::clone(&self.sender));
            let (whose, records) = ((taken.lease.merchant, taken.receiver.clone()), self.records.clone());
            let task = self.attempts.spawn(async move {
                let ended = attempt::send(&sender, &taken, haul.now, ends).await;
                // Whatever this loop waits for, the record does not.
                records.spawn(async move { attempt::record(&gateway, ended).await });
            });
            self.in_flight.insert(task.id(), whose);
        }
    }

    /// How many more attempts may be in flight.
    fn free(&self) -> usize {
        OF_ALL.saturating_sub(self.in_flight.len() + self.records.len())
    }

    /// How much may be taken of a merchant.
    fn capacity(&self, merchant: MerchantId) -> Capacity {
        let receivers = self.receivers(merchant);
        let mine = receivers.values().sum::<usize>();
        let in_all = share(mine, self.free());
        let (receivers, attempts) =
            receivers.into_iter().map(|(receiver, attempts)| (receiver.to_owned(), count(attempts))).unzip();
        Capacity { in_all: count(in_all), of_receiver: count(OF_RECEIVER), receivers, attempts }
    }

    /// How many attempts each receiver of a merchant has in flight.
    fn receivers(&self, merchant: MerchantId) -> HashMap<&str, usize> {
        let mut receivers = HashMap::new();
        for (_, receiver) in self.in_flight.values().filter(|(whose, _)| *whose == merchant) {
            *receivers.entry(receiver.as_deref().unwrap_or_default()).or_default() += 1;
        }
        receivers
    }

    /// Whether a receiver of a merchant is at its capacity, so that events for it may be due and cannot be taken.
    fn is_crowded(&self, merchant: MerchantId) -> bool {
        self.receivers(merchant).values().any(|attempts| *attempts >= OF_RECEIVER)
    }

    fn rest(&mut self, merchant: MerchantId, time: Duration) {
        self.resting.insert(merchant, Instant::now() + time);
    }

    /// Returns when an attempt has ended whose capacity somebody was waiting for.
    async fn until_capacity_is_free(&mut self) {
        while let Some(ended) = self.attempts.join_next_with_id().await {
            if self.forget(ended) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    /// Waits until what is in flight has ended and is recorded.
    async fn finish(&mut self) {
        while self.attempts.join_next().await.is_some() {}
        self.records.close();
        self.records.wait().await;
    }

    /// Returns whether somebody was waiting for the attempt to end.
    fn forget(&mut self, ended: Result<(Id, ()), JoinError>) -> bool {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                tracing::error!("an attempt to deliver panicked");
                error.id()
            }
        };
        let was_full = self.free() == 0;
        let merchant = self.in_flight.remove(&id).map(|(merchant, _)| merchant);
        let was_resting = merchant.is_some_and(|merchant| self.resting.remove(&merchant).is_some());
        was_full || was_resting
    }
}

/// How many attempts a merchant may start at once that has `mine` in flight, if `free` more may be in flight in
/// total.
fn share(mine: usize, free: usize) -> usize {
    free.div_ceil(PART_OF_FREE).saturating_sub(mine).min(AT_ONCE)
}

/// A number that is small.
fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merchants_whose_receivers_hang_leave_room_for_others() {
        let mut free = OF_ALL;
        for _ in 0..16 {
            let mut mine = 0;
            while share(mine, free) > 0 {
                let started = share(mine, free);
                (mine, free) = (mine + started, free - started);
            }
            assert!((1..=OF_ALL / PART_OF_FREE).contains(&mine), "{mine}");
        }
        assert_eq!((share(0, free), free), (2, 7));
        // The last free ones are left for merchants that have none in flight.
        assert_eq!((share(0, 1), share(1, 1), share(0, 0)), (1, 0, 0));
    }
}
