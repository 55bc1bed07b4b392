//! What can go wrong in the database, sorted by what it means for a request: gone for now, or a bug.

use sqlx::migrate::MigrateError;

/// An error of the database.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// It cannot be reached, is overloaded, or gave up on a conflict: the same request may succeed in
    /// a moment.
    #[error("the database is not available: {0}")]
    Unavailable(#[source] sqlx::Error),
    /// It refused what it was asked; a bug here.
    #[error("the database refused a statement: {0}")]
    Failed(#[source] sqlx::Error),
    /// A stored value is none that this program writes.
    #[error("the database holds an unknown {0}")]
    Corrupt(&'static str),
    /// It cannot be set up as configured; retrying does not help.
    #[error("{0}")]
    Setup(String),
}

/// Classes of SQLSTATE after which the same request may succeed: connection lost, conflict between
/// transactions, out of resources, cancelled (a statement that ran into its time limit) or shut down.
const PASSING: [&str; 4] = ["08", "40", "53", "57"];
/// A lock that was not to be had in time.
const LOCK_NOT_AVAILABLE: &str = "55P03";
/// Classes of SQLSTATE at connection time that no waiting cures: wrong password, no such database,
/// missing right.
const MISCONFIGURED: [&str; 3] = ["28", "3D", "42501"];

impl From<sqlx::Error> for DbError {
    fn from(error: sqlx::Error) -> Self {
        let passing = match &error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed => true,
            sqlx::Error::Database(refused) => refused.code().is_some_and(|code| {
                code == LOCK_NOT_AVAILABLE || PASSING.iter().any(|class| code.starts_with(class))
            }),
            _ => false,
        };
        if passing { Self::Unavailable(error) } else { Self::Failed(error) }
    }
}

impl DbError {
    /// The error of work that was given up, as it took longer than it may.
    pub(crate) const fn took_too_long() -> Self {
        Self::Unavailable(sqlx::Error::PoolTimedOut)
    }

    /// An error of the migrations, which run at start: what a person can mend is said as such.
    pub(super) fn from_migration(error: MigrateError) -> Self {
        let text = error.to_string();
        match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
                match Self::from(error) {
                    Self::Failed(error) => Self::Setup(format!(
                        "the tables cannot be created ({error}); give the sandbox a database of its own"
                    )),
                    other => other,
                }
            }
            _ => Self::Setup(format!(
                "the database was not made by this version ({text}); give the sandbox a database of its own"
            )),
        }
    }

    /// Whether waiting for the database to come up is in vain, because it is up and says no.
    #[must_use]
    pub fn is_final_at_start(&self) -> bool {
        match self {
            Self::Failed(sqlx::Error::Database(refused)) => {
                refused.code().is_some_and(|code| MISCONFIGURED.iter().any(|class| code.starts_with(class)))
            }
            Self::Unavailable(_) => false,
            _ => true,
        }
    }
}
