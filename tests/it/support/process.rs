//! The real command as a process of its own: for what only happens to processes, and for settings.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::server;

/// A running `kukopay-sandbox`, killed when it goes out of scope.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pub(crate) base_url: String,
    /// What start-up printed.
    pub(crate) banner: String,
}

/// The command with these arguments and no settings from the environment.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kukopay-sandbox"));
    for (name, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("KUKOPAY_") || name == "DATABASE_URL")
    {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

impl Process {
    /// Starts on a free port and waits for the banner.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = command(arguments);
        command.args(["--port", "0"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the command starts");
        let mut banner = String::new();
        for line in BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok) {
            banner += &line;
            banner.push('\n');
            if line.contains("-d '") {
                break;
            }
        }
        let base_url = banner.split("base URL  ").nth(1).and_then(|rest| rest.lines().next());
        let base_url = base_url.unwrap_or_else(|| panic!("no base URL in {banner}")).to_owned();
        Self { child, base_url, banner }
    }

    /// Starts on data that outlives the process: the server under test, or else this directory.
    pub(crate) fn on(directory: &tempfile::TempDir) -> Self {
        match server::database_url() {
            Some(url) => Self::start(&["--database-url", &url]),
            None => Self::start(&["--data-dir", directory.path().to_str().expect("text")]),
        }
    }

    /// Ends the process without a warning.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    /// Asks the process to stop, and waits for it.
    pub(crate) fn terminate(mut self) -> std::process::ExitStatus {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill runs");
        assert!(asked.success());
        self.child.wait().expect("gone")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
