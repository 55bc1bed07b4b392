//! Where the embedded database unpacks its program: the user's cache directory, or where there is none (a
//! container with a random user, a read-only file system) a folder beside the data.
//!
//! The crate behind it reads that place from the environment, which a running process cannot change safely. So the
//! command starts itself again with another environment, under the same process id.

use std::path::{Path, PathBuf};

use directories::ProjectDirs;

use super::folder;
use crate::db::Storage;

/// The variable that moves the user's cache directory.
const CACHE_HOME: &str = "XDG_CACHE_HOME";
/// The name of the cache in the folder of a sandbox.
const CACHE: &str = "cache";

/// Makes sure that the cache has a place. It must be called before anything has started: it may start the command
/// again.
pub(in crate::db) fn prepare(storage: &Storage) -> Result<(), String> {
    if user_cache_is_usable() {
        return Ok(());
    }
    let temporary = std::env::temp_dir();
    // Starting again a second time would never end.
    if folder_in_use(&temporary).is_some() {
        return Err(format!("nothing can be written to {}", temporary.display()));
    }
    let (parent, data) = match storage {
        Storage::Server(_) => return Ok(()),
        Storage::Directory(directory) => (directory.clone(), Some(directory.as_path())),
        Storage::Ephemeral => (
            folder::create_in(&temporary).map_err(|error| {
                format!(
                    "no folder can be made in {}: {error}; TMPDIR names another place",
                    temporary.display()
                )
            })?,
            None,
        ),
    };
    let cache = parent.join(CACHE);
    std::fs::create_dir_all(&cache).map_err(|error| {
        format!(
            "the data directory {} cannot be used: {error}; choose another directory with --data-dir or none \
             with --ephemeral",
            parent.display()
        )
    })?;
    start_anew(&std::path::absolute(&cache).unwrap_or(cache), data)
}

/// The temporary folder of this sandbox, where [`prepare`] has made it already.
pub(super) fn folder_in_use(parent: &Path) -> Option<PathBuf> {
    let cache = PathBuf::from(std::env::var_os(CACHE_HOME)?);
    let path = cache.parent()?;
    (cache.ends_with(CACHE) && folder::is_temporary(path, parent)).then(|| path.to_owned())
}

/// Whether files can be made in the user's cache directory.
fn user_cache_is_usable() -> bool {
    ProjectDirs::from("dev", "pglite-oxide", "pglite-oxide").is_some_and(|dirs| {
        std::fs::create_dir_all(dirs.cache_dir()).is_ok() && tempfile::tempfile_in(dirs.cache_dir()).is_ok()
    })
}

#[cfg(unix)]
fn start_anew(cache: &Path, data: Option<&Path>) -> Result<(), String> {
    use std::os::unix::process::CommandExt;

    if std::env::var_os(CACHE_HOME).is_some_and(|place| Path::new(&place) == cache) {
        return Err(format!("nothing can be written to {}", cache.display()));
    }
    let command = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = std::process::Command::new(command);
    command.args(std::env::args_os().skip(1)).env(CACHE_HOME, cache);
    // On a Mac the cache is where the home is; elsewhere there must be some home.
    if cfg!(target_os = "macos") || ProjectDirs::from("", "", "any").is_none() {
        command.env("HOME", cache);
    }
    if let Some(data) = data {
        // The default depends on the home directory.
        command.env("KUKOPAY_DATA_DIR", data);
    }
    Err(format!("the command cannot be started anew: {}", command.exec()))
}

#[cfg(not(unix))]
fn start_anew(_cache: &Path, _data: Option<&Path>) -> Result<(), String> {
    Err("this user has no cache directory, which the embedded database needs".to_owned())
}
