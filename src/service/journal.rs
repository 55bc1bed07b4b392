//! The journal: recording entries without making anybody wait, and reading them (contract, section 7). Writing them
//! is left to the worker.
//!
//! Several instances may write one merchant's journal, each a moment after it has answered. A reader must know what
//! may be missing. So an instance announces a merchant in the database before its first answer (`journal_writers`),
//! publishes how far it has written while it has announced merchants (`instances`), and withdraws the announcement
//! once the merchant rests. At rest, there are no rows and no writes. An instance that died leaves its rows, which
//! show a reader that the merchant's journal may be incomplete.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::{Gateway, WorkError};
use crate::db::journals::{self, Batch, State};
use crate::db::{Database, DbError, journal_writers, requests};
use crate::domain::audit::Reach;
use crate::domain::id::MerchantId;
use crate::domain::journal::entry::{Bounds, Entry};
use crate::domain::refusal::Refusal;

/// How many entries may wait to be written, and how many bytes of text. Entries beyond that are dropped and counted.
const WAITING: usize = 8192;
const WAITING_BYTES: usize = 64 * 1024 * 1024;
/// How many bytes of text are kept of a merchant.
const MAX_BYTES: i64 = 64 * 1024 * 1024;
/// How many entries one statement deletes. In between, others get the connection.
const TRIMMED: i64 = 1000;

/// How long a reader waits until the entries of earlier answers are written, here and by other instances.
const FLUSHED_WITHIN: Duration = Duration::from_secs(5);
/// How often a reader checks how far other instances have written.
const LOOK: Duration = Duration::from_millis(20);
/// After how long without a call a merchant rests.
const REST: Duration = Duration::from_secs(2);

/// What the worker is sent.
#[derive(Debug)]
pub enum Message {
    /// To be written.
    Entry(Box<Entry>),
    /// To be answered once all earlier entries of this merchant are written.
    Flush(oneshot::Sender<()>, MerchantId),
    /// A merchant was announced, perhaps long before its first entry.
    Announced,
}

/// The way to the worker.
#[derive(Debug)]
pub struct Journal {
    sender: mpsc::Sender<Message>,
    waiting_bytes: AtomicUsize,
    /// How many entries of a merchant are kept; with 0, nothing is written.
    pub size: u32,
    /// This process, among those that write journals.
    pub instance: Uuid,
    dropped: Mutex<HashMap<MerchantId, (u64, OffsetDateTime)>>,
    announced: Mutex<HashMap<MerchantId, Announced>>,
}

/// A merchant whose journal this instance may be writing.
#[derive(Debug)]
struct Announced {
    opening: Uuid,
    last_call: Instant,
    in_flight: u32,
}

impl Journal {
    /// A journal that keeps `size` entries per merchant, and the messages for its worker.
    #[must_use]
    pub fn new(size: u32) -> (Self, mpsc::Receiver<Message>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let journal = Self {
            sender,
            waiting_bytes: AtomicUsize::new(0),
            size,
            instance: Uuid::new_v4(),
            dropped: Mutex::default(),
            announced: Mutex::default(),
        };
        (journal, receiver)
    }

    /// How much is kept of a merchant.
    #[must_use]
    pub const fn bounds(&self) -> Bounds {
        Bounds { entries: self.size as i64, bytes: MAX_BYTES }
    }

    /// Announces, before a call runs, that its entry will be written; [`Journal::record`] must follow. Only the
    /// first call after a merchant's rest needs the database.
    pub async fn announce(&self, db: &Database, merchant: MerchantId) {
        if self.size == 0 || self.meets(merchant) {
            return;
        }
        let opening = Uuid::new_v4();
        let open = async {
            journal_writers::open(&mut *db.acquire().await?, merchant, self.instance, opening).await
        };
        // Without the database the call fails, too; its entry is written or counted as dropped.
        if let Err(error) = open.await {
            tracing::warn!(%error, "it could not be said that a journal is being written");
        }
        if let Ok(mut announced) = self.announced.lock() {
            let new = Announced { opening, last_call: Instant::now(), in_flight: 0 };
            let known = announced.entry(merchant).or_insert(new);
            (known.opening, known.in_flight) = (opening, known.in_flight + 1);
        }
        // If the channel is full, the worker is awake.
        let _ = self.sender.try_send(Message::Announced);
    }

    /// Whether the merchant is already announced; if so, counts one more call in flight.
    fn meets(&self, merchant: MerchantId) -> bool {
        let Ok(mut announced) = self.announced.lock() else { return true };
        let known = announced.get_mut(&merchant);
        known.is_some_and(|known| {
            (known.last_call, known.in_flight) = (Instant::now(), known.in_flight + 1);
            true
        })
    }

    /// Whether merchants are announced.
    #[must_use]
    pub fn has_announced(&self) -> bool {
        self.announced.lock().is_ok_and(|announced| !announced.is_empty())
    }

    /// Takes out the merchants that rest, with the ids of their announcements. With `all`, takes out all of them.
    pub fn take_resting(&self, all: bool) -> Vec<(MerchantId, Uuid)> {
        let Ok(mut announced) = self.announced.lock() else { return Vec::new() };
        let rests = |it: &Announced| it.in_flight == 0 && it.last_call.elapsed() >= REST;
        let resting = announced.extract_if(|_, it| all || rests(it));
        resting.map(|(merchant, it)| (merchant, it.opening)).collect()
    }

