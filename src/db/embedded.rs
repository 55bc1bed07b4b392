//! The embedded PostgreSQL inside the process, on a directory or a temporary one. Only this file knows the crate
//! behind it.

mod folder;
mod runtime_cache;

use std::path::PathBuf;

use pglite_oxide::PgliteServer;

use super::DbError;
use folder::Folder;

pub(super) use runtime_cache::prepare;

/// A running embedded database.
#[derive(Debug)]
pub(super) struct Embedded {
    server: PgliteServer,
    // Held for its lock, which lasts as long as the process. A temporary folder is deleted with it.
    _folder: Folder,
}

impl Embedded {
    /// Starts the database on a directory, which is created if it is missing. Without one, starts it on a temporary
    /// directory, which is deleted with the process, or by the next start if the process was killed.
    pub(super) async fn start(directory: Option<PathBuf>) -> Result<Self, DbError> {
        let start = move || {
            let folder = match directory {
                Some(directory) => Folder::lasting(directory)?,
                None => Folder::temporary()?,
            };
            let builder = PgliteServer::builder().path(folder.path().join("postgres"));
            // Checkpoints recycle the log (see `db/vacuum.rs`); this bounds how much is kept for reuse.
            let server =
                builder.postgres_config("min_wal_size", "32MB").postgres_config("max_wal_size", "64MB");
            Ok(Self { server: server.start().map_err(failed)?, _folder: folder })
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
