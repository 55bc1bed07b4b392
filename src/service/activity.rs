//! When merchants have called last: noted in memory with each call and written by a worker from time to time, so that
//! merchants whose keys nobody uses any more can be forgotten (`--forget-after`).

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{Gateway, reset};
use crate::db::{DbError, merchants};
use crate::domain::id::MerchantId;

/// How exact the time of a merchant's last call is. For a merchant that calls all the time, it is written this often.
const GRAIN: Duration = Duration::from_hours(1);
/// How many merchants are remembered as noted. Beyond this, they are noted again.
const REMEMBERED: usize = 10_000;
/// How many merchants are forgotten at once.
const FORGOTTEN: i64 = 16;

/// The merchants that have called.
#[derive(Debug, Default)]
pub struct Activity(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    noted: HashMap<MerchantId, Instant>,
    unwritten: HashSet<MerchantId>,
}

impl Activity {
    /// Notes a call of a merchant.
    pub fn note(&self, merchant: MerchantId) {
        let Ok(mut calls) = self.0.lock() else { return };
        if calls.noted.get(&merchant).is_some_and(|at| at.elapsed() < GRAIN) {
            return;
        }
        if calls.noted.len() >= REMEMBERED {
            calls.noted.clear();
        }
        calls.noted.insert(merchant, Instant::now());
        calls.unwritten.insert(merchant);
    }

    fn take(&self) -> Vec<MerchantId> {
        self.0.lock().map(|mut calls| calls.unwritten.drain().collect()).unwrap_or_default()
    }

    fn put_back(&self, merchants: Vec<MerchantId>) {
        if let Ok(mut calls) = self.0.lock() {
            calls.unwritten.extend(merchants);
        }
    }
}

/// Writes which merchants have called.
///
/// # Errors
/// Those of the database; then the times are written the next time.
pub async fn write(gateway: &Gateway) -> Result<(), DbError> {
    let merchants = gateway.activity.take();
    let written = write_all(gateway, &merchants).await;
    if written.is_err() {
        gateway.activity.put_back(merchants);
    }
    written
}

async fn write_all(gateway: &Gateway, merchants: &[MerchantId]) -> Result<(), DbError> {
    let ago = GRAIN.try_into().unwrap_or(time::Duration::HOUR);
    for some in merchants.chunks(1000) {
        let stale = merchants::called_before(&mut *gateway.db.acquire().await?, some, ago).await?;
        for merchant in stale {
            merchants::called(&mut *gateway.db.acquire().await?, merchant).await?;
        }
    }
    Ok(())
}

/// Empties and forgets the merchants without a call for so long.
pub async fn forget(gateway: &Gateway, after: time::Duration) -> Result<(), DbError> {
    loop {
        let merchants = merchants::forgotten(&mut *gateway.db.acquire().await?, after, FORGOTTEN).await?;
        if merchants.is_empty() {
            return Ok(());
        }
        for merchant in merchants {
            reset::forget(gateway, merchant, after).await?;
            tracing::info!(merchant = %merchant.uuid(), "forgotten: it has not called for long");
        }
    }
}
