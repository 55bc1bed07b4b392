//! A PostgreSQL server as the place of the data, as it is met in the field: with TLS, without the right, with
//! tables of others, still starting. On a server of the tests' own, with a certificate made for it: it needs the
//! programs of PostgreSQL and `openssl`, and is skipped, with a word, where they are not installed.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tempfile::{TempDir, tempdir};

use crate::support::process::{command, expect_failure, free_port};
use crate::support::{Process, wait_while};

const SECRET: &str = "s3cret-w0rd";

/// A throw-away server, stopped when it goes out of scope.
struct Server {
    directory: TempDir,
    port: u16,
    programs: PathBuf,
    as_user: Vec<&'static str>,
}

/// Where the programs of the newest PostgreSQL are.
fn programs() -> Option<PathBuf> {
    let mut found: Vec<_> =
        std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|e| e.path().join("bin")).collect();
    found.retain(|path| path.join("initdb").is_file());
    found.sort();
    found.pop()
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("it is installed");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Server {
    /// Starts a server with or without TLS; `None`, with a word, where that cannot be done here.
    fn start(tls: bool) -> Option<Self> {
        let openssl = Command::new("openssl").arg("version").stdout(Stdio::null()).status();
        let (Some(programs), true) = (programs(), openssl.is_ok()) else {
            // Not by `eprintln!`, which is shown for failed tests only.
            let _ = writeln!(std::io::stderr(), "SKIPPED: PostgreSQL's initdb or openssl is not installed");
            return None;
        };
        let directory = tempdir().unwrap();
        let is_root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
        // The server refuses to run as root.
        let as_user = if is_root { vec!["runuser", "-u", "postgres", "--"] } else { vec!["env"] };
        if is_root {
            run(Command::new("chown").arg("postgres").arg(directory.path()));
        }
        let server = Self { directory, port: free_port(), programs, as_user };
        server.prepare(tls);
        assert!(server.control(&["-l", "log", "start"]), "the server starts");
        Some(server)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.as_user[0]);
        command.args(&self.as_user[1..]).arg(program).current_dir(self.directory.path());
        command
    }

    fn prepare(&self, tls: bool) {
        std::fs::write(self.directory.path().join("password"), SECRET).unwrap();
        let initdb = self.programs.join("initdb");
        let mut init = self.command(initdb.to_str().unwrap());
        run(init.args([
            "-U",
            "kuko",
            "-A",
            "scram-sha-256",
            "--pwfile",
            "password",
            "-E",
            "UTF8",
            "--no-sync",
            "-D",
            "data",
        ]));
        let settings = format!(
            "port = {}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync = off\nssl = {}\n\
             ssl_cert_file = '../server.crt'\nssl_key_file = '../server.key'\n",
            self.port,
            if tls { "on" } else { "off" },
        );
        if tls {
            self.make_certificates();
        }
        run(self.command("sh").args(["-c", "printf '%s' \"$1\" >> data/postgresql.conf", "sh", &settings]));
    }

    /// An authority, and a certificate of it for the name `localhost`.
    fn make_certificates(&self) {
        let key =
            ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
        let ca = ["-x509", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=test authority"];
        run(self.command("openssl").args(key).args(ca));
        let server = [
            "-x509",
            "-keyout",
            "server.key",
            "-out",
            "server.crt",
            "-subj",
            "/CN=localhost",
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-addext",
            "subjectAltName=DNS:localhost",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ];
        run(self.command("openssl").args(key).args(server));
        // One that has signed nothing.
        let other = ["-x509", "-keyout", "other.key", "-out", "other.crt", "-subj", "/CN=another authority"];
        run(self.command("openssl").args(key).args(other));
        run(self.command("chmod").args(["600", "server.key"]));
    }

    fn control(&self, arguments: &[&str]) -> bool {
        let pg_ctl = self.programs.join("pg_ctl");
        let mut control = self.command(pg_ctl.to_str().unwrap());
        // Its output would be inherited by the server, and never end.
        control.stdout(Stdio::null()).stderr(Stdio::null()).args(["-w", "-D", "data"]).args(arguments);
        control.status().is_ok_and(|status| status.success())
    }

    fn file(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn url(&self, host: &str, database: &str, parameters: &str) -> String {
        format!("postgres://kuko:{SECRET}@{host}:{}/{database}?{parameters}", self.port)
    }

    async fn database(&self, name: &str) -> PgConnection {
        let mut conn = PgConnection::connect(&self.url("127.0.0.1", "postgres", "")).await.unwrap();
        conn.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
        PgConnection::connect(&self.url("127.0.0.1", name, "")).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.control(&["-m", "immediate", "stop"]);
    }
}

/// Runs the sandbox on a URL that it must refuse at once, and returns what it says.
async fn expect_refusal(url: &str) -> String {
    let started = Instant::now();
    let message = expect_failure(command(&["--port", "0", "--database-url", url])).await;
    assert!(started.elapsed() < Duration::from_secs(20), "at once: {message}");
    assert!(!message.contains(SECRET) && !message.contains("waiting"), "{message}");
    assert!(message.contains("--database-url"), "{message}");
    message
}

/// Whether all connections of a sandbox that is started on a URL are encrypted.
async fn is_encrypted(conn: &mut PgConnection, url: &str) -> Option<bool> {
    let process = Process::start(&["--database-url", url]);
    assert!(!process.banner.contains(SECRET));
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
         WHERE application_name = 'kukopay-sandbox'";
    sqlx::query_scalar(encrypted).fetch_one(conn).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connection_is_encrypted_where_the_url_asks_for_it_and_the_certificate_fits() {
    let Some(server) = Server::start(true) else { return };
    let ca = server.file("ca.crt");
    let mut conn = server.database("kukopay").await;
    for (host, parameters) in [
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", format!("sslmode=require&sslrootcert={ca}")),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={ca}")),
        ("localhost", format!("sslmode=verify-full&sslrootcert={ca}")),
        ("127.0.0.1", "sslmode=prefer".to_owned()),
    ] {
        let url = server.url(host, "kukopay", &parameters);
        assert_eq!(is_encrypted(&mut conn, &url).await, Some(true), "{parameters}");
    }
    // On the same machine nobody listens in.
    for host in ["127.0.0.1", "localhost"] {
        let url = server.url(host, "kukopay", "");
        assert_eq!(is_encrypted(&mut conn, &url).await, Some(false), "{host}");
    }
}