    /// Takes an entry. Under overload it is dropped and counted: no request waits for its journal.
    pub fn record(&self, entry: Entry) {
        if self.size == 0 {
            return;
        }
        let (merchant, bytes) = (entry.merchant, entry.bytes());
        let has_capacity = self.waiting_bytes.load(Ordering::Relaxed) + bytes <= WAITING_BYTES;
        // Counted before it is sent, because the worker may take it at once.
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        if !has_capacity || self.sender.try_send(Message::Entry(Box::new(entry))).is_err() {
            self.take(bytes);
            self.drop_entries(merchant, 1);
        }
        if let Ok(mut announced) = self.announced.lock()
            && let Some(known) = announced.get_mut(&merchant)
        {
            (known.last_call, known.in_flight) = (Instant::now(), known.in_flight.saturating_sub(1));
        }
    }

    /// Counts this many bytes of text as no longer waiting.
    pub fn take(&self, bytes: usize) {
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts entries that could not be written. The count is written as soon as possible.
    pub fn drop_entries(&self, merchant: MerchantId, count: u64) {
        let Ok(mut dropped) = self.dropped.lock() else { return };
        if dropped.is_empty() {
            tracing::warn!("journal entries were dropped, as too many came at once or the database was away");
        }
        let known = dropped.entry(merchant).or_insert((0, OffsetDateTime::UNIX_EPOCH));
        *known = (known.0 + count, OffsetDateTime::now_utc());
    }

    /// Takes the counts of dropped entries that are not written yet, as batches without entries.
    pub fn take_dropped(&self) -> Vec<(MerchantId, Batch)> {
        let Ok(mut dropped) = self.dropped.lock() else { return Vec::new() };
        let batch = |(dropped, at)| Batch { entries: Vec::new(), dropped, missing_before: Some(at) };
        dropped.drain().map(|(merchant, it)| (merchant, batch(it))).collect()
    }

    /// Waits until all entries of a merchant recorded so far are written. The caller must not hold a connection.
    /// Returns false if that takes too long.
    pub async fn flush(&self, merchant: MerchantId) -> bool {
        if self.size == 0 {
            return true;
        }
        let (done, written) = oneshot::channel();
        let flush = async {
            let sent = self.sender.send(Message::Flush(done, merchant)).await;
            sent.is_ok() && written.await.is_ok()
        };
        let in_time = matches!(tokio::time::timeout(FLUSHED_WITHIN, flush).await, Ok(true));
        if !in_time {
            tracing::warn!("the journal is behind");
        }
        in_time
    }
}

/// Prepares a merchant's journal for reading: waits for the entries of this instance, and trims the journal to its
/// bounds. Returns how much it holds and what may be missing.
pub async fn prepare(gateway: &Gateway, merchant: MerchantId) -> Result<State, DbError> {
    gateway.journal.flush(merchant).await;
    trimmed(gateway, merchant).await
}

async fn trimmed(gateway: &Gateway, merchant: MerchantId) -> Result<State, DbError> {
    let bounds = gateway.journal.bounds();
    let state =
        journals::state(&mut *gateway.db.acquire().await?, merchant, gateway.journal.instance).await?;
    if !state.held.exceeds(bounds) || bounds.entries == 0 {
        return Ok(state);
    }
    while trim(gateway, merchant).await? > 0 {}
    journals::state(&mut *gateway.db.acquire().await?, merchant, gateway.journal.instance).await
}

/// Deletes some of the entries beyond the bounds of a merchant's journal. Returns how many.
pub async fn trim(gateway: &Gateway, merchant: MerchantId) -> Result<i64, DbError> {
    let mut conn = gateway.db.acquire().await?;
    journals::trim(&mut conn, merchant, gateway.journal.bounds(), TRIMMED).await
}

/// Prepares a merchant's journal for an audit: also waits for other instances that may have unwritten entries, unless
/// they have died. Returns how far the journal reaches.
pub async fn reach(gateway: &Gateway, merchant: MerchantId) -> Result<Reach, DbError> {
    let started = Instant::now();
    let is_written_here = gateway.journal.flush(merchant).await;
    let mut state = trimmed(gateway, merchant).await?;
    let asked = state.now;
    let behind = |state: &State| state.written_through.filter(|through| *through < asked);
    while behind(&state).is_some() && started.elapsed() < FLUSHED_WITHIN {
        tokio::time::sleep(LOOK).await;
        let mut conn = gateway.db.acquire().await?;
        state = journals::state(&mut conn, merchant, gateway.journal.instance).await?;
    }
    let here = match (gateway.journal.size, is_written_here) {
        (0, _) => Some(OffsetDateTime::UNIX_EPOCH),
        // An entry that waits here was answered within this time, or is counted as dropped.
        (_, false) => Some(asked - FLUSHED_WITHIN),
        (_, true) => None,
    };
    let missing_after = here.into_iter().chain(behind(&state)).min();
    let dropped = state.dropped.unsigned_abs();
    Ok(Reach { missing_before: state.missing_before, missing_after, dropped, asked })
}

/// An entry by its id.
///
/// # Errors
/// [`Refusal::RequestNotFound`], or those of the database.
pub async fn find(gateway: &Gateway, merchant: MerchantId, id: &str) -> Result<Entry, WorkError> {
    let not_found = || Refusal::RequestNotFound(id.to_owned());
    let request_id = id.parse().map_err(|_| not_found())?;
    prepare(gateway, merchant).await?;
    let mut conn = gateway.db.acquire().await?;
    Ok(requests::find(&mut conn, merchant, request_id).await?.ok_or_else(not_found)?)
}
