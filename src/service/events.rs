//! Events for their merchant: an event with its attempts, and sending it again (contract, section 7). Lists are
//! left to the handler.

use super::{Gateway, WorkError};
use crate::db::{PgConnection, Tx, deliveries, events};
use crate::domain::id::MerchantId;
use crate::domain::refusal::Refusal;
use crate::domain::webhook::delivery::{Delivery, StoredEvent};

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

/// Sends an event again, whatever its status, and begins its schedule anew. An attempt in flight is still recorded
/// but no longer changes the status.
///
/// # Errors
/// [`Refusal::EventNotFound`], [`Refusal::WebhookUrlMissing`], or those of the database.
pub async fn redeliver(
    gateway: &Gateway,
    merchant: MerchantId,
    id: &str,
) -> Result<(StoredEvent, Vec<Delivery>), WorkError> {
    let mut conn = gateway.db.acquire().await?;
    let mut tx = Tx::begin(&mut conn, merchant).await?;
    let event = find(&mut tx, merchant, id).await?;
    if !events::redeliver(&mut tx, event.event_id, event.trade_no).await? {
        return Err(Refusal::WebhookUrlMissing.into());
    }
    let redelivered = find_with_deliveries(&mut tx, merchant, id).await?;
    gateway.commit(tx).await?;
    Ok(redelivered)
}
