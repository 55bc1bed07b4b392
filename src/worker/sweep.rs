//! Deletes idempotency keys whose hours are over, merchant by merchant, in small batches between which
//! the connection goes back to the pool.

use crate::db::{DbError, idempotency_keys, merchants};
use crate::domain::id::MerchantId;
use crate::domain::idempotency::KEPT_HOURS;
use crate::service::Gateway;

const MERCHANTS: i64 = 100;
const KEYS: i64 = 500;

/// Sweeps every merchant once.
pub(super) async fn run_once(gateway: &Gateway) -> Result<(), DbError> {
    let mut last = None;
    loop {
        let next = merchants::after(&mut *gateway.db.acquire().await?, last, MERCHANTS).await?;
        for merchant in &next {
            sweep(gateway, *merchant).await?;
        }
        match next.last() {
            Some(merchant) => last = Some(*merchant),
            None => return Ok(()),
        }
    }
}

async fn sweep(gateway: &Gateway, merchant: MerchantId) -> Result<(), DbError> {
    loop {
        let mut conn = gateway.db.acquire().await?;
        let swept = idempotency_keys::sweep(&mut conn, merchant, KEPT_HOURS, KEYS).await?;
        if swept < KEYS as u64 {
            return Ok(());
        }
    }
}
