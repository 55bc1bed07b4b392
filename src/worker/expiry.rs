//! Closes the orders whose time is over.

use crate::db::DbError;
use crate::service::{Gateway, orders};

/// Closes all that is due now, in batches.
pub(super) async fn run_once(gateway: &Gateway) -> Result<(), DbError> {
    while orders::expire_due(gateway).await? {}
    Ok(())
}