#[tokio::test]
async fn a_server_on_this_machine_that_insists_on_tls_is_met_with_what_to_add_to_the_url() {
    let Some(server) = Server::start(true) else { return };
    std::fs::write(server.file("data/pg_hba.conf"), "hostssl all all 127.0.0.1/32 scram-sha-256\n").unwrap();
    assert!(server.control(&["-l", "log", "restart"]), "the server starts again");
    let text = expect_refusal(&server.url("127.0.0.1", "postgres", "")).await;
    assert!(text.contains("if it asks for TLS, add sslmode=require to the URL"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_does_not_fit_is_refused_at_once() {
    let Some(server) = Server::start(true) else { return };
    let (ca, other) = (server.file("ca.crt"), server.file("other.crt"));
    server.database("kukopay").await;
    for (host, parameters, expected) in [
        (
            "127.0.0.1",
            format!("sslmode=verify-full&sslrootcert={ca}"),
            "sslmode=verify-full): invalid peer certificate",
        ),
        ("localhost", format!("sslmode=verify-full&sslrootcert={other}"), "invalid peer certificate"),
        (
            "127.0.0.1",
            format!("sslmode=require&sslrootcert={other}"),
            "sslmode=verify-ca): invalid peer certificate",
        ),
        ("localhost", "sslmode=verify-full".to_owned(), "invalid peer certificate"),
        ("localhost", "sslrootcert=system".to_owned(), "invalid peer certificate"),
        ("localhost", "sslmode=verify-ca&sslrootcert=/none".to_owned(), "cannot be read"),
    ] {
        let message = expect_refusal(&server.url(host, "kukopay", &parameters)).await;
        assert!(message.contains(expected), "{expected} in {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waiting_cannot_mend_ends_the_start_at_once_in_plain_words() {
    let Some(server) = Server::start(false) else { return };
    let place = format!("127.0.0.1:{} (--database-url", server.port);
    let mut conn = server.database("foreign_tables").await;
    for statement in [
        "CREATE TABLE users ()",
        "CREATE TABLE _sqlx_migrations (version bigint)",
        "CREATE SCHEMA shop",
        "CREATE TABLE shop.carts ()",
    ] {
        conn.execute(statement).await.unwrap();
    }
    for (url, expected) in [
        (
            server.url("127.0.0.1", "postgres", "sslmode=require"),
            format!("no TLS with {place}, sslmode=require): server does not support TLS"),
        ),
        (
            server.url("127.0.0.1", "postgres", "").replace(SECRET, "s3cret-w0rd-but-wrong"),
            format!("{place}) refuses the connection: password authentication failed for user \"kuko\""),
        ),
        (
            server.url("127.0.0.1", "nowhere", ""),
            format!("{place}) refuses the connection: database \"nowhere\" does not exist"),
        ),
        (
            server.url("127.0.0.1", "foreign_tables", ""),
            "holds tables of others: _sqlx_migrations, users, shop.carts; nothing was made there".to_owned(),
        ),
    ] {
        let message = expect_refusal(&url).await;
        assert!(message.contains(&expected), "{expected} in {message}");
    }
    let made: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_class WHERE relname = 'merchants'")
        .fetch_one(&mut conn)
        .await
        .unwrap();
    assert_eq!(made, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applications_database_in_the_environment_is_left_alone() {
    let Some(server) = Server::start(false) else { return };
    let mut conn = server.database("application").await;
    conn.execute(
        "CREATE TABLE a (); CREATE TABLE b (); CREATE VIEW c AS SELECT; CREATE TABLE d (); CREATE TABLE e ()",
    )
    .await
    .unwrap();
    let mut command = command(&["--port", "0"]);
    command.env("DATABASE_URL", server.url("127.0.0.1", "application", ""));
    let message = expect_failure(command).await;
    assert!(
        message.contains("the database that DATABASE_URL names holds tables of others: a, b, c and 2 more"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn migrations_and_the_wait_for_another_instances_know_no_time_limit() {
    let Some(server) = Server::start(false) else { return };
    let mut conn = server.database("slow").await;
    // What the sandbox makes first, by somebody who has not committed yet: it waits as for another instance.
    conn.execute("BEGIN; CREATE TABLE _sqlx_migrations ()").await.unwrap();
    let url = server.url("127.0.0.1", "slow", "");
    let starting = tokio::task::spawn_blocking(move || Process::start(&["--database-url", &url]));
    let mut other = PgConnection::connect(&server.url("127.0.0.1", "slow", "")).await.unwrap();
    // Longer than a statement of a call may take.
    let waited = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'kukopay-sandbox'
         AND wait_event_type = 'Lock' AND query_start < clock_timestamp() - interval '7 seconds')";
    wait_while("the start does not wait", async || {
        !sqlx::query_scalar::<_, bool>(waited).fetch_one(&mut other).await.unwrap()
    })
    .await;
    conn.execute("ROLLBACK").await.unwrap();
    let log = starting.await.unwrap().end();
    assert!(
        log.contains("the tables are still being brought up to date, here or by another instance"),
        "{log}"
    );
    assert!(!log.contains("waiting up to"), "{log}");
}
