//! `/sandbox/orders`: paying without a browser (contract, section 5).

use axum::extract::State;
use axum::response::Response;

use crate::domain::card::{self, CardError};
use crate::domain::fields::Fields;
use crate::domain::refusal::Refusal;
use crate::domain::view::View;
use crate::http::error::ApiError;
use crate::http::extract::{JsonCall, Number};
use crate::http::{Shared, respond};
use crate::service::payments::{self, Authentication};

/// `POST /sandbox/orders/{no}/pay`
pub(in crate::http) async fn pay(
    State(gateway): State<Shared>,
    Number(no): Number,
    call: JsonCall,
) -> Result<Response, ApiError> {
    let mut fields = Fields::new(call.object?);
    let card = fields.required("card", |value| Ok(card::from_json(value)));
    let authentication = fields.optional("authenticate", |value| {
        let known = value.as_str().and_then(Authentication::from_code);
        known.ok_or_else(|| "must be \"authorised\" or \"failed\"".to_owned())
    });
    let parsed = fields.finish(|| card);
    let card = parsed.content.map_err(Refusal::Fields)?.map_err(|error| match error {
        CardError::Invalid => Refusal::InvalidCardNumber,
        CardError::NotATestCard => Refusal::TestCardRequired,
    })?;
    let order = payments::pay(&gateway, call.caller.merchant, &no, card, authentication).await?;
    let mut response = respond::ok(call.caller.request_id, order.view(&gateway.public_url));
    respond::name_ignored(&mut response, &parsed.ignored);
    Ok(response)
}
