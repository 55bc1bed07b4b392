//! Writes the journal in batches, merchant by merchant, so that a failure in one merchant's journal stops no other;
//! and publishes how far it has written (see `service::journal`).

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use time::OffsetDateTime;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::supervise;
use crate::db::journals::{self, Batch};
use crate::db::{DbError, journal_writers};
use crate::domain::id::MerchantId;
use crate::domain::journal::entry::Entry;
use crate::service::Gateway;
use crate::service::journal::{self, Message};

/// The worker's name in the log and in `/readyz`.
const NAME: &str = "journal";

/// How many messages are taken at once. One statement writes so many entries at most, apart from those of earlier
/// attempts that failed.
const BATCH: usize = 512;
/// How long entries are gathered, so that a busy sandbox writes few large batches.
const GATHERING: Duration = Duration::from_millis(25);
/// How often the writer publishes how far it has written while merchants are announced. An audit over another
/// instance waits for two of these. Without other instances, publishing only shows that this one lives.
const HEARTBEAT: Duration = Duration::from_millis(50);
const HEARTBEAT_ALONE: Duration = Duration::from_secs(1);
/// How often the writer looks for instances that have died.
const BURIAL: Duration = Duration::from_mins(1);

/// How often a batch is tried, and the pause in between. Meanwhile its entries wait.
const TRIES: u32 = 20;
const RETRY: Duration = Duration::from_millis(500);

/// The running worker. It is stopped after the others, because it writes the entries of the last calls.
#[derive(Debug)]
pub(crate) struct JournalWorker {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl JournalWorker {
    /// Starts to write the recorded entries.
    pub(crate) fn start(gateway: Arc<Gateway>, messages: mpsc::Receiver<Message>) -> Self {
        let stop = CancellationToken::new();
        let writer = Writer {
            messages,
            gateway,
            stop: stop.clone(),
            waiting: HashMap::new(),
            flushes: Vec::new(),
            published: None,
            looked_for_dead: None,
            lost: false,
        };
        // Shared, because what has been received outlives a panic.
        let (gateway, stopped) = (Arc::clone(&writer.gateway), stop.clone());
        let writer = Arc::new(Mutex::new(writer));
        let task = async move {
            let run = || {
                let writer = Arc::clone(&writer);
                async move { writer.lock().await.run().await }
            };
            supervise(&gateway.health, NAME, &stopped, run).await;
            writer.lock().await.leave().await;
        };
        Self { task: tokio::spawn(task), stop }
    }

    /// Writes the entries recorded so far, and ends.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

/// The entries of one merchant that wait to be written, and how often that was tried.
#[derive(Default)]
struct Waiting {
    batch: Batch,
    tries: u32,
}

struct Writer {
    messages: mpsc::Receiver<Message>,
    gateway: Arc<Gateway>,
    stop: CancellationToken,
    waiting: HashMap<MerchantId, Waiting>,
    /// Those who wait until all entries of a merchant are written.
    flushes: Vec<(oneshot::Sender<()>, MerchantId)>,
    /// When the writer published last, by this process's clock and the database's.
    published: Option<(Instant, OffsetDateTime)>,
    looked_for_dead: Option<Instant>,
    /// Entries were lost while stopping, and the database could not be told.
    lost: bool,
}

impl Writer {
    /// Writes until `stop` is cancelled, and then the rest.
    async fn run(&mut self) {
        let mut received = Vec::with_capacity(BATCH);
        loop {
            let receive = self.messages.recv_many(&mut received, BATCH);
            let receive = self.stop.run_until_cancelled(receive);
            // While there is nothing to publish, there is nothing to wake up for.
            let rests = self.waiting.is_empty() && self.published.is_none();
            let pause = if rests && !self.gateway.journal.has_announced() { BURIAL } else { HEARTBEAT };
            let ended = matches!(tokio::time::timeout(pause, receive).await, Ok(None));
            if ended {
                self.messages.close();
                let left = self.messages.recv_many(&mut received, BATCH).await;
                if left == 0 && self.waiting.is_empty() {
                    return;
                }
            }
            self.sort(received.drain(..));
            let failed = self.write().await;
            self.answer_flushes();
            if let Err(error) = self.say(self.messages.is_empty() && self.waiting.is_empty()).await {
                tracing::warn!(%error, "it could not be said how far the journal is written");
            }
            self.gateway.health.is_up(NAME);
            if failed {
                self.stop.run_until_cancelled(tokio::time::sleep(RETRY)).await;
            } else if self.messages.is_empty() {
                self.stop.run_until_cancelled(tokio::time::sleep(GATHERING)).await;
            }
        }
    }

    fn sort(&mut self, messages: impl Iterator<Item = Message>) {
        for message in messages {
            match message {
                Message::Entry(entry) => self.of(entry.merchant).batch.entries.push(*entry),
                Message::Flush(done, merchant) => self.flushes.push((done, merchant)),
                Message::Announced => {}
            }
        }
        for (merchant, dropped) in self.gateway.journal.take_dropped() {
            let batch = &mut self.of(merchant).batch;
            batch.dropped += dropped.dropped;
            batch.missing_before = batch.missing_before.max(dropped.missing_before);
        }
    }

    fn of(&mut self, merchant: MerchantId) -> &mut Waiting {
        self.waiting.entry(merchant).or_default()
    }

