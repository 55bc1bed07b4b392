//! Webhook settings and the test callback (contract, sections 6 and 7).

use super::{Gateway, WorkError};
use crate::db::{Connection, DbError, events, merchants};
use crate::domain::delivery::StoredEvent;
use crate::domain::event::Event;
use crate::domain::id::MerchantId;
use crate::domain::refusal::Refusal;
use crate::domain::webhook::{Rotation, SettingsChange, WebhookSettings};

/// A merchant's webhook settings. A merchant has a secret from the start.
///
/// # Errors
/// Those of the database.
pub async fn settings(gateway: &Gateway, merchant: MerchantId) -> Result<WebhookSettings, DbError> {
    let mut conn = gateway.db.acquire().await?;
    merchants::open(&mut conn, merchant).await?;
    merchants::webhook(&mut conn, merchant).await
}

/// Changes the settings.
///
/// # Errors
/// Those of the database.
pub async fn change(
    gateway: &Gateway,
    merchant: MerchantId,
    change: &SettingsChange,
) -> Result<WebhookSettings, DbError> {
    let mut conn = gateway.db.acquire().await?;
    merchants::open(&mut conn, merchant).await?;
    merchants::set_webhook(&mut conn, merchant, change).await
}

/// Gives a merchant a new secret; for a while, the old one signs too.
///
/// # Errors
/// Those of the database.
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
    let now = merchants::open(&mut conn, merchant).await?;
    if merchants::webhook(&mut conn, merchant).await?.url.is_none() {
        return Err(Refusal::WebhookUrlMissing.into());
    }
    let event = Event::test_callback(merchant, &gateway.public_url, now);
    let event = event.map_err(|_| DbError::Corrupt("order"))?;
    let mut tx = conn.begin().await.map_err(DbError::from)?;
    events::insert(&mut tx, &event).await?;
    // Read before anybody can send it.
    let stored = events::by_id(&mut tx, merchant, event.event_id).await?;
    tx.commit().await.map_err(DbError::from)?;
    gateway.wake_delivery();
    Ok(stored.ok_or(DbError::Corrupt("event"))?)
}
