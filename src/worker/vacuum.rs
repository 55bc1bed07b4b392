//! Vacuums the embedded database, one table at a time, while nobody waits for its only connection.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::db::{DbError, vacuum};
use crate::service::Gateway;

/// After this many busy checks in a row a table is vacuumed nevertheless. Otherwise, dead rows would grow without end
/// under a load that never pauses.
const PATIENCE: u32 = 10;
/// How many tables are vacuumed before a pause.
const STEPS: usize = 8;

/// How many checks in a row found the database busy.
#[derive(Debug, Default)]
pub(super) struct Vacuum {
    busy: AtomicU32,
}

impl Vacuum {
    /// Vacuums the tables that need it, unless the database is busy. Each table takes one statement; calls run
    /// between the statements.
    pub(super) async fn run_once(&self, gateway: &Gateway) -> Result<(), DbError> {
        for _ in 0..STEPS {
            let mut conn = match gateway.db.try_acquire() {
                Some(conn) => conn,
                None if self.busy.fetch_add(1, Ordering::Relaxed) < PATIENCE => return Ok(()),
                None => gateway.db.acquire().await?,
            };
            self.busy.store(0, Ordering::Relaxed);
            if !vacuum::step(&mut conn).await? {
                return Ok(());
            }
        }
        Ok(())
    }
}
