//! `/v1/orders` (contract, section 2).

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;

use crate::db::{PgConnection, orders as table};
use crate::domain::json::fields;
use crate::domain::payment::number::MerchantNumber;
use crate::domain::payment::order::{Order, OrderContent, OrderStatus};
use crate::domain::view::View;
use crate::http::error::ApiError;
use crate::http::extract::{Caller, Number, Write};
use crate::http::{Shared, envelope, list};
use crate::service::orders::{self, CloseOrder, CreateOrder};

/// `POST /v1/orders`
pub(super) async fn create(State(gateway): State<Shared>, write: Write) -> Result<Response, ApiError> {
    let (content, ignored) = write.parse(|object| OrderContent::from_json(object, gateway.notify_policy));
    let merchant = write.merchant();
    write.execute(gateway, content.map(|content| CreateOrder { merchant, content }), &ignored).await
}

/// `GET /v1/orders/{no}`
pub(super) async fn show(
    State(gateway): State<Shared>,
    caller: Caller,
    Number(no): Number,
) -> Result<Response, ApiError> {
    let order = orders::look_up(&gateway, caller.merchant, no).await?;
    Ok(envelope::ok(caller.request_id, order.view(&gateway.public_url)))
}

/// `POST /v1/orders/{no}/close`
pub(super) async fn close(
    State(gateway): State<Shared>,
    Number(no): Number,
    write: Write,
) -> Result<Response, ApiError> {
    let (nothing, ignored) = write.parse_nothing();
    let (merchant, public_url) = (write.merchant(), gateway.public_url.clone());
    let work = nothing.map(|()| CloseOrder { merchant, no, public_url });
    write.execute(gateway, work, &ignored).await
}

/// The filters of `GET /v1/orders`.
struct Filters {
    out_trade_no: Option<MerchantNumber>,
    status: Option<OrderStatus>,
}

/// `GET /v1/orders`
pub(super) async fn list(
    State(gateway): State<Shared>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, ApiError> {
    let (cursor, filters, ignored) = list::parse(&uri, |fields| Filters {
        out_trade_no: fields.optional("out_trade_no", MerchantNumber::from_json),
        status: fields.optional("status", fields::code),
    })?;
    let mut conn = gateway.db.acquire().await?;
    let rows = find_all(&mut conn, caller, &cursor, &filters).await?;
    let views = rows.iter().map(|order| order.view(&gateway.public_url)).collect();
    Ok(cursor.answer(caller, views, &ignored))
}

async fn find_all(
    conn: &mut PgConnection,
    caller: Caller,
    cursor: &list::Cursor,
    filters: &Filters,
) -> Result<Vec<Order>, ApiError> {
    let merchant = caller.merchant;
    let before = match &cursor.starting_after {
        Some(no) => {
            let order = table::by_any_no(conn, merchant, no).await?;
            Some(order.ok_or_else(|| list::no_such_item("orders"))?.trade_no)
        }
        None => None,
    };
    let Some(number) = &filters.out_trade_no else {
        return Ok(table::list(conn, merchant, before, filters.status, cursor.rows()).await?);
    };
    // A number has at most one order. The other filters then apply to it.
    let order = table::by_out_trade_no(conn, merchant, number).await?;
    let fits = |order: &Order| {
        filters.status.is_none_or(|status| status == order.status)
            && before.is_none_or(|before| order.trade_no < before)
    };
    Ok(order.into_iter().filter(fits).collect())
}
