//! `/v1/refunds` (contract, section 3).

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;

use crate::db::{PgConnection, orders, refunds as table};
use crate::domain::payment::number::MerchantNumber;
use crate::domain::payment::refund::{Refund, RefundContent};
use crate::domain::view::View;
use crate::http::error::ApiError;
use crate::http::extract::{Caller, Number, Write};
use crate::http::{Shared, envelope, list};
use crate::service::refunds::{self, CreateRefund};

/// `POST /v1/refunds`
pub(super) async fn create(State(gateway): State<Shared>, write: Write) -> Result<Response, ApiError> {
    let (content, ignored) = write.parse(|object| RefundContent::from_json(object, gateway.notify_policy));
    let public_url = gateway.public_url.clone();
    let work = content.map(|content| CreateRefund { content, public_url });
    write.execute(gateway, work, &ignored).await
}

/// `GET /v1/refunds/{no}`
pub(super) async fn show(
    State(gateway): State<Shared>,
    caller: Caller,
    Number(no): Number,
) -> Result<Response, ApiError> {
    let mut conn = gateway.db.acquire().await?;
    let refund = refunds::find(&mut conn, caller.merchant, &no).await?;
    Ok(envelope::ok(caller.request_id, refund.view(&gateway.public_url)))
}

/// `GET /v1/refunds`
pub(super) async fn list(
    State(gateway): State<Shared>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, ApiError> {
    let (cursor, out_trade_no, ignored) =
        list::parse(&uri, |fields| fields.optional("out_trade_no", MerchantNumber::from_json))?;
    let mut conn = gateway.db.acquire().await?;
    let rows = find_all(&mut conn, caller, &cursor, out_trade_no.as_ref()).await?;
    let views = rows.iter().map(|refund| refund.view(&gateway.public_url)).collect();
    Ok(cursor.answer(caller, views, &ignored))
}

async fn find_all(
    conn: &mut PgConnection,
    caller: Caller,
    cursor: &list::Cursor,
    out_trade_no: Option<&MerchantNumber>,
) -> Result<Vec<Refund>, ApiError> {
    let merchant = caller.merchant;
    let before = match &cursor.starting_after {
        Some(no) => {
            let refund = table::by_any_no(conn, merchant, no).await?;
            Some(refund.ok_or_else(|| list::no_such_item("refunds"))?.refund_no)
        }
        None => None,
    };
    let order = match out_trade_no {
        Some(number) => match orders::by_out_trade_no(conn, merchant, number).await? {
            Some(order) => Some(order.trade_no),
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    Ok(table::list(conn, merchant, order, before, cursor.rows()).await?)
}
