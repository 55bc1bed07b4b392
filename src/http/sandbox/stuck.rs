//! `/sandbox/stuck`: due work that failed and was set aside (contract, section 7).

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use uuid::Uuid;

use crate::db::stuck;
use crate::domain::view::View;
use crate::http::error::ApiError;
use crate::http::extract::Caller;
use crate::http::{Shared, list};

/// `GET /sandbox/stuck`
pub(super) async fn list(
    State(gateway): State<Shared>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, ApiError> {
    let (cursor, (), ignored) = list::parse(&uri, |_| ())?;
    let before = cursor.starting_after.as_deref().map(uuid_of).transpose()?;
    let mut conn = gateway.db.acquire().await?;
    let rows = stuck::list(&mut conn, caller.merchant, before, cursor.rows()).await?;
    let views = rows.iter().map(|row| row.view("")).collect();
    Ok(cursor.answer(caller, views, &ignored))
}

/// One list holds ids of orders, refunds and events.
fn uuid_of(id: &str) -> Result<Uuid, ApiError> {
    let hex = id.split_once('_').map(|(_, hex)| hex);
    hex.and_then(|hex| Uuid::try_parse(hex).ok()).ok_or_else(|| list::no_such_item("stuck items"))
}
