//! The database: the pool, its errors, and one file per table with all SQL about it. Functions take a connection, so
//! that the caller decides what is one transaction. What a change means is left to the services.
//!
//! No caller acquires a second connection while it holds one: the embedded database has exactly one.

pub mod deliveries;
#[cfg(feature = "embedded")]
mod embedded;
mod error;
pub mod events;
pub mod faults;
pub mod idempotency_keys;
pub mod journal_writers;
pub mod journals;
pub mod leases;
pub mod merchants;
mod migrations;
pub mod new_orders;
pub mod orders;
pub mod refunds;
pub mod requests;
pub mod reset;
mod row;
mod server;
pub mod statistics;
pub mod stuck;
mod tx;
pub mod vacuum;

use std::path::PathBuf;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Postgres};
use time::OffsetDateTime;

pub use error::DbError;
pub use server::ServerUrl;
pub use sqlx::postgres::PgConnection;
pub use tx::{Committed, Tx};

/// A connection out of the pool. It returns there when it is dropped.
pub type PoolConnection = sqlx::pool::PoolConnection<Postgres>;

/// How long a request waits for a free connection. Longer than a burst of requests takes to be served
/// over one connection, shorter than the deadline of the work.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long one statement may run, in milliseconds. Statements take about one; this frees a connection that waits
/// for a lock held by hand.
const STATEMENT_TIMEOUT_MS: &str = "6000";

/// Every statement looks up few rows by an index. While a table is small or without statistics, the planner would
/// choose plans that read it whole, and keep them while the table grows. Nor may a plan depend on the merchant: of one
/// that the statistics do not know, the planner expects a single row, and would read all its rows for each call.
/// Statistics are about as good by a tenth of the usual sample, which is 30 000 rows.
const PLANNER: [(&str, &str); 8] = [
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_material", "off"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("default_statistics_target", "10"),
];

/// Declares the SQL statements of a table as constants, and lists them for the test that checks the plan of each.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $sql:expr;)*) => {
        $($(#[$doc])* const $name: &str = $sql;)*
        /// Every statement of this file by its name.
        pub const STATEMENTS: &[(&str, &str)] = &[$((stringify!($name), $name)),*];
    };
}
pub(super) use statements as declare_statements;

/// The time of the merchant `m`, a row of `merchants`, to the millisecond (contract, section 7).
/// (`now()`, because no index can be searched by `clock_timestamp()`.)
macro_rules! merchant_now {
    () => {
        "date_trunc('milliseconds', \
             coalesce(m.clock_frozen_at, now() + m.clock_offset_ms * interval '1 millisecond'))"
    };
}
pub(super) use merchant_now;

/// The time of the merchant `$1`, who may be new.
macro_rules! merchant_now_or_new {
    () => {
        concat!(
            "coalesce((SELECT ",
            $crate::db::merchant_now!(),
            " FROM merchants m WHERE m.merchant_id = $1),
                      date_trunc('milliseconds', now()))"
        )
    };
}
pub(super) use merchant_now_or_new;

/// Creates the merchant `$1` if it is new. The check for it comes first, so that no secret is generated in vain.
macro_rules! open_merchant {
    () => {
        "WITH merchant AS (
            INSERT INTO merchants (merchant_id)
            SELECT $1::uuid WHERE NOT EXISTS (SELECT FROM merchants WHERE merchant_id = $1)
            ON CONFLICT DO NOTHING)"
    };
}
pub(super) use open_merchant;

/// The real time at which the clock of the merchant `m`, a row of `merchants`, reaches a time. A frozen clock never
/// reaches a later time.
macro_rules! real_time {
    ($at:literal) => {
        concat!(
            "CASE WHEN m.clock_frozen_at IS NULL
                  THEN ",
            $at,
            " - m.clock_offset_ms * interval '1 millisecond'
                  WHEN ",
            $at,
            " <= m.clock_frozen_at THEN '-infinity' ELSE 'infinity' END"
        )
    };
}
pub(super) use real_time;

/// Ends a statement of a [`Tx`] that has written `written`: a worker looks at the merchant `$1` when its clock
/// reaches this time.
macro_rules! due_by {
    ($at:literal) => {
        concat!(
            "lowered AS (
                UPDATE merchants m SET due_at = ",
            $crate::db::real_time!($at),
            " FROM written WHERE m.merchant_id = $1 AND m.due_at > ",
            $crate::db::real_time!($at),
            ")"
        )
    };
}
pub(super) use due_by;

/// Every statement of every table: table, name, SQL.
pub fn statements() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let tables = [
        ("deliveries", deliveries::STATEMENTS),
        ("events", events::STATEMENTS),
        ("faults", faults::STATEMENTS),
        ("idempotency_keys", idempotency_keys::STATEMENTS),
        ("journal_writers", journal_writers::STATEMENTS),
        ("journals", journals::STATEMENTS),
        ("leases", leases::STATEMENTS),
        ("merchants", merchants::STATEMENTS),
        ("orders", new_orders::STATEMENTS),
        ("orders", orders::STATEMENTS),
        ("refunds", refunds::STATEMENTS),
        ("requests", requests::STATEMENTS),
        ("reset", reset::STATEMENTS),
        ("stuck", stuck::STATEMENTS),
    ];
    tables.into_iter().flat_map(|(table, list)| list.iter().map(move |(name, sql)| (table, *name, *sql)))
}

/// Where the data lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// A PostgreSQL server, by its URL.
    Server(ServerUrl),
    /// The embedded PostgreSQL, on a directory that one process at a time may use.
    Directory(PathBuf),
    /// The embedded PostgreSQL, on a temporary directory.
    Ephemeral,
}

