//! The table `events`, the outbox: what has happened, written in the transaction of the change.

use sqlx::PgConnection;

use super::DbError;
use crate::domain::event::Event;

super::declare_statements! {
    INSERT = "
        INSERT INTO events (merchant_id, event_id, event_type, trade_no, notify_url, payload, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
}

/// Writes an event.
///
/// # Errors
/// Those of the database.
pub async fn insert(conn: &mut PgConnection, event: &Event) -> Result<(), DbError> {
    let insert = sqlx::query(INSERT)
        .bind(event.merchant.uuid())
        .bind(event.event_id.uuid())
        .bind(event.event_type.code())
        .bind(event.trade_no.uuid())
        .bind(&event.notify_url)
        .bind(&event.payload)
        .bind(event.created_at);
    insert.execute(conn).await?;
    Ok(())
}
