//! Work that no request waits for: due work by the merchants' clocks, webhooks, forgetting merchants. A failure is
//! logged and tried again, so that no outage of the database stops anything for good. A worker that panics is
//! started again; until it has done its work once, `/readyz` names it.

mod attempt;
mod delivery;
mod journal;
mod post;
mod vacuum;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use journal::JournalWorker;

use crate::db::{DbError, statistics};
use crate::service::health::Health;
use crate::service::{Gateway, activity, due};

/// How late an order may be closed or a refund settled. A buyer cannot pay an expired order in between:
/// paying looks at the time itself.
const DUE_INTERVAL: Duration = Duration::from_millis(250);
/// How often the times of the merchants' last calls are written. A crash may lose this much.
const ACTIVITY_INTERVAL: Duration = Duration::from_secs(5);
/// How often the database is asked for its time.
const TIME_INTERVAL: Duration = Duration::from_mins(1);
/// How often the worker looks for merchants to forget.
const FORGET_INTERVAL: Duration = Duration::from_secs(10);
/// How often tables are checked for outdated statistics, and how many get new ones before a pause.
const STATISTICS_INTERVAL: Duration = Duration::from_secs(1);
const STATISTICS: usize = 8;
/// How often the embedded database is checked for dead rows.
const VACUUM_INTERVAL: Duration = Duration::from_secs(1);
/// How long a worker rests after a panic, so that it does not panic all the time.
const RESTART: Duration = Duration::from_secs(1);

/// Starts all workers. When `stop` is cancelled, each ends after its current step. Merchants without a call for
/// `forget_after` are forgotten; with `None`, nobody is.
pub(crate) fn start(
    gateway: &Arc<Gateway>,
    tasks: &TaskTracker,
    stop: &CancellationToken,
    forget_after: Option<time::Duration>,
) {
    let workers = Workers { gateway, tasks, stop };
    workers.every("due", DUE_INTERVAL, |gateway| async move { due::run_once(&gateway).await });
    workers.every("activity", ACTIVITY_INTERVAL, |gateway| async move { activity::write(&gateway).await });
    workers.every("time", TIME_INTERVAL, |gateway| async move { gateway.follow_time().await });
    workers.every(
        "statistics",
        STATISTICS_INTERVAL,
        |gateway| async move { renew_statistics(&gateway).await },
    );
    if let Some(after) = forget_after {
        let forget = move |gateway: Arc<Gateway>| async move { activity::forget(&gateway, after).await };
        workers.every("forget", FORGET_INTERVAL, forget);
    }
    if gateway.db.is_exclusive() {
        let vacuum = Arc::new(vacuum::Vacuum::default());
        workers.every("vacuum", VACUUM_INTERVAL, move |gateway| {
            let vacuum = Arc::clone(&vacuum);
            async move { vacuum.run_once(&gateway).await }
        });
    }
    let (for_delivery, stopped) = (Arc::clone(gateway), stop.clone());
    workers.supervised("delivery", move || delivery::run(Arc::clone(&for_delivery), stopped.clone()));
}

async fn renew_statistics(gateway: &Gateway) -> Result<(), DbError> {
    for _ in 0..STATISTICS {
        if !statistics::step(&mut *gateway.db.acquire().await?).await? {
            break;
        }
    }
    Ok(())
}

/// What workers are started with.
struct Workers<'a> {
    gateway: &'a Arc<Gateway>,
    tasks: &'a TaskTracker,
    stop: &'a CancellationToken,
}

impl Workers<'_> {
    /// Does something again and again, with a pause in between.
    fn every<F>(
        &self,
        name: &'static str,
        interval: Duration,
        run_once: impl Fn(Arc<Gateway>) -> F + Clone + Send + Sync + 'static,
    ) where
        F: Future<Output = Result<(), DbError>> + Send,
    {
        let (gateway, stop) = (Arc::clone(self.gateway), self.stop.clone());
        self.supervised(name, move || {
            repeat(name, interval, Arc::clone(&gateway), stop.clone(), run_once.clone())
        });
    }

    fn supervised<F>(&self, name: &'static str, run: impl Fn() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send,
    {
        let (gateway, stop) = (Arc::clone(self.gateway), self.stop.clone());
        self.tasks.spawn(async move { supervise(&gateway.health, name, &stop, run).await });
    }
}

async fn repeat<F>(
    name: &'static str,
    interval: Duration,
    gateway: Arc<Gateway>,
    stop: CancellationToken,
    run_once: impl Fn(Arc<Gateway>) -> F,
) where
    F: Future<Output = Result<(), DbError>>,
{
    while !stop.is_cancelled() {
        match run_once(Arc::clone(&gateway)).await {
            Ok(()) => gateway.health.is_up(name),
            Err(error) => tracing::warn!(worker = name, %error, "will try again"),
        }
        stop.run_until_cancelled(tokio::time::sleep(interval)).await;
    }
}

/// Runs a worker until it ends by itself, and starts it again whenever it panics.
pub(super) async fn supervise<F>(
    health: &Health,
    name: &'static str,
    stop: &CancellationToken,
    run: impl Fn() -> F,
) where
    F: Future<Output = ()>,
{
    while AssertUnwindSafe(run()).catch_unwind().await.is_err() {
        tracing::error!(worker = name, "a worker panicked; it is started again");
        health.is_down(name);
        if stop.run_until_cancelled(tokio::time::sleep(RESTART)).await.is_none() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_panics_is_started_again_and_shown_until_it_works() {
        let (health, stop, runs) = (Health::default(), CancellationToken::new(), AtomicU32::new(0));
        let run = || async {
            match runs.fetch_add(1, Ordering::Relaxed) {
                0 | 1 => panic!("as a bug would"),
                2 => assert_eq!(health.down(), ["test"]),
                _ => unreachable!("it ended by itself"),
            }
            health.is_up("test");
        };
        supervise(&health, "test", &stop, run).await;
        assert_eq!((runs.load(Ordering::Relaxed), health.down()), (3, Vec::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_panics_during_the_stop_is_not_started_again() {
        let (health, stop) = (Health::default(), CancellationToken::new());
        stop.cancel();
        supervise(&health, "test", &stop, || async { panic!("as a bug would") }).await;
    }
}
