//! Writes the journal in batches, and keeps each merchant's in bounds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::db::{DbError, requests};
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
/// How many merchants' growth is counted; beyond, the count starts anew, and bounds are kept less closely.
const COUNTED: usize = 10_000;
/// A merchant's journal is trimmed when it may have grown by this part of its bounds.
const GROWTH: u64 = 10;

/// How much was written of a merchant since its journal was trimmed.
#[derive(Debug, Default)]
struct Grown {
    entries: u64,
    bytes: u64,
}

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
    let mut grown = HashMap::new();
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
        write(gateway, &entries, &mut grown).await;
        for flush in flushes {
            let _ = flush.send(());
        }
        if messages.is_empty() {
            stop.run_until_cancelled(tokio::time::sleep(GATHERING)).await;
        }
    }
}

fn sort(messages: impl Iterator<Item = Message>) -> (Vec<Entry>, Vec<oneshot::Sender<()>>) {
    let (mut entries, mut flushes) = (Vec::new(), Vec::new());
    for message in messages {
        match message {
            Message::Entry(entry) => entries.push(*entry),
            Message::Flush(done) => flushes.push(done),
        }
    }
    (entries, flushes)
}

async fn write(gateway: &Gateway, entries: &[Entry], grown: &mut HashMap<MerchantId, Grown>) {
    if entries.is_empty() {
        return;
    }
    let insert = async {
        let mut conn = gateway.db.acquire().await?;
        requests::insert(&mut conn, entries).await
    };
    if let Err(error) = insert.await {
        tracing::warn!(%error, "journal entries could not be written");
        gateway.journal.drop_entries(entries.len() as u64);
        return;
    }
    if grown.len() > COUNTED {
        grown.clear();
    }
    for entry in entries {
        let grown = grown.entry(entry.merchant).or_default();
        grown.entries += 1;
        grown.bytes += (entry.request_body.len() + entry.response_body.len()) as u64;
    }
    if let Err(error) = trim(gateway, grown).await {
        tracing::warn!(%error, "the journal will be trimmed later");
    }
}

async fn trim(gateway: &Gateway, grown: &mut HashMap<MerchantId, Grown>) -> Result<(), DbError> {
    let size = gateway.journal.size;
    let too_much = |grown: &Grown| {
        grown.entries > u64::from(size) / GROWTH || grown.bytes > MAX_BYTES.unsigned_abs() / GROWTH
    };
    let merchants: Vec<_> =
        grown.iter().filter(|(_, grown)| too_much(grown)).map(|(merchant, _)| *merchant).collect();
    for merchant in merchants {
        requests::trim(&mut *gateway.db.acquire().await?, merchant, size.into(), MAX_BYTES).await?;
        grown.remove(&merchant);
    }
    Ok(())
}
