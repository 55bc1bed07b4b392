//! Work that nobody waits for, each with a `run_once` that does what is due now: closing orders and
//! settling refunds by the merchants' clocks, sending webhooks, and sweeping keys whose hours are over. A
//! loop repeats it; a failure is logged and tried again, so that a database that is away stops nothing for
//! good.

mod delivery;
mod due;
mod journal;
mod post;
mod sweep;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use journal::JournalWorker;

use crate::db::DbError;
use crate::service::Gateway;

/// How late an order may be closed or a refund settled. A buyer cannot pay an expired order in between:
/// paying looks at the time itself.
const DUE_INTERVAL: Duration = Duration::from_millis(250);

/// How often expired keys are looked for. They are void already; this is about space.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// Starts all workers; they end when `stop` is cancelled, at the end of the step they are in.
pub(crate) fn start(gateway: &Arc<Gateway>, tasks: &TaskTracker, stop: &CancellationToken) {
    let for_due = Arc::clone(gateway);
    tasks.spawn(repeat("due", DUE_INTERVAL, stop.clone(), move || {
        let gateway = Arc::clone(&for_due);
        async move { due::run_once(&gateway).await }
    }));
    tasks.spawn(delivery::run(Arc::clone(gateway), stop.clone()));
    let for_sweep = Arc::clone(gateway);
    tasks.spawn(repeat("sweep", SWEEP_INTERVAL, stop.clone(), move || {
        let gateway = Arc::clone(&for_sweep);
        async move { sweep::run_once(&gateway).await }
    }));
}

async fn repeat<F>(name: &'static str, interval: Duration, stop: CancellationToken, run_once: impl Fn() -> F)
where
    F: Future<Output = Result<(), DbError>>,
{
    while stop.run_until_cancelled(tokio::time::sleep(interval)).await.is_some() {
        if let Err(error) = run_once().await {
            tracing::warn!(worker = name, %error, "will try again");
        }
    }
}
