//! `/sandbox/events`: the events and their deliveries (contract, section 7).

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;

use crate::db::events::{self as table, Filters};
use crate::db::{PgConnection, orders};
use crate::domain::json::fields;
use crate::domain::payment::number::MerchantNumber;
use crate::domain::webhook::delivery::StoredEvent;
use crate::http::error::ApiError;
use crate::http::extract::{Caller, JsonCall, Number};
use crate::http::{Shared, envelope, list};
use crate::service::events;

/// `GET /sandbox/events/{id}`
pub(super) async fn show(
    State(gateway): State<Shared>,
    caller: Caller,
    Number(id): Number,
) -> Result<Response, ApiError> {
    let mut conn = gateway.db.acquire().await?;
    let (event, deliveries) = events::find_with_deliveries(&mut conn, caller.merchant, &id).await?;
    Ok(envelope::ok(caller.request_id, event.detail(&deliveries)))
}

/// `POST /sandbox/events/{id}/redeliver`
pub(super) async fn redeliver(
    State(gateway): State<Shared>,
    Number(id): Number,
    call: JsonCall,
) -> Result<Response, ApiError> {
    let caller = call.caller;
    let ignored: Vec<_> = call.object_or_empty()?.into_iter().map(|(name, _)| name).collect();
    let (event, deliveries) = events::redeliver(&gateway, caller.merchant, &id).await?;
    let mut response = envelope::ok(caller.request_id, event.detail(&deliveries));
    envelope::name_ignored(&mut response, &ignored);
    Ok(response)
}

/// The order that a filter names.
enum OrderFilter {
    TradeNo(String),
    OutTradeNo(MerchantNumber),
}

/// `GET /sandbox/events`
pub(super) async fn list(
    State(gateway): State<Shared>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, ApiError> {
    let (cursor, (filters, orders), ignored) = list::parse(&uri, |fields| {
        let filters = Filters {
            event_type: fields.optional("type", fields::code),
            status: fields.optional("status", fields::code),
            trade_no: None,
        };
        let trade_no = fields.optional("trade_no", list::text).map(OrderFilter::TradeNo);
        let number = fields.optional("out_trade_no", MerchantNumber::from_json).map(OrderFilter::OutTradeNo);
        (filters, [trade_no, number])
    })?;
    let mut conn = gateway.db.acquire().await?;
    let rows = find_all(&mut conn, caller, &cursor, filters, orders).await?;
    let views = rows.iter().map(StoredEvent::summary).collect();
    Ok(cursor.answer(caller, views, &ignored))
}

async fn find_all(
    conn: &mut PgConnection,
    caller: Caller,
    cursor: &list::Cursor,
    mut filters: Filters,
    wanted: [Option<OrderFilter>; 2],
) -> Result<Vec<StoredEvent>, ApiError> {
    let merchant = caller.merchant;
    let before = match &cursor.starting_after {
        Some(id) => {
            let event = match id.parse() {
                Ok(event_id) => table::by_id(conn, merchant, event_id).await?,
                Err(_) => None,
            };
            Some(event.ok_or_else(|| list::no_such_item("events"))?.event_id)
        }
        None => None,
    };
    for wanted in wanted.into_iter().flatten() {
        let order = match wanted {
            OrderFilter::TradeNo(text) => match text.parse() {
                Ok(trade_no) => orders::by_trade_no(conn, merchant, trade_no).await?,
                Err(_) => None,
            },
            OrderFilter::OutTradeNo(number) => orders::by_out_trade_no(conn, merchant, &number).await?,
        };
        // No such order, or two: neither has events.
        match order.map(|order| order.trade_no) {
            Some(trade_no) if filters.trade_no.is_none_or(|other| other == trade_no) => {
                filters.trade_no = Some(trade_no);
            }
            _ => return Ok(Vec::new()),
        }
    }
    Ok(table::list(conn, merchant, before, &filters, cursor.rows()).await?)
}
