//! Waiting for what comes in its own time: for the condition itself, and longer than a busy machine takes.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// How long what surely comes may take: longer than an attempt to deliver and a lease together.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Looks again and again until something is there, and returns it. The error is what there is instead.
pub(crate) async fn wait_for<T, E: Display>(mut look: impl AsyncFnMut() -> Result<T, E>) -> T {
    let started = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(instead) => assert!(started.elapsed() < PATIENCE, "still: {instead}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits as long as something holds, which `what` tells.
pub(crate) async fn wait_while(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    wait_for(async || if holds().await { Err(what) } else { Ok(()) }).await;
}