    /// Writes the waiting entries. Returns whether some could not be written yet.
    async fn write(&mut self) -> bool {
        let merchants: Vec<_> = self.waiting.keys().copied().collect();
        let mut failed = false;
        for merchant in merchants {
            let Place::Occupied(mut place) = self.waiting.entry(merchant) else { continue };
            let written = write(&self.gateway, merchant, &place.get().batch);
            // A batch that panics would do so again, and the batches after it would wait.
            let cause = match AssertUnwindSafe(written).catch_unwind().await {
                Ok(Ok(())) => {
                    self.gateway.journal.take(bytes(&place.remove().batch.entries));
                    continue;
                }
                Ok(Err(error)) => Some(error),
                Err(_panic) => None,
            };
            place.get_mut().tries += 1;
            let passes = matches!(cause, Some(DbError::Unavailable(_))) && place.get().tries < TRIES;
            if passes && !self.stop.is_cancelled() {
                failed = true;
                continue;
            }
            let cause = cause.map_or_else(|| "a panic".to_owned(), |error| error.to_string());
            tracing::warn!(cause, "journal entries could not be written");
            let Batch { entries, dropped, .. } = place.remove().batch;
            self.gateway.journal.take(bytes(&entries));
            if self.stop.is_cancelled() {
                self.lost = true;
            } else {
                self.gateway.journal.drop_entries(merchant, entries.len() as u64 + dropped);
            }
        }
        failed
    }

    fn answer_flushes(&mut self) {
        for (done, merchant) in std::mem::take(&mut self.flushes) {
            if self.waiting.contains_key(&merchant) {
                self.flushes.push((done, merchant));
            } else {
                let _ = done.send(());
            }
        }
        self.flushes.retain(|(done, _)| !done.is_closed());
    }

    /// Publishes how far the journal is written. If nothing waits, that is through the moment of the last
    /// publication: the entries of earlier answers have arrived since.
    async fn say(&mut self, all_written: bool) -> Result<(), DbError> {
        self.bury().await?;
        let (gateway, journal) = (&self.gateway, &self.gateway.journal);
        if all_written {
            for (merchant, opening) in journal.take_resting(false) {
                let mut conn = gateway.db.acquire().await?;
                journal_writers::close(&mut conn, merchant, journal.instance, opening).await?;
            }
        }
        if !journal.has_announced() {
            if self.published.take().is_some() {
                journal_writers::leave(&mut *gateway.db.acquire().await?, journal.instance).await?;
            }
            return Ok(());
        }
        let every = if gateway.db.is_exclusive() { HEARTBEAT_ALONE } else { HEARTBEAT };
        if self.published.is_none_or(|(at, _)| at.elapsed() >= every) {
            let through = self.published.map(|(_, through)| through).filter(|_| all_written);
            let mut conn = gateway.db.acquire().await?;
            let now = journal_writers::publish(&mut conn, journal.instance, through).await?;
            self.published = Some((Instant::now(), now));
        }
        Ok(())
    }

    /// Notes in the journals that dead instances were writing that entries may be missing.
    async fn bury(&mut self) -> Result<(), DbError> {
        if !self.gateway.health.is_ready() || self.looked_for_dead.is_some_and(|at| at.elapsed() < BURIAL) {
            return Ok(());
        }
        self.looked_for_dead = Some(Instant::now());
        let db = &self.gateway.db;
        // A connection in the head of the loop would be held to its end.
        let dead = journal_writers::dead(&mut *db.acquire().await?).await?;
        for (instance, died_at) in dead {
            loop {
                let merchants = journal_writers::merchants_of(&mut *db.acquire().await?, instance).await?;
                if merchants.is_empty() {
                    break;
                }
                for merchant in merchants {
                    journal_writers::bury(&mut *db.acquire().await?, merchant, instance, died_at).await?;
                }
            }
            journal_writers::leave(&mut *db.acquire().await?, instance).await?;
        }
        Ok(())
    }

    /// Withdraws all announcements of this instance, unless it lost entries.
    async fn leave(&self) {
        if self.lost || !self.waiting.is_empty() {
            return;
        }
        let (gateway, journal) = (&self.gateway, &self.gateway.journal);
        let leave = async {
            for (merchant, opening) in journal.take_resting(true) {
                let mut conn = gateway.db.acquire().await?;
                journal_writers::close(&mut conn, merchant, journal.instance, opening).await?;
            }
            journal_writers::leave(&mut *gateway.db.acquire().await?, journal.instance).await
        };
        if let Err(error) = leave.await {
            tracing::warn!(%error, "it could not be said that the journal is written");
        }
    }
}

/// Writes one merchant's batch. If its journal then holds too much, deletes at least as much as was written.
async fn write(gateway: &Gateway, merchant: MerchantId, batch: &Batch) -> Result<(), DbError> {
    let held = journals::write(&mut *gateway.db.acquire().await?, merchant, batch).await?;
    if held.exceeds(gateway.journal.bounds().unread())
        && let Err(error) = journal::trim(gateway, merchant).await
    {
        tracing::warn!(%error, "a journal is trimmed later");
    }
    Ok(())
}

fn bytes(entries: &[Entry]) -> usize {
    entries.iter().map(Entry::bytes).sum()
}
