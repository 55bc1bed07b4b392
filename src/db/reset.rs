//! Empties a merchant: the one file that knows every table. Rows are deleted in batches, between which others get
//! their turn; while rows are left, the merchant is `emptying`, and nobody writes new ones.

use serde::Serialize;
use strum::VariantArray;

use super::DbError;
use super::merchants::Alone;

/// Deletes by a range of the primary key, because a list of keys may be looked up one by one. The range has two
/// ends: of a range with one, the planner expects a third of the table and reads all of it.
macro_rules! delete_some {
    ($table:literal, $key:literal) => {
        concat!(
            "DELETE FROM ",
            $table,
            " WHERE merchant_id = $1
                AND ",
            $key,
            " >= (SELECT ",
            $key,
            " FROM ",
            $table,
            " WHERE merchant_id = $1 ORDER BY ",
            $key,
            " LIMIT 1)
                AND ",
            $key,
            " <= (
                SELECT ",
            $key,
            " FROM (
                    SELECT ",
            $key,
            " FROM ",
            $table,
            " WHERE merchant_id = $1 ORDER BY ",
            $key,
            " LIMIT $2) AS first
                ORDER BY ",
            $key,
            " DESC LIMIT 1)"
        )
    };
}

super::declare_statements! {
    IDEMPOTENCY_KEYS = delete_some!("idempotency_keys", "key");
    FAULTS = delete_some!("faults", "fault_id");
    JOURNALS = "DELETE FROM journals WHERE merchant_id = $1 AND $2::bigint > 0";
    REQUESTS = delete_some!("requests", "request_id");
    DELIVERIES = delete_some!("deliveries", "event_id");
    EVENTS = delete_some!("events", "event_id");
    REFUNDS = delete_some!("refunds", "refund_no");
    ORDERS = delete_some!("orders", "trade_no");
    STUCK = delete_some!("stuck", "id");
}

/// A table that holds a merchant's rows, in the order in which they are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, VariantArray)]
pub enum Table {
    /// Keys, with the responses under them.
    IdempotencyKeys,
    /// Fault rules.
    Faults,
    /// The journal's counts, before its entries: a writer that adds entries meanwhile waits, and counts anew.
    Journals,
    /// The journal.
    Requests,
    /// Events.
    Events,
    /// Attempts to deliver events.
    Deliveries,
    /// Refunds.
    Refunds,
    /// Orders.
    Orders,
    /// The work set aside.
    Stuck,
}

/// How many rows were deleted, by table.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Deleted {
    /// Orders.
    pub orders: u64,
    /// Refunds.
    pub refunds: u64,
    /// Events.
    pub events: u64,
    /// Attempts to deliver them.
    pub deliveries: u64,
    /// Idempotency keys.
    pub idempotency_keys: u64,
    /// Fault rules.
    pub faults: u64,
    /// Entries of the journal.
    pub requests: u64,
}

impl Table {
    const fn statement(self) -> &'static str {
        match self {
            Self::IdempotencyKeys => IDEMPOTENCY_KEYS,
            Self::Faults => FAULTS,
            Self::Journals => JOURNALS,
            Self::Requests => REQUESTS,
            Self::Events => EVENTS,
            Self::Deliveries => DELIVERIES,
            Self::Refunds => REFUNDS,
            Self::Orders => ORDERS,
            Self::Stuck => STUCK,
        }
    }

    /// Adds to the count of this table.
    pub const fn add_to(self, deleted: &mut Deleted, rows: u64) {
        let count = match self {
            Self::IdempotencyKeys => &mut deleted.idempotency_keys,
            Self::Faults => &mut deleted.faults,
            Self::Requests => &mut deleted.requests,
            Self::Events => &mut deleted.events,
            Self::Deliveries => &mut deleted.deliveries,
            Self::Refunds => &mut deleted.refunds,
            Self::Orders => &mut deleted.orders,
            Self::Journals | Self::Stuck => return,
        };
        *count += rows;
    }
}

/// Deletes about `limit` of a merchant's rows, and returns how many. If that is less than `limit`, none are left.
pub async fn delete_some(alone: &mut Alone<'_>, table: Table, limit: i64) -> Result<u64, DbError> {
    let delete = sqlx::query(table.statement()).bind(alone.merchant().uuid()).bind(limit);
    Ok(delete.execute(alone.conn()).await?.rows_affected())
}
