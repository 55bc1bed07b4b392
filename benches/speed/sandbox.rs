//! The sandbox as its users run it: the release binary as a process of its own, with its defaults.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::Outcome;

/// How long a start may take; the first one of the embedded database unpacks and compiles it.
const START: Duration = Duration::from_mins(2);
/// How long a sandbox may take to stop.
const STOP: Duration = Duration::from_secs(15);

/// A running sandbox; killed when it goes out of scope.
#[derive(Debug)]
pub(crate) struct Sandbox {
    process: Child,
    pub(crate) address: SocketAddr,
    /// From the start of the process until it said that it is ready.
    pub(crate) ready_after: Duration,
    // Kept open, so that nothing fails which is printed later.
    _stdout: BufReader<ChildStdout>,
}

/// The binary of this build.
pub(crate) fn this_build() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_kukopay-sandbox"))
}

impl Sandbox {
    /// Starts this build on a server, with more arguments.
    pub(crate) async fn on(url: &str, more: &[&str]) -> Outcome<Self> {
        Self::start(&this_build(), &[&["--database-url", url], more].concat()).await
    }

    /// Starts this build on an embedded database that keeps nothing.
    pub(crate) async fn embedded() -> Outcome<Self> {
        Self::start(&this_build(), &["--ephemeral"]).await
    }

    /// Starts a build with these arguments on a free port, and waits until it is ready.
    pub(crate) async fn start(binary: &Path, arguments: &[&str]) -> Outcome<Self> {
        let mut command = Command::new(binary);
        for (name, _) in std::env::vars() {
            if name.starts_with("KUKOPAY_") || name == "DATABASE_URL" || name == "RUST_LOG" {
                command.env_remove(name);
            }
        }
        command.args(arguments).args(["--port", "0"]).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = Instant::now();
        let mut process = command.spawn()?;
        let mut stdout = BufReader::new(process.stdout.take().ok_or("no output")?);
        let address = tokio::time::timeout(START, address(&mut stdout)).await.map_err(|_| "no start")??;
        Ok(Self { process, address, ready_after: started.elapsed(), _stdout: stdout })
    }

    /// Its process.
    pub(crate) fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Asks it to stop, and waits for it.
    pub(crate) async fn stop(mut self) -> Outcome<()> {
        if let Some(id) = self.process.id() {
            Command::new("kill").arg(id.to_string()).status().await?;
        }
        tokio::time::timeout(STOP, self.process.wait()).await.map_err(|_| "the sandbox does not stop")??;
        Ok(())
    }
}

/// Reads the lines that start-up prints when calls are let in.
async fn address(stdout: &mut BufReader<ChildStdout>) -> Outcome<SocketAddr> {
    let mut line = String::new();
    while stdout.read_line(&mut line).await? > 0 {
        if let Some(address) = line.trim().strip_prefix("base URL") {
            return Ok(address.trim().trim_start_matches("http://").parse()?);
        }
        line.clear();
    }
    Err("the sandbox ended instead of starting; run it by hand to see why".into())
}
