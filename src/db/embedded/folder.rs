//! The folder of the embedded database. A lock reserves it for one process; the operating system frees the lock
//! however the process ends. So the next start recognises the folders that killed processes left.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::db::DbError;

/// What the names of temporary folders start with.
const PREFIX: &str = "kukopay-sandbox-";
const LOCK: &str = "lock";

/// A locked folder.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    temporary: bool,
    _lock: File,
}

impl Folder {
    /// A folder that outlives the process, created where it is missing.
    pub(super) fn lasting(path: PathBuf) -> Result<Self, DbError> {
        let shown = path.display();
        let opened = fs::create_dir_all(&path).and_then(|()| File::create(path.join(LOCK)));
        let file = opened.map_err(|error| {
            DbError::Setup(format!(
                "the data directory {shown} cannot be used: {error}; choose another directory with --data-dir \
                 or none with --ephemeral"
            ))
        })?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, temporary: false, _lock: file }),
            Err(TryLockError::WouldBlock) => Err(DbError::Setup(format!(
                "another kukopay-sandbox is running on the data directory {shown}; stop it, or choose another \
                 directory with --data-dir or none with --ephemeral"
            ))),
            Err(TryLockError::Error(error)) => {
                Err(DbError::Setup(format!("the data directory {shown} cannot be locked: {error}")))
            }
        }
    }

    /// A folder that is deleted with the process. First deletes the folders that killed processes left.
    pub(super) fn temporary() -> Result<Self, DbError> {
        let parent = std::env::temp_dir();
        remove_abandoned(&parent);
        let failed = |error| {
            DbError::Setup(format!(
                "no folder can be made in {}: {error}; TMPDIR names another place",
                parent.display()
            ))
        };
        if let Some(path) = super::runtime_cache::folder_in_use(&parent)
            && let Some(lock) = lock_new(&path).map_err(failed)?
        {
            return Ok(Self { path, temporary: true, _lock: lock });
        }
        loop {
            let path = create_in(&parent).map_err(failed)?;
            // `None` if another start took the folder for an abandoned one before it was locked.
            if let Some(lock) = lock_new(&path).map_err(failed)? {
                return Ok(Self { path, temporary: true, _lock: lock });
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.temporary {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Creates a folder of a new name, which only this user can enter.
pub(super) fn create_in(parent: &Path) -> std::io::Result<PathBuf> {
    Ok(tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?.keep())
}

/// Whether a path is of the form that [`create_in`] makes in `parent`.
pub(super) fn is_temporary(path: &Path, parent: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    path.parent() == Some(parent) && name.is_some_and(|name| name.starts_with(PREFIX))
}

/// Locks a new folder; `None` if it was deleted meanwhile.
fn lock_new(path: &Path) -> std::io::Result<Option<File>> {
    let file = match File::create(path.join(LOCK)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    match file.try_lock() {
        Ok(()) => Ok(path.join(LOCK).exists().then_some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Deletes the folders whose lock nobody holds. A folder without a lock file is just being created, and one of
/// another user cannot be opened: both stay.
fn remove_abandoned(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for path in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()) {
        let Some(lock) =
            is_temporary(&path, parent).then(|| File::options().write(true).open(path.join(LOCK)))
        else {
            continue;
        };
        if let Ok(lock) = lock
            && lock.try_lock().is_ok()
        {
            // Held during the deletion, so that a process that is about to lock the folder sees that it is deleted.
            match fs::remove_dir_all(&path) {
                Ok(()) => tracing::info!("removed {}, which a killed sandbox had left", path.display()),
                Err(error) => tracing::warn!("{} cannot be removed: {error}", path.display()),
            }
        }
    }
}
