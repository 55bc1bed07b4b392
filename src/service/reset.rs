//! Empties a merchant, however much it holds, without stopping others (contract, section 7). A reset is a line in
//! time: work that began before it is deleted with the rest or writes nothing; calls after it find an empty
//! merchant. If one transaction is not enough, the merchant is `emptying` until the last one has committed:
//! meanwhile its calls get a 503, and a worker goes on if this process ends.

use strum::VariantArray;
use time::Duration;

use super::Gateway;
use crate::db::DbError;
use crate::db::merchants::Alone;
use crate::db::reset::{self, Deleted, Table};
use crate::domain::id::MerchantId;

/// How many rows of a table are deleted at once. Fewer would take longer in total; more would make others wait longer
/// for the only connection of the embedded database.
const BATCH: u32 = 2000;

/// After how long without progress a worker goes on with emptying a merchant.
const PATIENCE: Duration = Duration::seconds(10);

/// Empties a merchant, and sets its clock back to real time. Returns how many rows were deleted.
///
/// # Errors
/// Those of the database; then some rows may be deleted, and a worker goes on.
pub async fn reset(gateway: &Gateway, merchant: MerchantId) -> Result<Deleted, DbError> {
    // The entries of earlier calls are deleted with the rest of the journal.
    gateway.journal.flush(merchant).await;
    let mut deleted = Deleted::default();
    while !delete_some(gateway, merchant, &mut deleted, None).await? {}
    Ok(deleted)
}

/// Goes on with emptying a merchant, if it still is.
pub(super) async fn go_on(gateway: &Gateway, merchant: MerchantId) -> Result<(), DbError> {
    let is_emptying = {
        let mut conn = gateway.db.acquire().await?;
        Alone::begin(&mut conn, merchant).await?.is_emptying().await?
    };
    while is_emptying && !delete_some(gateway, merchant, &mut Deleted::default(), None).await? {}
    Ok(())
}

/// Empties a merchant and forgets it, unless it has called within this time.
pub(super) async fn forget(gateway: &Gateway, merchant: MerchantId, after: Duration) -> Result<(), DbError> {
    while !delete_some(gateway, merchant, &mut Deleted::default(), Some(after)).await? {}
    Ok(())
}

/// Deletes a batch of each table in one transaction. Returns whether nothing is left.
async fn delete_some(
    gateway: &Gateway,
    merchant: MerchantId,
    deleted: &mut Deleted,
    forget_after: Option<Duration>,
) -> Result<bool, DbError> {
    let mut conn = gateway.db.acquire().await?;
    let mut alone = Alone::begin(&mut conn, merchant).await?;
    if let Some(after) = forget_after
        && !alone.is_forgotten(after).await?
    {
        return Ok(true);
    }
    let mut left = false;
    for &table in Table::VARIANTS {
        let rows = reset::delete_some(&mut alone, table, BATCH.into()).await?;
        table.add_to(deleted, rows);
        left |= rows >= BATCH.into();
    }
    alone.set_emptying(left, PATIENCE).await?;
    if !left && forget_after.is_some() {
        alone.delete().await?;
    }
    alone.commit().await?;
    Ok(!left)
}
