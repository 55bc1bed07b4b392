//! `/sandbox/orders`: paying without a browser (contract, section 5).

use axum::extract::State;
use axum::response::Response;

use crate::domain::json::fields::{self, Fields};
use crate::domain::payment::card::{self, CardError};
use crate::domain::refusal::Refusal;
use crate::domain::view::View;
use crate::http::error::ApiError;
use crate::http::extract::{JsonCall, Number};
use crate::http::{Shared, envelope};
use crate::service::payments;

/// `POST /sandbox/orders/{no}/pay`
pub(super) async fn pay(
    State(gateway): State<Shared>,
    Number(no): Number,
    call: JsonCall,
) -> Result<Response, ApiError> {
    let mut fields = Fields::new(call.object?);
    let card = fields.required("card", |value| Ok(card::from_json(value)));
    let authentication = fields.optional("authenticate", fields::code);
    let parsed = fields.finish(|| card);
    let card = parsed.content.map_err(Refusal::Fields)?.map_err(|error| match error {
        CardError::Invalid => Refusal::InvalidCardNumber,
        CardError::NotATestCard => Refusal::TestCardRequired,
    })?;
    let order = payments::pay(&gateway, call.caller.merchant, &no, card, authentication).await?;
    let mut response = envelope::ok(call.caller.request_id, order.view(&gateway.public_url));
    envelope::name_ignored(&mut response, &parsed.ignored);
    Ok(response)
}
