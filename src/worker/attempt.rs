//! One attempt to deliver an event: its signature, its POST, and its record. No connection to the database is held
//! during the POST; the record waits for one as long as the lease lasts.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use time::OffsetDateTime;

use super::post::Sender;
use crate::db::DbError;
use crate::db::deliveries::{DeliveryAttempt, EndedAttempts};
use crate::db::leases::{Lease, Taken};
use crate::domain::code::Code;
use crate::domain::fault::delivery::{DeliveryEffect, Signer};
use crate::domain::masking;
use crate::domain::webhook::delivery::AttemptOutcome;
use crate::domain::webhook::settings::WebhookSecret;
use crate::domain::webhook::signature;
use crate::service::{Gateway, delivery};

/// What signs where a signature is to fit nothing.
const NOBODYS_SECRET: &str = "whsec_of_nobody";

/// How soon a record is tried again while the database is away or busy.
const RETRY: Duration = Duration::from_millis(200);

/// What came of a lease, to be recorded.
pub(super) struct Ended {
    lease: Lease,
    lease_ends: Instant,
    /// `None` if there is no URL any more.
    attempts: Option<Arc<EndedAttempts>>,
}

/// Sends an event that was taken at `now`, the merchant's time, under a lease that ends at `lease_ends`.
pub(super) async fn send(sender: &Sender, taken: &Taken, now: OffsetDateTime, lease_ends: Instant) -> Ended {
    let lease = taken.lease;
    let Some(url) = &taken.url else { return Ended { lease, lease_ends, attempts: None } };
    let effect = DeliveryEffect::of(taken.fault);
    let mut attempts = vec![attempt(sender, taken, effect, url, now).await];
    for _ in 0..effect.further_posts() {
        attempts.push(attempt(sender, taken, effect, url, now).await);
    }
    let (retries, fault, url) = (taken.retries, taken.fault, masking::text(url).into_owned());
    let attempts = Some(Arc::new(EndedAttempts { lease, retries, fault, url, attempts }));
    Ended { lease, lease_ends, attempts }
}

/// Records what came of a lease before it ends. Where that fails, the event is sent again.
pub(super) async fn record(gateway: &Gateway, Ended { lease, lease_ends, attempts }: Ended) {
    let recorded = match &attempts {
        Some(attempts) => until(lease_ends, || delivery::record(gateway, attempts)).await,
        None => until(lease_ends, || delivery::give_up(gateway, &lease)).await,
    };
    if let Err(error) = recorded {
        tracing::warn!(event = %lease.event_id, %error, "sent again when its lease is over");
    }
}

/// Tries a write again while the database is away, or no connection comes free.
async fn until<F>(lease_ends: Instant, write: impl Fn() -> F) -> Result<(), DbError>
where
    F: Future<Output = Result<(), DbError>>,
{
    loop {
        match write().await {
            // Nothing of the event is left.
            Err(DbError::Emptying) => return Ok(()),
            Err(DbError::Unavailable(_)) if Instant::now() + RETRY < lease_ends => {}
            result => return result,
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn attempt(
    sender: &Sender,
    taken: &Taken,
    effect: DeliveryEffect,
    url: &str,
    at: OffsetDateTime,
) -> DeliveryAttempt {
    let signature = sign(taken, effect);
    let outcome = if effect.is_sent() {
        sender.post(url, taken.lease.event_id, &signature, &taken.payload).await
    } else {
        AttemptOutcome::lost()
    };
    tracing::info!(
        event = %taken.lease.event_id,
        event_type = taken.event_type.code(),
        fault = taken.fault.map(|fault| fault.kind()),
        status = outcome.status,
        error = outcome.error,
        duration_ms = outcome.duration_ms,
        "webhook sent"
    );
    DeliveryAttempt { at, signature, outcome }
}

/// The signature of an attempt, at this moment.
fn sign(taken: &Taken, effect: DeliveryEffect) -> String {
    let secrets = [Some(&taken.secret), taken.previous_secret.as_ref()].into_iter().flatten();
    let secrets = secrets.map(|secret| match effect.signer {
        Signer::Merchant => WebhookSecret::as_str(secret),
        Signer::Nobody => NOBODYS_SECRET,
    });
    // Real time, whatever the merchant's clock says: receivers refuse a timestamp that is far off.
    let timestamp = OffsetDateTime::now_utc().unix_timestamp() - effect.signed_ago;
    signature::header(&secrets.collect::<Vec<_>>(), timestamp, taken.payload.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn busy() -> DbError {
        DbError::Unavailable(sqlx::Error::PoolTimedOut)
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_is_tried_until_there_is_a_connection() {
        let tries = Cell::new(0);
        let write = || {
            tries.set(tries.get() + 1);
            std::future::ready(if tries.get() < 4 { Err(busy()) } else { Ok(()) })
        };
        until(Instant::now() + Duration::from_secs(23), write).await.unwrap();
        assert_eq!(tries.get(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_is_given_up_with_its_lease_and_one_that_is_refused_at_once() {
        let over = until(Instant::now(), || std::future::ready(Err(busy()))).await;
        assert!(matches!(over, Err(DbError::Unavailable(_))));
        let later = Instant::now() + Duration::from_secs(23);
        let refused = until(later, || std::future::ready(Err(DbError::Corrupt("row")))).await;
        assert!(matches!(refused, Err(DbError::Corrupt("row"))));
        assert!(until(later, || std::future::ready(Err(DbError::Emptying))).await.is_ok());
    }
}
