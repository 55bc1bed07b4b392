//! The embedded PostgreSQL: one inside the process, on a directory or on nothing. The only file that
//! knows the crate behind it.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use pglite_oxide::PgliteServer;

use super::DbError;

/// A running embedded database.
#[derive(Debug)]
pub(super) struct Embedded {
    server: PgliteServer,
    // Held, not read: the operating system frees the lock when the process ends, however it ends.
    _lock: Option<File>,
}

impl Embedded {
    /// Starts the database on a directory, which is created where it is missing; without one, on a
    /// temporary directory that is removed with the process.
    pub(super) async fn start(directory: Option<PathBuf>) -> Result<Self, DbError> {
        let start = move || match directory {
            Some(directory) => {
                let lock = lock(&directory)?;
                let server = PgliteServer::builder().path(directory.join("postgres")).start();
                Ok(Self { server: server.map_err(failed)?, _lock: Some(lock) })
            }
            None => Ok(Self { server: PgliteServer::temporary_tcp().map_err(failed)?, _lock: None }),
        };
        tokio::task::spawn_blocking(start).await.map_err(failed)?
    }

    /// Where to connect to. The database takes one connection at a time.
    pub(super) fn url(&self) -> String {
        self.server.database_url()
    }

    /// Stops the database. All connections must be closed before, or this waits for them.
    pub(super) async fn stop(self) {
        let stop = tokio::task::spawn_blocking(move || self.server.shutdown());
        if let Ok(Err(error)) = stop.await {
            tracing::warn!("the embedded database did not stop cleanly: {error:#}");
        }
    }
}

fn failed(error: impl std::fmt::Display) -> DbError {
    DbError::Setup(format!("the embedded database does not start: {error:#}"))
}

fn lock(directory: &Path) -> Result<File, DbError> {
    let shown = directory.display();
    std::fs::create_dir_all(directory)
        .and_then(|()| File::create(directory.join("lock")))
        .map_err(|error| DbError::Setup(format!("the data directory {shown} cannot be used: {error}")))
        .and_then(|file| match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(DbError::Setup(format!(
                "another kukopay-sandbox is running on the data directory {shown}; stop it, or choose another \
                 directory with --data-dir or none with --ephemeral"
            ))),
            Err(TryLockError::Error(error)) => {
                Err(DbError::Setup(format!("the data directory {shown} cannot be locked: {error}")))
            }
        })
}
