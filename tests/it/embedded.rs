//! The embedded database: which settings choose it, what it needs of its surroundings, how it keeps its shape, and
//! what a killed sandbox leaves.

use std::path::Path;

use serde_json::json;
use tempfile::tempdir;

use crate::support::client::order;
use crate::support::process::{NOWHERE, command, expect_failure};
use crate::support::{Merchant, Process, wait_for};

fn folders(parent: &Path) -> Vec<String> {
    let names = std::fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    names.filter(|name| name.starts_with("kukopay-sandbox-")).collect()
}

fn ephemeral_in(parent: &Path) -> Process {
    let mut command = command(&["--port", "0", "--ephemeral"]);
    command.env("TMPDIR", parent);
    Process::run(command)
}

#[tokio::test]
async fn a_flag_goes_before_every_variable() {
    let directory = tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let foreign = [("DATABASE_URL", NOWHERE), ("KUKOPAY_DATABASE_URL", NOWHERE)];
    for (arguments, variables, data) in [
        (&["--ephemeral"][..], &foreign[..], "kept nowhere"),
        (&["serve", "--data-dir", path], &[foreign[0], ("KUKOPAY_EPHEMERAL", "1")], path),
        (&[], &[foreign[0], ("KUKOPAY_EPHEMERAL", "1")], "kept nowhere"),
        (&[], &[foreign[0], ("KUKOPAY_DATA_DIR", path), ("KUKOPAY_DATABASE_URL", "")], path),
    ] {
        let mut command = command(arguments);
        command.envs(variables.iter().copied()).env("KUKOPAY_PORT", "0");
        let process = Process::run(command);
        assert!(process.banner.contains(&format!("data      {data}")), "{}", process.banner);
    }
}

#[tokio::test]
async fn a_killed_sandbox_is_cleared_away_by_the_next_start_and_a_living_one_is_not() {
    let parent = tempdir().unwrap();
    let (living, killed) = (ephemeral_in(parent.path()), ephemeral_in(parent.path()));
    assert_eq!(folders(parent.path()).len(), 2);
    // What others have left there, and a sandbox that is just being made.
    std::fs::create_dir(parent.path().join("kukopay-sandbox-new")).unwrap();
    std::fs::write(parent.path().join("kukopay-sandbox-file"), "x").unwrap();
    let before = folders(parent.path());
    killed.kill();
    let next = ephemeral_in(parent.path());
    let after = folders(parent.path());
    assert_eq!(after.len(), before.len(), "{before:?} {after:?}");
    assert_eq!(after.iter().filter(|name| before.contains(name)).count(), before.len() - 1);
    Merchant::at(&living.base_url).order("LIVES", 100).await;
    for process in [living, next] {
        assert!(process.terminate().success());
    }
    assert_eq!(folders(parent.path()).len(), 2, "both have cleared away after themselves");
}

/// As a container with a random user has it: no home, and nothing can be written but the data directory and
/// `TMPDIR`.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn without_a_usable_cache_directory_the_sandbox_keeps_its_own() {
    let (parent, data) = (tempdir().unwrap(), tempdir().unwrap());
    for storage in [&["--ephemeral"][..], &["--data-dir", data.path().to_str().unwrap()]] {
        let mut command = command(storage);
        // No directory can be made below a file, not even by root.
        command.env("HOME", "/dev/null").env_remove("XDG_CACHE_HOME").env_remove("XDG_DATA_HOME");
        command.env("TMPDIR", parent.path()).args(["--port", "0"]);
        let process = Process::run(command);
        Merchant::at(&process.base_url).order("HOMELESS", 100).await;
        assert!(process.terminate().success());
        assert!(folders(parent.path()).is_empty(), "{:?}", folders(parent.path()));
    }
    assert!(data.path().join("cache").is_dir());
    let mut command = command(&["--port", "0"]);
    command.env("HOME", "/dev/null").env_remove("XDG_CACHE_HOME").env_remove("XDG_DATA_HOME");
    let message = expect_failure(command).await;
    assert!(message.contains("the data directory /dev/null/"), "{message}");
    assert!(message.contains("--data-dir") && message.contains("--ephemeral"), "{message}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_user_unknown_to_the_system_starts_without_a_home() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;

    let parent = tempdir().unwrap();
    std::fs::set_permissions(parent.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = command(&["--port", "0", "--ephemeral"]);
    command.env_remove("HOME").env_remove("XDG_CACHE_HOME").env("TMPDIR", parent.path());
    // Only root can become somebody else; for others this is the same without a home of their own.
    if std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        command.uid(54_321);
    } else {
        command.env("HOME", "/dev/null");
    }
    let process = Process::run(command);
    Merchant::at(&process.base_url).order("NOBODY", 100).await;
}

/// How many bytes the database takes, but for the log of what was written.
fn size(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() && entry.file_name() != "pg_wal" => size(&entry.path()),
        Ok(data) if data.is_file() => data.len(),
        _ => 0,
    };
    entries.map(size).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_and_resets_leave_the_database_as_large_as_the_first_ones_did() {
    let directory = tempdir().unwrap();
    let process = Process::start(&["--data-dir", directory.path().to_str().unwrap()]);
    let merchant = Merchant::at(&process.base_url);
    let empty = size(directory.path());
    let mut first = 0;
    for round in 0..6 {
        let lanes = (0..8).map(|lane| {
            let merchant = merchant.clone();
            tokio::spawn(async move {
                for n in 0..150 {
                    let no = format!("R{round}-{lane}-{n}");
                    merchant.post("/v1/orders", &order(&no, 100)).key(&no).send().await.expect_data(201);
                }
            })
        });
        for lane in futures_util::future::join_all(lanes).await {
            lane.unwrap();
        }
        if round == 0 {
            first = size(directory.path()) - empty;
        }
        merchant.post("/sandbox/reset", &json!({})).send().await.expect_data(200);
    }
    wait_for(async || {
        let grown = size(directory.path()) - empty;
        if grown > first + first / 2 { Err(format!("{first} bytes became {grown}")) } else { Ok(()) }
    })
    .await;
}
