//! The database: the pool, its errors, and one file per table with all SQL about it. Functions take a
//! connection, so that their caller decides what is one transaction; what a change means is the
//! services' concern.
//!
//! Nobody acquires a second connection while holding one: the embedded database has exactly one.

pub mod deliveries;
#[cfg(feature = "embedded")]
mod embedded;
mod error;
pub mod events;
pub mod faults;
pub mod idempotency_keys;
pub mod merchants;
pub mod orders;
pub mod refunds;
pub mod requests;
pub mod reset;

use std::path::PathBuf;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Postgres};

pub use error::DbError;
pub use sqlx::postgres::PgConnection;
pub use sqlx::{Connection, Transaction};

/// A connection out of the pool, to which it goes back when it is dropped.
pub type PoolConnection = sqlx::pool::PoolConnection<Postgres>;

/// How long a request waits for a free connection. Longer than a burst of requests takes to be served
/// over one connection, shorter than the deadline of the work.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long one statement may run, in milliseconds. The statements here take about one; this frees a
/// connection that waits for a lock which somebody holds by hand.
const STATEMENT_TIMEOUT_MS: &str = "6000";

/// Declares the SQL statements of a table as constants, and lists them for the test that prepares each
/// one and looks at its plan.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $sql:expr;)*) => {
        $($(#[$doc])* const $name: &str = $sql;)*
        /// Every statement of this file by its name.
        pub const STATEMENTS: &[(&str, &str)] = &[$((stringify!($name), $name)),*];
    };
}
pub(super) use statements as declare_statements;

/// The time of the merchant `m`, a row of `merchants`, to the millisecond (contract, section 7).
/// (`now()`, since no index can be searched by `clock_timestamp()`.)
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

/// Opens the merchant `$1`, who may be new. The look before it spares those who are not the making of a
/// secret.
macro_rules! open_merchant {
    () => {
        "WITH merchant AS (
            INSERT INTO merchants (merchant_id)
            SELECT $1::uuid WHERE NOT EXISTS (SELECT FROM merchants WHERE merchant_id = $1)
            ON CONFLICT DO NOTHING)"
    };
}
pub(super) use open_merchant;

/// Starts a statement with `clock (merchant_id, now)`: the merchants that have a row in a table for
/// which a condition holds, each with its time. For workers, which look for what is due whoever's it is:
/// an index on `(merchant_id, …)` with the same condition is read from one merchant to the next, and
/// not row by row.
macro_rules! clock_of_those_with {
    ($table:literal, $condition:literal) => {
        concat!(
            "WITH RECURSIVE waiting AS (
                (SELECT merchant_id FROM ",
            $table,
            " WHERE ",
            $condition,
            " ORDER BY merchant_id LIMIT 1)
                UNION ALL
                SELECT (SELECT t.merchant_id FROM ",
            $table,
            " t
                        WHERE ",
            $condition,
            " AND t.merchant_id > waiting.merchant_id
                        ORDER BY t.merchant_id LIMIT 1)
                FROM waiting WHERE waiting.merchant_id IS NOT NULL),
            clock AS (
                SELECT merchant_id, ",
            $crate::db::merchant_now!(),
            " AS now
                FROM waiting JOIN merchants m USING (merchant_id))"
        )
    };
}
pub(super) use clock_of_those_with;

/// Every statement of every table: table, name, SQL.
pub fn statements() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let tables = [
        ("deliveries", deliveries::STATEMENTS),
        ("events", events::STATEMENTS),
        ("faults", faults::STATEMENTS),
        ("idempotency_keys", idempotency_keys::STATEMENTS),
        ("merchants", merchants::STATEMENTS),
        ("orders", orders::STATEMENTS),
        ("refunds", refunds::STATEMENTS),
        ("requests", requests::STATEMENTS),
        ("reset", reset::STATEMENTS),
    ];
    tables.into_iter().flat_map(|(table, list)| list.iter().map(move |(name, sql)| (table, *name, *sql)))
}

/// Where the data lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// A PostgreSQL server, by its URL.
    Server(String),
    /// The embedded PostgreSQL, on a directory that one process at a time may use.
    Directory(PathBuf),
    /// The embedded PostgreSQL, on nothing that outlives the process.
    Ephemeral,
}

/// The database that a sandbox runs on.
#[derive(Debug)]
pub struct Database {
    pool: PgPool,
    /// Whether no other process can be on the same data.
    exclusive: bool,
    #[cfg(feature = "embedded")]
    embedded: std::sync::Mutex<Option<embedded::Embedded>>,
}

impl Database {
    /// Prepares the pool, and starts the embedded database where it is used. Of a server nothing is
    /// asked yet: it may still be starting.
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
            Storage::Server(url) => {
                let options = server_options(url)
                    .ok_or_else(|| {
                        DbError::Setup(
                            "the database URL is not of the form postgres://user:password@host/database"
                                .to_owned(),
                        )
                    })?
                    .application_name("kukopay-sandbox")
                    .options([("statement_timeout", STATEMENT_TIMEOUT_MS)]);
                Ok(Self {
                    pool: pool(options, pool_size),
                    exclusive: false,
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
                    pool: pool(options, 1),
                    exclusive: true,
                    embedded: std::sync::Mutex::new(Some(embedded)),
                })
            }
            #[cfg(not(feature = "embedded"))]
            Storage::Directory(_) | Storage::Ephemeral => Err(DbError::Setup(
                "this build has no embedded database; set DATABASE_URL to a PostgreSQL server".to_owned(),
            )),
        }
    }

    /// Brings the tables up to date, under a lock, so that several instances may start at once. Where
    /// this process is the only one on its data, whatever an earlier one held is freed.
    ///
    /// # Errors
    /// An unreachable server, or a database that holds other tables of these names.
    pub async fn migrate(&self) -> Result<(), DbError> {
        let mut conn = self.acquire().await?;
        sqlx::migrate!().run(&mut *conn).await.map_err(DbError::from_migration)?;
        if self.exclusive {
            idempotency_keys::release_all(&mut conn).await?;
            deliveries::release_all(&mut conn).await?;
        }
        Ok(())
    }

    /// Takes a connection out of the pool. Whoever holds one must not wait for anything but the
    /// database.
    ///
    /// # Errors
    /// [`DbError::Unavailable`] where none comes free in time.
    pub async fn acquire(&self) -> Result<PoolConnection, DbError> {
        Ok(self.pool.acquire().await?)
    }

    /// Asks the database whether it is there.
    ///
    /// # Errors
    /// [`DbError::Unavailable`] where it is not.
    pub async fn ping(&self) -> Result<(), DbError> {
        Ok(self.acquire().await?.ping().await?)
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

/// Reads the URL of a server. What is wrong with it is not told: that may quote the password.
fn server_options(url: &str) -> Option<PgConnectOptions> {
    // The parser takes any scheme.
    let (scheme, _) = url.split_once("://")?;
    if matches!(scheme, "postgres" | "postgresql") { url.parse().ok() } else { None }
}

fn pool(options: PgConnectOptions, size: u32) -> PgPool {
    PgPoolOptions::new()
        .max_connections(size)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // A connection is tested when it comes back; testing it again would cost every request a round
        // trip. One that died while idle costs one request a 503, which is safe to retry.
        .test_before_acquire(false)
        .connect_lazy_with(options.disable_statement_logging())
}
