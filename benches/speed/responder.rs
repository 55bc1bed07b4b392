//! A server that does nothing: it answers every request at once with the same bytes. The load generator measures
//! itself against it, and webhooks are sent to it. It notes when it was last called, and how often.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::Outcome;
use crate::load::ends_of;

/// A server in this process; it ends when it goes out of scope.
#[derive(Debug)]
pub(crate) struct Responder {
    pub(crate) address: SocketAddr,
    calls: Arc<AtomicU32>,
    bell: watch::Receiver<()>,
    task: AbortHandle,
}

impl Responder {
    /// Starts one that answers with these bytes, head and body.
    pub(crate) async fn start(answer: String) -> Outcome<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let (address, calls) = (listener.local_addr()?, Arc::new(AtomicU32::new(0)));
        let (ring, bell) = watch::channel(());
        let (answer, counted): (Arc<str>, _) = (answer.into(), Arc::clone(&calls));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer_all(stream, Arc::clone(&answer), Arc::clone(&counted), ring.clone()));
            }
        });
        Ok(Self { address, calls, bell, task: task.abort_handle() })
    }

    /// Returns when there were so many calls in all.
    pub(crate) async fn called(&self, times: u32, limit: Duration) -> Outcome<()> {
        let mut bell = self.bell.clone();
        let called =
            async { while self.calls.load(Ordering::Acquire) < times && bell.changed().await.is_ok() {} };
        let calls = || self.calls.load(Ordering::Acquire);
        let late = |_| format!("{} of {times} calls within {} s", calls(), limit.as_secs());
        tokio::time::timeout(limit, called).await.map_err(late)?;
        Ok(())
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Answers what comes over a connection, until its client leaves.
async fn answer_all(
    mut stream: TcpStream,
    answer: Arc<str>,
    calls: Arc<AtomicU32>,
    ring: watch::Sender<()>,
) -> Outcome<()> {
    stream.set_nodelay(true)?;
    let mut request = Vec::with_capacity(8 * 1024);
    while stream.read_buf(&mut request).await? > 0 {
        let Some((_, end)) = ends_of(&request)? else { continue };
        if request.len() >= end {
            request.drain(..end);
            calls.fetch_add(1, Ordering::Release);
            ring.send_replace(());
            stream.write_all(answer.as_bytes()).await?;
        }
    }
    Ok(())
}
