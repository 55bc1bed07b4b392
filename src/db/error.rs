//! Errors of the database, sorted by what they mean for a request: unavailable for the moment, or a bug.

use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;

/// An error of the database.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// It cannot be reached, is overloaded, or gave up on a conflict: the same request may succeed in
    /// a moment.
    #[error("the database is not available: {0}")]
    Unavailable(#[source] sqlx::Error),
    /// It could not be reached at start, for a cause that may pass.
    #[error("{0}")]
    Unreachable(String),
    /// It refused a statement; a bug in the sandbox.
    #[error("the database refused a statement: {0}")]
    Failed(#[source] sqlx::Error),
    /// The merchant is being emptied; the same request may succeed in a moment.
    #[error("the merchant is being emptied")]
    Emptying,
    /// A stored value is one that this program never writes.
    #[error("the database holds an unknown {0}")]
    Corrupt(&'static str),
    /// What used it panicked; a bug in the sandbox.
    #[error("a batch of statements panicked")]
    Panicked,
    /// It cannot be set up as configured; retrying does not help.
    #[error("{0}")]
    Setup(String),
}

/// Classes of SQLSTATE after which the same request may succeed: connection lost, conflict between
/// transactions, out of resources, cancelled (a statement that ran into its time limit) or shut down.
const PASSING: [&str; 4] = ["08", "40", "53", "57"];
/// A lock that was not granted in time.
const LOCK_NOT_AVAILABLE: &str = "55P03";
/// Within class 08, but about a start-up parameter that the server, or a pooler in front of it, does not accept.
const PROTOCOL_VIOLATION: &str = "08P01";

impl From<sqlx::Error> for DbError {
    fn from(error: sqlx::Error) -> Self {
        let passing = match &error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed => true,
            sqlx::Error::Database(refused) => Self::may_pass(&**refused),
            _ => false,
        };
        if passing { Self::Unavailable(error) } else { Self::Failed(error) }
    }
}

impl DbError {
    /// The same error for another call of the same batch.
    #[must_use]
    pub(crate) fn again(&self) -> Self {
        Self::Unavailable(sqlx::Error::Protocol(self.to_string()))
    }

    /// Whether the same may succeed in a moment, after the database has said no.
    pub(super) fn may_pass(refused: &dyn DatabaseError) -> bool {
        refused.code().is_some_and(|code| {
            code == LOCK_NOT_AVAILABLE
                || code != PROTOCOL_VIOLATION && PASSING.iter().any(|class| code.starts_with(class))
        })
    }

    /// An error of the migrations, which run at start. If a person can mend it, it says how.
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

    /// Whether somebody else held a lock for too long.
    #[must_use]
    pub fn is_lock_timeout(&self) -> bool {
        match self {
            Self::Unavailable(sqlx::Error::Database(refused)) => {
                refused.code().is_some_and(|code| code == LOCK_NOT_AVAILABLE)
            }
            _ => false,
        }
    }

    /// Whether waiting for the database is in vain, because it is up and refuses.
    #[must_use]
    pub const fn is_final_at_start(&self) -> bool {
        !matches!(self, Self::Unavailable(_) | Self::Unreachable(_) | Self::Emptying)
    }
}
