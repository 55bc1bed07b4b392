//! Whether the sandbox is ready, for `/readyz`: whether its tables are up to date, and which workers have panicked
//! and not worked since.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the sandbox is ready.
#[derive(Debug, Default)]
pub struct Health {
    ready: AtomicBool,
    down: Mutex<BTreeSet<&'static str>>,
}

impl Health {
    /// Whether the tables are up to date, so that calls can be served.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Lets calls in.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// A worker has panicked.
    pub fn is_down(&self, worker: &'static str) {
        if let Ok(mut down) = self.down.lock() {
            down.insert(worker);
        }
    }

    /// A worker has done its work.
    pub fn is_up(&self, worker: &'static str) {
        if let Ok(mut down) = self.down.lock() {
            down.remove(worker);
        }
    }

    /// The workers that have panicked and not worked since.
    #[must_use]
    pub fn down(&self) -> Vec<&'static str> {
        self.down.lock().map(|down| down.iter().copied().collect()).unwrap_or_default()
    }
}
