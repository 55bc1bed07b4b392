//! Empties a merchant: the one file that knows every table. Rows go in batches, between which others get
//! their turn.

use serde::Serialize;
use sqlx::PgConnection;

use super::DbError;
use crate::domain::id::MerchantId;

/// A range of the primary key and not a list of keys, which may be looked for one by one.
macro_rules! delete_some {
    ($table:literal, $key:literal) => {
        concat!(
            "DELETE FROM ",
            $table,
            " WHERE merchant_id = $1 AND ",
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
    REQUESTS = delete_some!("requests", "request_id");
    DELIVERIES = delete_some!("deliveries", "event_id");
    EVENTS = delete_some!("events", "event_id");
    REFUNDS = delete_some!("refunds", "refund_no");
    ORDERS = delete_some!("orders", "trade_no");

    SETTINGS = "
        UPDATE merchants
        SET clock_offset_ms = 0, clock_frozen_at = NULL, webhook_url = NULL, webhook_secret = DEFAULT,
            previous_webhook_secret = NULL, previous_secret_until = NULL
        WHERE merchant_id = $1";
}

/// A table that holds a merchant's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Keys go first: work that still runs finds its claim gone, and writes nothing.
    IdempotencyKeys,
    /// Fault rules.
    Faults,
    /// The journal.
    Requests,
    /// Events go before their deliveries, since an attempt that still runs is recorded only with its event.
    Events,
    /// Attempts to deliver events.
    Deliveries,
    /// Refunds.
    Refunds,
    /// Orders.
    Orders,
}

/// How many rows went, table by table.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gone {
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
    /// Every table, in the order in which they are emptied.
    pub const ALL: [Self; 7] = [
        Self::IdempotencyKeys,
        Self::Faults,
        Self::Requests,
        Self::Events,
        Self::Deliveries,
        Self::Refunds,
        Self::Orders,
    ];

    const fn statement(self) -> &'static str {
        match self {
            Self::IdempotencyKeys => IDEMPOTENCY_KEYS,
            Self::Faults => FAULTS,
            Self::Requests => REQUESTS,
            Self::Events => EVENTS,
            Self::Deliveries => DELIVERIES,
            Self::Refunds => REFUNDS,
            Self::Orders => ORDERS,
        }
    }

    /// The count of this table.
    pub const fn count(self, gone: &mut Gone) -> &mut u64 {
        match self {
            Self::IdempotencyKeys => &mut gone.idempotency_keys,
            Self::Faults => &mut gone.faults,
            Self::Requests => &mut gone.requests,
            Self::Events => &mut gone.events,
            Self::Deliveries => &mut gone.deliveries,
            Self::Refunds => &mut gone.refunds,
            Self::Orders => &mut gone.orders,
        }
    }
}

/// Deletes about `limit` of a merchant's rows, and returns how many; none are left where these are fewer.
///
/// # Errors
/// Those of the database.
pub async fn delete_some(
    conn: &mut PgConnection,
    table: Table,
    merchant: MerchantId,
    limit: i64,
) -> Result<u64, DbError> {
    let delete = sqlx::query(table.statement()).bind(merchant.uuid()).bind(limit);
    Ok(delete.execute(conn).await?.rows_affected())
}

/// Sets a merchant's settings back to those of a new one.
///
/// # Errors
/// Those of the database.
pub async fn reset_settings(conn: &mut PgConnection, merchant: MerchantId) -> Result<(), DbError> {
    sqlx::query(SETTINGS).bind(merchant.uuid()).execute(conn).await?;
    Ok(())
}
