//! The transaction in which a merchant's data is written. It shares the merchant's row from its beginning, so that
//! meanwhile nobody moves the merchant's clock, empties it, or misses work that it makes due.
//!
//! Locks are taken in one order, so that no two transactions wait for each other: the merchant's row, rows of
//! orders by `trade_no`, rows of refunds and events, and at last the merchant's row to make something due
//! earlier. A transaction that holds the merchant's row alone (see `merchants`) takes no other before it.

use std::ops::{Deref, DerefMut};

use sqlx::{Connection, PgConnection, Postgres, Transaction};
use time::OffsetDateTime;

use super::{DbError, merchants};
use crate::domain::id::MerchantId;

/// For workers: they give up on a lock that is held for long.
const BEGIN_IMPATIENT: &str = "BEGIN; SET LOCAL lock_timeout = '500ms'";

/// A transaction that writes data of one merchant. It is rolled back unless it is committed.
#[derive(Debug)]
pub struct Tx<'c> {
    transaction: Transaction<'c, Postgres>,
    merchant: MerchantId,
    now: OffsetDateTime,
    committed: Committed,
}

/// What a transaction has left to do for others.
#[derive(Debug, Clone, Copy, Default)]
#[must_use = "events that came due wait for the delivery to be woken"]
pub struct Committed {
    /// Whether events may have come due.
    pub events_due: bool,
}

impl<'c> Tx<'c> {
    /// Begins, and creates the merchant if it is new.
    ///
    /// # Errors
    /// [`DbError::Emptying`] while the merchant is being emptied.
    pub async fn begin(conn: &'c mut PgConnection, merchant: MerchantId) -> Result<Self, DbError> {
        Self::share(conn.begin().await?, merchant).await
    }

    /// The same for a worker: fails if a lock is held for long.
    ///
    /// # Errors
    /// As of [`Tx::begin`].
    pub async fn begin_impatient(conn: &'c mut PgConnection, merchant: MerchantId) -> Result<Self, DbError> {
        Self::share(conn.begin_with(BEGIN_IMPATIENT).await?, merchant).await
    }

    async fn share(
        mut transaction: Transaction<'c, Postgres>,
        merchant: MerchantId,
    ) -> Result<Self, DbError> {
        let now = merchants::share(&mut transaction, merchant).await?;
        Ok(Self { transaction, merchant, now, committed: Committed::default() })
    }

    /// The same transaction, for another merchant's data.
    ///
    /// # Errors
    /// As of [`Tx::begin`].
    pub async fn turn_to(&mut self, merchant: MerchantId) -> Result<(), DbError> {
        if merchant != self.merchant {
            self.now = merchants::share(&mut self.transaction, merchant).await?;
            self.merchant = merchant;
        }
        Ok(())
    }

    /// Whose data it writes.
    #[must_use]
    pub const fn merchant(&self) -> MerchantId {
        self.merchant
    }

    /// The merchant's time at the beginning, to the millisecond.
    #[must_use]
    pub const fn now(&self) -> OffsetDateTime {
        self.now
    }

    /// Notes that events have come due by this transaction.
    pub(super) const fn note_due_events(&mut self) {
        self.committed.events_due = true;
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// Those of the database; then it is unknown whether the commit succeeded.
    pub async fn commit(self) -> Result<Committed, DbError> {
        self.transaction.commit().await?;
        Ok(self.committed)
    }

    /// Takes back all that was written.
    pub async fn rollback(self) -> Result<(), DbError> {
        Ok(self.transaction.rollback().await?)
    }
}

impl Deref for Tx<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.transaction
    }
}

impl DerefMut for Tx<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.transaction
    }
}
