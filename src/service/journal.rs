//! The journal: taking entries without making anybody wait, and reading them (contract, section 7). The
//! worker writes them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::{Gateway, WorkError};
use crate::db::{PgConnection, requests};
use crate::domain::id::MerchantId;
use crate::domain::journal::Entry;
use crate::domain::refusal::Refusal;

/// How many entries may wait to be written, and how much text, in bytes; those that come beyond are dropped
/// and counted.
const WAITING: usize = 8192;
const WAITING_BYTES: usize = 64 * 1024 * 1024;

/// How long whoever reads waits for what was answered before to be written.
const FLUSHED_WITHIN: Duration = Duration::from_secs(2);

/// What the worker is sent.
#[derive(Debug)]
pub enum Message {
    /// To be written.
    Entry(Box<Entry>),
    /// To be answered once all that came before is written, and the journal of this merchant, if it is read,
    /// is in its bounds.
    Flush(oneshot::Sender<()>, Option<MerchantId>),
}

/// The way to the worker.
#[derive(Debug)]
pub struct Journal {
    sender: mpsc::Sender<Message>,
    waiting_bytes: AtomicUsize,
    /// How many entries of a merchant are kept; with 0, nothing is written.
    pub size: u32,
    dropped: AtomicU64,
}

impl Journal {
    /// A journal that keeps so many entries of a merchant, and what its worker receives.
    #[must_use]
    pub fn new(size: u32) -> (Self, mpsc::Receiver<Message>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let waiting_bytes = AtomicUsize::new(0);
        (Self { sender, waiting_bytes, size, dropped: AtomicU64::new(0) }, receiver)
    }

    /// Takes an entry. Under overload it is dropped and counted: no request waits for its journal.
    pub fn record(&self, entry: Entry) {
        if self.size == 0 {
            return;
        }
        let bytes = entry.bytes();
        let has_room = self.waiting_bytes.load(Ordering::Relaxed) + bytes <= WAITING_BYTES;
        // Before it is sent, or the worker might take it first.
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        if !has_room || self.sender.try_send(Message::Entry(Box::new(entry))).is_err() {
            self.take(bytes);
            self.drop_entries(1);
        }
    }

    /// Tells that so many bytes of text do not wait any more.
    pub fn take(&self, bytes: usize) {
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts entries that could not be written.
    pub fn drop_entries(&self, count: u64) {
        let before = self.dropped.fetch_add(count, Ordering::Relaxed);
        // At 1, 2, 4, 8, …: an overload is told, and not made worse.
        if before.leading_zeros() != (before + count).leading_zeros() {
            tracing::warn!(
                dropped = before + count,
                "journal entries were dropped, as too many came at once"
            );
        }
    }

    /// How many entries were dropped since the start.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until all that was recorded before is written, for somebody who reads the journal of `reader`,
    /// or none. To be called without a connection.
    pub async fn flush(&self, reader: Option<MerchantId>) {
        if self.size == 0 {
            return;
        }
        let (done, written) = oneshot::channel();
        let flush = async {
            if self.sender.send(Message::Flush(done, reader)).await.is_ok() {
                let _ = written.await;
            }
        };
        if tokio::time::timeout(FLUSHED_WITHIN, flush).await.is_err() {
            tracing::warn!("the journal is behind");
        }
    }
}

/// An entry by its id.
///
/// # Errors
/// [`Refusal::RequestNotFound`], or those of the database.
pub async fn find(gateway: &Gateway, merchant: MerchantId, id: &str) -> Result<Entry, WorkError> {
    let not_found = || Refusal::RequestNotFound(id.to_owned());
    let request_id = id.parse().map_err(|_| not_found())?;
    gateway.journal.flush(Some(merchant)).await;
    let conn: &mut PgConnection = &mut *gateway.db.acquire().await?;
    Ok(requests::find(conn, merchant, request_id).await?.ok_or_else(not_found)?)
}
