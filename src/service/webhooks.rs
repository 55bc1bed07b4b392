//! Webhook settings and the test callback (contract, sections 6 and 7).

use super::{Gateway, WorkError};
use crate::db::{DbError, Tx, events, merchants};
use crate::domain::id::MerchantId;
use crate::domain::refusal::Refusal;
use crate::domain::webhook::delivery::StoredEvent;
use crate::domain::webhook::event::Event;
use crate::domain::webhook::settings::{Rotation, SettingsChange, WebhookSettings};

/// A merchant's webhook settings. A merchant has a secret from the start.
pub async fn settings(gateway: &Gateway, merchant: MerchantId) -> Result<WebhookSettings, DbError> {
    let mut conn = gateway.db.acquire().await?;
    merchants::open(&mut conn, merchant).await?;
    merchants::webhook(&mut conn, merchant).await
}

/// Changes the settings.
pub async fn change(
    gateway: &Gateway,
    merchant: MerchantId,
    change: &SettingsChange,
) -> Result<WebhookSettings, DbError> {
    let mut conn = gateway.db.acquire().await?;
    merchants::open(&mut conn, merchant).await?;
    merchants::set_webhook(&mut conn, merchant, change).await
}

/// Gives a merchant a new secret. For a while, the old one signs, too.
pub async fn rotate(
    gateway: &Gateway,
    merchant: MerchantId,
    rotation: &Rotation,
) -> Result<WebhookSettings, DbError> {
    let mut conn = gateway.db.acquire().await?;
    merchants::open(&mut conn, merchant).await?;
    merchants::rotate_secret(&mut conn, merchant, rotation).await
}

/// Sends the test callback to the merchant's URL.
///
/// # Errors
/// [`Refusal::WebhookUrlMissing`], or those of the database.
pub async fn test(gateway: &Gateway, merchant: MerchantId) -> Result<StoredEvent, WorkError> {
    let mut conn = gateway.db.acquire().await?;
    let mut tx = Tx::begin(&mut conn, merchant).await?;
    if merchants::webhook(&mut tx, merchant).await?.url.is_none() {
        return Err(Refusal::WebhookUrlMissing.into());
    }
    let event = Event::test_callback(merchant, &gateway.public_url, tx.now());
    let event = event.map_err(|_| DbError::Corrupt("order"))?;
    events::insert(&mut tx, None, &event).await?;
    // Read before the delivery can send it.
    let stored = events::by_id(&mut tx, merchant, event.event_id).await?;
    gateway.commit(tx).await?;
    Ok(stored.ok_or(DbError::Corrupt("event"))?)
}