/// Prepares the process for the embedded database, if it is used. It must be called before anything has started: it
/// may start the command again, with another environment.
///
/// # Errors
/// No folder can be written to.
pub fn prepare_cache(storage: &Storage) -> Result<(), String> {
    #[cfg(feature = "embedded")]
    return embedded::prepare(storage);
    #[cfg(not(feature = "embedded"))]
    {
        let _ = storage;
        Ok(())
    }
}

/// The database that a sandbox runs on.
#[derive(Debug)]
pub struct Database {
    pool: PgPool,
    /// The server. Without one, no other process can be on the data.
    server: Option<(ServerUrl, PgConnectOptions)>,
    #[cfg(feature = "embedded")]
    embedded: std::sync::Mutex<Option<embedded::Embedded>>,
}

impl Database {
    /// Prepares the pool, and starts the embedded database if it is used. A server is not contacted yet: it may
    /// still be starting.
    ///
    /// # Errors
    /// A malformed URL, a directory in use by another process, or an embedded database that does not
    /// start.
    #[cfg_attr(
        not(feature = "embedded"),
        expect(clippy::unused_async, reason = "only the embedded database takes time to open")
    )]
    pub async fn open(storage: &Storage, pool_size: u32) -> Result<Self, DbError> {
        match storage {
            Storage::Server(server) => {
                let options = server.options()?.application_name("kukopay-sandbox");
                // Neither a migration nor the wait for that of another instance has a time limit.
                let at_start = options.clone().options([("statement_timeout", "0"), ("lock_timeout", "0")]);
                let options = options.options([("statement_timeout", STATEMENT_TIMEOUT_MS)]).options(PLANNER);
                Ok(Self {
                    pool: pool(options, pool_size),
                    server: Some((server.clone(), at_start.disable_statement_logging())),
                    #[cfg(feature = "embedded")]
                    embedded: std::sync::Mutex::new(None),
                })
            }
            #[cfg(feature = "embedded")]
            Storage::Directory(_) | Storage::Ephemeral => {
                let directory = match storage {
                    Storage::Directory(directory) => Some(directory.clone()),
                    _ => None,
                };
                let embedded = embedded::Embedded::start(directory).await?;
                let options: PgConnectOptions =
                    embedded.url().parse().map_err(|error: sqlx::Error| DbError::Setup(error.to_string()))?;
                Ok(Self {
                    pool: pool(options.options(PLANNER), 1),
                    server: None,
                    embedded: std::sync::Mutex::new(Some(embedded)),
                })
            }
            #[cfg(not(feature = "embedded"))]
            Storage::Directory(_) | Storage::Ephemeral => Err(DbError::Setup(
                "this build has no embedded database; name a PostgreSQL server with --database-url, \
                 KUKOPAY_DATABASE_URL or DATABASE_URL"
                    .to_owned(),
            )),
        }
    }

    /// Brings the tables up to date, under a lock, so that several instances may start at once. If this process is
    /// alone on its data, frees the claims and leases of an earlier one.
    ///
    /// # Errors
    /// A server that is away or refuses, or a database that holds foreign tables.
    pub async fn migrate(&self) -> Result<(), DbError> {
        let Some((server, options)) = &self.server else {
            let mut conn = self.acquire().await?;
            migrations::run(&mut conn).await?;
            idempotency_keys::release_all(&mut conn).await?;
            leases::release_all(&mut conn).await?;
            return Ok(());
        };
        let mut conn = server.connect(options).await?;
        migrations::refuse_others(&mut conn, server.source()).await?;
        migrations::run(&mut conn).await?;
        Ok(conn.close().await?)
    }

    /// Takes a connection out of the pool, if one is idle and nobody waits for it.
    #[must_use]
    pub fn try_acquire(&self) -> Option<PoolConnection> {
        self.pool.try_acquire()
    }

    /// Whether no other process can be on the same data.
    #[must_use]
    pub const fn is_exclusive(&self) -> bool {
        self.server.is_none()
    }

    /// Takes a connection out of the pool. While holding it, the caller must wait for nothing but the database.
    ///
    /// # Errors
    /// [`DbError::Unavailable`] if none becomes free in time.
    pub async fn acquire(&self) -> Result<PoolConnection, DbError> {
        match self.try_acquire() {
            Some(conn) => Ok(conn),
            // Boxed, because it holds what is needed to connect: 4 KiB, which every future around it would carry along.
            None => Ok(Box::pin(self.pool.acquire()).await?),
        }
    }

    /// Asks the database whether it is available.
    ///
    /// # Errors
    /// [`DbError::Unavailable`] if it is not.
    pub async fn ping(&self) -> Result<(), DbError> {
        Ok(self.acquire().await?.ping().await?)
    }

    /// This machine's time before asking, the database's time, and this machine's time after the answer.
    ///
    /// # Errors
    /// [`DbError::Unavailable`] if the database is away.
    pub async fn time(&self) -> Result<[OffsetDateTime; 3], DbError> {
        let mut conn = self.acquire().await?;
        let asked = OffsetDateTime::now_utc();
        let database = sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(&mut *conn).await?;
        Ok([asked, database, OffsetDateTime::now_utc()])
    }

    /// Closes every connection, then stops the embedded database.
    pub async fn close(&self) {
        self.pool.close().await;
        #[cfg(feature = "embedded")]
        {
            let embedded = self.embedded.lock().ok().and_then(|mut embedded| embedded.take());
            if let Some(embedded) = embedded {
                embedded.stop().await;
            }
        }
    }
}

fn pool(options: PgConnectOptions, size: u32) -> PgPool {
    PgPoolOptions::new()
        .max_connections(size)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // A connection is tested when it returns to the pool. Testing it again would cost every request a round
        // trip. One that died while idle costs one request a 503, which is safe to retry.
        .test_before_acquire(false)
        .connect_lazy_with(options.disable_statement_logging())
}
