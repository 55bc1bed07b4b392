//! The real command as a process of its own: for what only happens to processes, and for settings.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::server;

/// A running `kukopay-sandbox`, killed when it goes out of scope.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pub(crate) base_url: String,
    /// What start-up printed.
    pub(crate) banner: String,
    log: File,
}

/// The database server that nothing listens at.
pub(crate) const NOWHERE: &str = "postgres://kuko:s3cret-w0rd@127.0.0.1:1/kukopay";

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

/// Asserts that a command ends by itself and fails, and returns all that it printed.
pub(crate) async fn expect_failure(command: Command) -> String {
    let mut command = tokio::process::Command::from(command);
    let ended = tokio::time::timeout(Duration::from_secs(30), command.kill_on_drop(true).output());
    let output = ended.await.expect("the command ends").expect("the command starts");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).expect("text");
    assert!(!output.status.success(), "{text}");
    text
}

/// A port that is free, and out of the range that the system gives to the clients of other tests.
pub(crate) fn free_port() -> u16 {
    let mut ports = std::iter::repeat_with(|| rand::random_range(20_000..32_000));
    ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()).expect("a port")
}

/// The arguments for data that outlives a process: the server under test, or else this directory.
pub(crate) fn storage(directory: &tempfile::TempDir) -> [String; 2] {
    match server::database_url() {
        Some(url) => ["--database-url".to_owned(), url],
        None => ["--data-dir".to_owned(), directory.path().to_str().expect("text").to_owned()],
    }
}

/// The same for data that the other tests' sandboxes are not on: one that is told to be stricter would fail
/// the deliveries of those.
pub(crate) async fn strict_storage(directory: &tempfile::TempDir) -> [String; 2] {
    let [flag, place] = storage(directory);
    let Some(url) = server::database_url() else { return [flag, place] };
    [flag, database_beside(&url, "strict").await]
}

/// A database of this name beside another one, which may be there already, from another test or an earlier run.
pub(crate) async fn database_beside(url: &str, name: &str) -> String {
    let mut beside = url::Url::parse(url).expect("a URL");
    let name = format!("{}_{name}", beside.path().trim_start_matches('/'));
    let mut conn = PgConnection::connect(url).await.expect("a connection");
    let _ = conn.execute(AssertSqlSafe(format!(r#"CREATE DATABASE "{name}""#))).await;
    beside.set_path(&name);
    beside.to_string()
}

impl Process {
    /// Starts on a free port and waits for the banner.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = command(arguments);
        command.args(["--port", "0"]);
        Self::run(command)
    }

    /// Starts a command and waits for the banner.
    pub(crate) fn run(command: Command) -> Self {
        let mut process = Self::spawn(command);
        let stdout = process.child.stdout.take().expect("piped");
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            process.banner += &line;
            process.banner.push('\n');
            if line.contains("-d '") {
                break;
            }
        }
        let base_url = process.banner.split("base URL  ").nth(1).and_then(|rest| rest.lines().next());
        let Some(base_url) = base_url.map(str::to_owned) else { panic!("no start: {}", process.end()) };
        process.base_url = base_url;
        process
    }

    /// Starts a command and waits for nothing.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let log = tempfile::tempfile().expect("a file");
        command.stdout(Stdio::piped()).stderr(log.try_clone().expect("a handle"));
        let child = command.spawn().expect("the command starts");
        Self { child, base_url: String::new(), banner: String::new(), log }
    }

    /// Starts on data that outlives the process: the server under test, or else this directory.
    pub(crate) fn on(directory: &tempfile::TempDir) -> Self {
        Self::start(&storage(directory).each_ref().map(String::as_str))
    }

    /// Ends the process without a warning.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    /// Asks the process to stop, and waits for it.
    pub(crate) fn terminate(mut self) -> std::process::ExitStatus {
        self.ask_to_stop();
        self.child.wait().expect("gone")
    }

    /// Asks the process to stop, waits for it, and returns what it wrote to standard error.
    pub(crate) fn end(mut self) -> String {
        self.ask_to_stop();
        self.child.wait().expect("gone");
        let mut text = String::new();
        self.log.rewind().expect("a file");
        self.log.read_to_string(&mut text).expect("text");
        text
    }

    fn ask_to_stop(&self) {
        // One that has ended already cannot be asked.
        Command::new("kill").arg(self.child.id().to_string()).status().expect("kill runs");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
