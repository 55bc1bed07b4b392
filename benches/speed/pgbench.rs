//! The baseline: what the bare database makes of a transaction that inserts an order and a key, by PostgreSQL's own
//! `pgbench`, over TCP as the sandbox does it. Its tables are as wide as the sandbox's and have the two indexes
//! that no gateway can do without; they stay as they are whatever becomes of the sandbox's.

use std::fs;
use std::process::Command;
use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection};

use crate::Outcome;
use crate::postgres::{Server, output};
use crate::table::median;

const TABLES: &str = "
    CREATE TABLE orders (
        merchant uuid NOT NULL, trade_no uuid NOT NULL, out_trade_no text NOT NULL, amount bigint NOT NULL,
        currency text NOT NULL, subject text NOT NULL, metadata jsonb NOT NULL, status text NOT NULL,
        secret text NOT NULL, created_at timestamptz NOT NULL, expires_at timestamptz NOT NULL,
        UNIQUE (merchant, out_trade_no));
    CREATE TABLE keys (
        merchant uuid NOT NULL, key text NOT NULL, fingerprint bytea NOT NULL, method text NOT NULL,
        target text NOT NULL, request bytea NOT NULL, status smallint NOT NULL, response bytea NOT NULL,
        created_at timestamptz NOT NULL, PRIMARY KEY (merchant, key));";

/// Four trips to the server: the order and its key become durable together.
const TRANSACTION: &str = "\
BEGIN;
INSERT INTO orders VALUES ('00000000-0000-4000-8000-000000000001', gen_random_uuid(), gen_random_uuid()::text, 2990, \
'USD', 'Pro 年度訂閲', '{}', 'pending', md5(random()::text), now(), now() + interval '2 hours');
INSERT INTO keys VALUES ('00000000-0000-4000-8000-000000000001', gen_random_uuid()::text, \
sha256('order'), 'POST', '/v1/orders', convert_to(repeat('r', 100), 'UTF8'), 201, \
convert_to(repeat('a', 600), 'UTF8'), now());
COMMIT;
";

/// The baseline on a database of its own.
#[derive(Debug)]
pub(crate) struct Pgbench<'s> {
    server: &'s Server,
    url: String,
    folder: tempfile::TempDir,
}

impl<'s> Pgbench<'s> {
    /// Makes the tables.
    pub(crate) async fn new(server: &'s Server) -> Outcome<Self> {
        let (url, folder) = (server.database("baseline").await?, tempfile::tempdir()?);
        let mut conn = PgConnection::connect(&url).await?;
        conn.execute(TABLES).await?;
        conn.close().await?;
        fs::write(folder.path().join("transaction.sql"), TRANSACTION)?;
        Ok(Self { server, url, folder })
    }

    /// Transactions in a second over 32 clients.
    pub(crate) async fn per_second(&self, time: Duration) -> Outcome<f64> {
        let text = self.run(crate::rows::CONNECTIONS, time, &[]).await?;
        let tps = text.split("tps = ").nth(1).and_then(|rest| rest.split_whitespace().next());
        Ok(tps.ok_or_else(|| format!("pgbench printed\n{text}"))?.parse()?)
    }

    /// The median of what one client waits for a transaction, in milliseconds.
    pub(crate) async fn alone(&self, time: Duration) -> Outcome<f64> {
        self.run(1, time, &["--log", "--log-prefix=alone"]).await?;
        let mut micros = Vec::new();
        for entry in fs::read_dir(self.folder.path())?.flatten() {
            if entry.file_name().to_string_lossy().starts_with("alone") {
                let log = fs::read_to_string(entry.path())?;
                // Client, transaction, microseconds, and what does not matter here.
                micros.extend(log.lines().filter_map(|line| line.split(' ').nth(2)?.parse::<f64>().ok()));
                fs::remove_file(entry.path())?;
            }
        }
        Ok(median(micros) / 1000.0)
    }

    async fn run(&self, clients: usize, time: Duration, more: &[&str]) -> Outcome<String> {
        let mut command = Command::new(self.server.programs.join("pgbench"));
        let threads = clients.min(std::thread::available_parallelism()?.get());
        command.args(["--no-vacuum", "--protocol=prepared", "--file=transaction.sql"]);
        command.arg(format!("--client={clients}")).arg(format!("--jobs={threads}"));
        command.arg(format!("--time={}", time.as_secs().max(1))).args(more);
        command.arg(&self.url).current_dir(self.folder.path());
        tokio::task::spawn_blocking(move || output(&mut command)).await?
    }
}
