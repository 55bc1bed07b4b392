//! Does what the merchants' clocks say is due: closes orders whose time is over, settles refunds.

use crate::db::DbError;
use crate::service::{Gateway, clock};

/// Does all that is due now.
pub(super) async fn run_once(gateway: &Gateway) -> Result<(), DbError> {
    clock::catch_up(gateway).await
}
