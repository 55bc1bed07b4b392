//! Writes the journal in batches, and keeps each merchant's in bounds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::db::DbError;
use crate::db::requests::{self, Kept};
use crate::domain::id::MerchantId;
use crate::domain::journal::Entry;
use crate::service::Gateway;
use crate::service::journal::Message;

/// How many entries one statement writes at most.
const BATCH: usize = 512;
/// How long entries are gathered. They can be read a moment later, and a busy sandbox writes few large
/// batches.
const GATHERING: Duration = Duration::from_millis(25);
/// How many bytes of bodies are kept of a merchant.
const MAX_BYTES: i64 = 64 * 1024 * 1024;
/// A journal is trimmed when it is read, and when it may have grown by this part of its bounds.
const GROWTH: u64 = 10;
/// How many entries one statement deletes. In between, others get the connection.
const TRIMMED: i64 = 2000;
/// How many merchants' growth is known. Beyond, it is forgotten, and their journals are trimmed anew.
const KNOWN: usize = 10_000;

/// How often writing is tried while the database is away, and the pauses. Meanwhile entries wait.
const TRIES: u32 = 20;
const RETRY: Duration = Duration::from_millis(500);

/// How much was written of a merchant since its journal was trimmed.
#[derive(Debug, Default)]
struct Grown {
    entries: u64,
    bytes: u64,
}

impl Grown {
    /// Of a merchant that this process has not met: its journal may be as long as can be.
    const UNKNOWN: Self = Self { entries: u64::MAX / 2, bytes: 0 };
}

/// What this process has written since it trimmed, merchant by merchant.
type Growth = HashMap<MerchantId, Grown>;

/// The running worker. It is started and stopped apart from the others: it writes what the last call did.
#[derive(Debug)]
pub(crate) struct JournalWorker {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl JournalWorker {
    /// Starts to write what is recorded.
    pub(crate) fn start(gateway: Arc<Gateway>, messages: mpsc::Receiver<Message>) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { run(&gateway, messages, stopped).await });
        Self { task, stop }
    }

    /// Writes what has been recorded, and ends.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

/// Writes until `stop` is cancelled; then what is left.
async fn run(gateway: &Gateway, mut messages: mpsc::Receiver<Message>, stop: CancellationToken) {
    let mut growth = Growth::new();
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let received = stop.run_until_cancelled(messages.recv_many(&mut batch, BATCH)).await;
        if received.is_none() {
            messages.close();
            if messages.recv_many(&mut batch, BATCH).await == 0 {
                return;
            }
        }
        let (entries, flushes) = sort(batch.drain(..));
        gateway.journal.take(entries.iter().map(Entry::bytes).sum());
        if write(gateway, &entries, &stop).await {
            count(&entries, &mut growth);
        }
        let readers: Vec<_> = flushes.iter().filter_map(|(_, reader)| *reader).collect();
        if let Err(error) = trim(gateway, &readers, &mut growth).await {
            tracing::warn!(%error, "the journal will be trimmed later");
        }
        for (done, _) in flushes {
            let _ = done.send(());
        }
        if messages.is_empty() {
            stop.run_until_cancelled(tokio::time::sleep(GATHERING)).await;
        }
    }
}

/// Who waits until all is written, and whose journal they read.
type Flush = (oneshot::Sender<()>, Option<MerchantId>);

fn sort(messages: impl Iterator<Item = Message>) -> (Vec<Entry>, Vec<Flush>) {
    let (mut entries, mut flushes) = (Vec::new(), Vec::new());
    for message in messages {
        match message {
            Message::Entry(entry) => entries.push(*entry),
            Message::Flush(done, reader) => flushes.push((done, reader)),
        }
    }
    (entries, flushes)
}

/// Writes entries. False where they had to be dropped.
async fn write(gateway: &Gateway, entries: &[Entry], stop: &CancellationToken) -> bool {
    if entries.is_empty() {
        return true;
    }
    for tried in 1.. {
        let insert = async { requests::insert(&mut *gateway.db.acquire().await?, entries).await };
        let Err(error) = insert.await else { return true };
        let passes = matches!(error, DbError::Unavailable(_)) && tried < TRIES && !stop.is_cancelled();
        if !passes {
            tracing::warn!(%error, "journal entries could not be written");
            break;
        }
        stop.run_until_cancelled(tokio::time::sleep(RETRY)).await;
    }
    gateway.journal.drop_entries(entries.len() as u64);
    false
}

fn count(entries: &[Entry], growth: &mut Growth) {
    if growth.len() > KNOWN {
        growth.clear();
    }
    for entry in entries {
        let grown = growth.entry(entry.merchant).or_insert(Grown::UNKNOWN);
        grown.entries += 1;
        grown.bytes += (entry.request_body.len() + entry.response_body.len()) as u64;
    }
}

/// Trims the journals that have grown much, and those that are read.
async fn trim(gateway: &Gateway, readers: &[MerchantId], growth: &mut Growth) -> Result<(), DbError> {
    let size = gateway.journal.size;
    let kept = Kept { entries: size.into(), bytes: MAX_BYTES };
    let is_much = |grown: &Grown| {
        grown.entries > u64::from(size) / GROWTH || grown.bytes > MAX_BYTES.unsigned_abs() / GROWTH
    };
    let much = growth.iter().filter(|(_, grown)| is_much(grown)).map(|(merchant, _)| *merchant);
    let read = readers.iter().filter(|reader| growth.get(reader).is_none_or(|grown| grown.entries > 0));
    let merchants: Vec<_> = much.chain(read.copied()).collect();
    for merchant in merchants {
        while requests::trim(&mut *gateway.db.acquire().await?, merchant, kept, TRIMMED).await?
            == TRIMMED.unsigned_abs()
        {}
        growth.insert(merchant, Grown::default());
    }
    Ok(())
}
