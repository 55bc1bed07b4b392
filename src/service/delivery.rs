//! Delivery, as far as the database is concerned: which events are sent now, under which faults, and the outcome.
//! Each step is a short transaction of one merchant; no connection is held while the receiver answers.

use std::sync::Arc;
use std::time::Instant;

use time::Duration;

use super::combine::Ask;
use super::{Gateway, faults};
use crate::db::deliveries::{self, EndedAttempts};
use crate::db::leases::{self, Capacity, Lease, LeaseHolder, Taken, Unreadable};
use crate::db::{Committed, DbError, PgConnection, Tx, stuck};
use crate::domain::fault::delivery::DeliveryEffect;
use crate::domain::fault::occasion::Occasion;
use crate::domain::id::MerchantId;
use crate::domain::stuck::StuckKind;
use crate::domain::webhook::delivery::EventStatus;

/// What was taken of a merchant.
#[derive(Debug)]
pub struct Haul {
    /// Each is to be sent.
    pub taken: Vec<Taken>,
    /// Whether more may be due that exceeded the capacity.
    pub is_full: bool,
    /// The merchant's time.
    pub now: time::OffsetDateTime,
    /// When it was taken, as far as leases are concerned.
    pub since: Instant,
}

impl Haul {
    /// When the lease of an event is over.
    #[must_use]
    pub fn lease_ends(&self, taken: &Taken) -> Instant {
        let further = DeliveryEffect::of(taken.fault).further_posts();
        self.since + leases::duration(further).unsigned_abs()
    }
}

/// At most `limit` merchants that may have an event due now, without those that are resting.
pub async fn due(gateway: &Gateway, resting: &[MerchantId], limit: i64) -> Result<Vec<MerchantId>, DbError> {
    leases::due(&mut *gateway.db.acquire().await?, resting, limit).await
}

/// Takes due events of a merchant for this process to send, each with the fault that strikes it. Events that a fault
/// postpones are not among them, nor are unreadable ones, which are set aside.
///
/// # Errors
/// Those of the database; then nothing was taken, and no fault has struck.
pub async fn take(
    gateway: &Gateway,
    merchant: MerchantId,
    lease_holder: LeaseHolder,
    capacity: &Capacity,
) -> Result<Haul, DbError> {
    let since = Instant::now();
    let mut conn = gateway.db.acquire().await?;
    let mut tx = Tx::begin_impatient(&mut conn, merchant).await?;
    let now = tx.now();
    let rows = leases::take(&mut tx, lease_holder, capacity).await?;
    let is_full = i64::try_from(rows.len()).is_ok_and(|count| count >= capacity.in_all);
    let (mut taken, mut unreadable) = (Vec::new(), Vec::new());
    for row in rows {
        match row {
            Ok(event) => taken.push(event),
            Err(event) => unreadable.push(event),
        }
    }
    let taken = decide_faults(gateway, &mut tx, taken).await?;
    gateway.commit(tx).await?;
    drop(conn);
    for event in unreadable {
        if let Err(error) = set_aside(gateway, &event).await {
            tracing::warn!(event = %event.lease.event_id, %error, "set aside when its lease is over");
        }
    }
    Ok(Haul { taken, is_full, now, since })
}

/// Decides which fault strikes each attempt. An attempt that was interrupted or postponed keeps its fault. Returns
/// the attempts to make now.
async fn decide_faults(gateway: &Gateway, tx: &mut Tx<'_>, taken: Vec<Taken>) -> Result<Vec<Taken>, DbError> {
    let is_open = |event: &Taken| event.fault.is_none() && event.url.is_some();
    for event in &taken {
        // Its lease is new and long enough for one post.
        if let Some(fault) = event.fault.filter(|fault| fault.effect().further_posts() > 0) {
            leases::strike(tx, &event.lease, fault).await?;
        }
    }
    if !taken.iter().any(is_open) {
        return Ok(taken);
    }
    let rules = faults::lock_for_deliveries(gateway, tx).await?;
    let mut to_send = Vec::with_capacity(taken.len());
    for mut event in taken {
        if !rules.is_empty() && is_open(&event) {
            let occasion = Occasion::of_event(event.event_type, &event.payload);
            if let Some(fault) = faults::strike_delivery(tx, &rules, &occasion, !event.delayed).await? {
                let effect = fault.effect();
                if effect.strikes_attempt() {
                    leases::strike(tx, &event.lease, fault).await?;
                    event.fault = Some(fault);
                }
                if let Some(delay) = effect.postponed {
                    let delay = Duration::try_from(delay).unwrap_or(Duration::DAY);
                    leases::postpone(tx, &event.lease, delay).await?;
                    continue;
                }
            }
        }
        to_send.push(event);
    }
    Ok(to_send)
}

/// Sets an unreadable event aside, and logs that once. Its delivery has failed, and the next event of its order
/// waits no longer, as if the schedule were used up.
async fn set_aside(gateway: &Gateway, Unreadable { lease, cause }: &Unreadable) -> Result<(), DbError> {
    let mut conn = gateway.db.acquire().await?;
    let mut tx = Tx::begin_impatient(&mut conn, lease.merchant).await?;
    deliveries::end(&mut tx, lease, EventStatus::Failed).await?;
    stuck::insert(&mut tx, StuckKind::Event, lease.event_id.uuid(), &cause.to_string()).await?;
    gateway.commit(tx).await?;
    tracing::error!(event = %lease.event_id, %cause, "set aside: it cannot be sent");
    Ok(())
}

/// Sets when a merchant has an event due again. Returns false if that is now.
pub async fn raise(
    gateway: &Gateway,
    merchant: MerchantId,
    lease_holder: LeaseHolder,
) -> Result<bool, DbError> {
    leases::raise(&mut *gateway.db.acquire().await?, merchant, lease_holder).await
}

/// Attempts that end at the same time are recorded together.
impl Ask for Arc<EndedAttempts> {
    type Outcome = Committed;

    async fn ask_all(
        conn: &mut PgConnection,
        merchant: MerchantId,
        batch: &[Self],
    ) -> Result<Vec<Committed>, DbError> {
        let mut tx = Tx::begin_impatient(conn, merchant).await?;
        deliveries::record(&mut tx, batch.iter().map(AsRef::as_ref)).await?;
        Ok(vec![tx.commit().await?; batch.len()])
    }
}

/// Records the attempts under one lease, and what follows from the first one for the event.
///
/// # Errors
/// Those of the database; then the event is sent again when its lease is over.
pub async fn record(gateway: &Gateway, ended: &Arc<EndedAttempts>) -> Result<(), DbError> {
    let committed = gateway.ended_attempts.ask(ended.lease.merchant, Arc::clone(ended)).await?;
    gateway.after(committed);
    Ok(())
}

/// Ends the delivery of an event that has no URL any more.
///
/// # Errors
/// Those of the database; then the delivery tries again when its lease is over.
pub async fn give_up(gateway: &Gateway, lease: &Lease) -> Result<(), DbError> {
    let mut conn = gateway.db.acquire().await?;
    let mut tx = Tx::begin_impatient(&mut conn, lease.merchant).await?;
    deliveries::end(&mut tx, lease, EventStatus::NoUrl).await?;
    gateway.commit(tx).await
}
