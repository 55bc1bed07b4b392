//! Empties a merchant, however much it holds, without stopping others (contract, section 7).

use super::Gateway;
use crate::db::DbError;
use crate::db::reset::{self, Gone, Table};
use crate::domain::id::MerchantId;

/// How many rows go at once. Fewer would take longer; more would let others wait on the one connection of
/// the embedded database.
const BATCH: u32 = 2000;

/// Empties a merchant, whose clock shows real time again, and tells what is gone. What calls write that
/// arrive meanwhile may stay.
///
/// # Errors
/// Those of the database; then some may be gone, and the next call goes on.
pub async fn reset(gateway: &Gateway, merchant: MerchantId) -> Result<Gone, DbError> {
    gateway.journal.flush(None).await;
    let mut gone = Gone::default();
    for table in Table::ALL {
        let count = table.count(&mut gone);
        loop {
            // Back to the pool after each batch.
            let mut conn = gateway.db.acquire().await?;
            let batch = reset::delete_some(&mut conn, table, merchant, BATCH.into()).await?;
            *count += batch;
            if batch < BATCH.into() {
                break;
            }
        }
    }
    reset::reset_settings(&mut *gateway.db.acquire().await?, merchant).await?;
    Ok(gone)
}
