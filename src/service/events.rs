//! Events as a merchant looks at them: one with its attempts, and sending it again (contract, section 7).
//! Reading lists is the handler's.

use super::{Gateway, WorkError};
use crate::db::{Connection, DbError, PgConnection, deliveries, events, merchants};
use crate::domain::delivery::{Delivery, StoredEvent};
use crate::domain::id::MerchantId;
use crate::domain::refusal::Refusal;

/// The event with this identifier.
///
/// # Errors
/// [`Refusal::EventNotFound`], or those of the database.
pub async fn find(conn: &mut PgConnection, merchant: MerchantId, id: &str) -> Result<StoredEvent, WorkError> {
    let event = match id.parse() {
        Ok(event_id) => events::by_id(conn, merchant, event_id).await?,
        Err(_) => None,
    };
    event.ok_or_else(|| Refusal::EventNotFound(id.to_owned()).into())
}

/// The event with this identifier, and every attempt to deliver it.
///
/// # Errors
/// [`Refusal::EventNotFound`], or those of the database.
pub async fn find_with_deliveries(
    conn: &mut PgConnection,
    merchant: MerchantId,
    id: &str,
) -> Result<(StoredEvent, Vec<Delivery>), WorkError> {
    let event = find(conn, merchant, id).await?;
    let attempts = deliveries::of_event(conn, merchant, event.event_id).await?;
    Ok((event, attempts))
}

/// Sends an event again, whatever came of it, and begins its schedule anew. An attempt that is under way
/// is recorded and changes nothing more.
///
/// # Errors
/// [`Refusal::EventNotFound`], [`Refusal::WebhookUrlMissing`], or those of the database.
pub async fn redeliver(
    gateway: &Gateway,
    merchant: MerchantId,
    id: &str,
) -> Result<(StoredEvent, Vec<Delivery>), WorkError> {
    let mut conn = gateway.db.acquire().await?;
    merchants::open(&mut conn, merchant).await?;
    let event = find(&mut conn, merchant, id).await?;
    let mut tx = conn.begin().await.map_err(DbError::from)?;
    deliveries::lock_order(&mut tx, merchant, event.trade_no).await?;
    if !events::redeliver(&mut tx, merchant, event.event_id).await? {
        return Err(Refusal::WebhookUrlMissing.into());
    }
    let redelivered = find_with_deliveries(&mut tx, merchant, id).await?;
    tx.commit().await.map_err(DbError::from)?;
    gateway.wake_delivery();
    Ok(redelivered)
}
