//! The checkout page: what a buyer sees at `checkout_url` (contract, section 5). A page is opened by its
//! token alone; a form is answered by a redirect, so that going back and loading again send nothing twice.
//!
//! - `page`: the pages; `form`: the card form; `texts`: what they say, in two languages

mod form;
mod page;
mod texts;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::error::{ApiError, ErrorBody};
use super::pages::{assets, language};
use super::{Shared, extract};
use crate::domain::code::Code;
use crate::domain::payment::card::{CardOutcome, TestCard};
use crate::domain::payment::checkout::{self, CheckoutState};
use crate::domain::payment::checkout_token::CheckoutToken;
use crate::domain::payment::order::Order;
use crate::domain::refusal::Refusal;
use crate::service::WorkError;
use crate::service::checkout::{self as service, Checkout};
use crate::service::payments::Authentication;
use form::CardForm;
use texts::Texts;

/// The routes under `/checkout`.
pub(super) fn router() -> Router<Shared> {
    Router::new()
        .route("/checkout/{token}", get(show).post(pay))
        .route("/checkout/{token}/authenticate", get(challenge).post(authenticate))
        .route("/checkout/assets/{version}/{file}", get(assets::show))
}

/// The order that a page is about, and the language of the page.
struct Opened {
    checkout: Checkout,
    texts: &'static Texts,
}

impl FromRequestParts<Shared> for Opened {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, gateway: &Shared) -> Result<Self, ApiError> {
        // The same answer for every address that opens nothing: it tells nothing about orders.
        let nothing = || ApiError::EndpointNotFound(String::new());
        let token = Path::<String>::from_request_parts(parts, gateway).await;
        let token: CheckoutToken =
            token.ok().and_then(|Path(token)| token.parse().ok()).ok_or_else(nothing)?;
        let checkout = service::open(gateway, &token).await?.ok_or_else(nothing)?;
        let locale = language::choose(checkout.order.content.locale, &parts.headers);
        Ok(Self { checkout, texts: Texts::of(locale) })
    }
}

/// `GET /checkout/{token}`
async fn show(opened: Opened, uri: Uri) -> Response {
    let Opened { checkout, texts } = opened;
    if let Some(outcome) = texts.outcome(checkout.state()) {
        return page::outcome(texts, &checkout, outcome);
    }
    let form = CardForm::from_query(texts, uri.query().unwrap_or_default(), checkout.now);
    page::pay(texts, &checkout, form)
}

/// `POST /checkout/{token}`
async fn pay(State(gateway): State<Shared>, opened: Opened, body: Body) -> Result<Response, ApiError> {
    let [number, expiry, cvc] = read_form(body, ["number", "expiry", "cvc"]).await?;
    let Checkout { order, now, .. } = opened.checkout;
    let token = CheckoutToken::of(&order);
    match checkout::read_card_form(&number, &expiry, &cvc, now) {
        Err(errors) => Ok(see_other(&format!("{token}?{}", form::query_of(errors)))),
        Ok(card) if card.outcome == CardOutcome::Authentication => {
            Ok(see_other(&format!("{token}/authenticate?card={}", page::card_name(card))))
        }
        Ok(card) => attempt(gateway, &order, card, None, &token.to_string()).await,
    }
}

/// `GET /checkout/{token}/authenticate`
async fn challenge(opened: Opened, uri: Uri) -> Response {
    let Opened { checkout, texts } = opened;
    let mut pairs = form::pairs(uri.query().unwrap_or_default());
    let card = pairs.find(|(name, _)| name == "card").and_then(|(_, name)| form::named(&name));
    match card.filter(|card| card.outcome == CardOutcome::Authentication) {
        Some(card) if matches!(checkout.state(), CheckoutState::Payable(_)) => {
            page::challenge(texts, &checkout, card)
        }
        _ => see_other(&format!("../{}", CheckoutToken::of(&checkout.order))),
    }
}

/// `POST /checkout/{token}/authenticate`
async fn authenticate(
    State(gateway): State<Shared>,
    opened: Opened,
    body: Body,
) -> Result<Response, ApiError> {
    let [card, decision] = read_form(body, ["card", "authenticate"]).await?;
    let order = opened.checkout.order;
    let back = format!("../{}", CheckoutToken::of(&order));
    let card = form::named(&card).filter(|card| card.outcome == CardOutcome::Authentication);
    match (card, Authentication::from_code(&decision)) {
        (Some(card), Some(decision)) => attempt(gateway, &order, card, Some(decision), &back).await,
        _ => Ok(see_other(&back)),
    }
}

/// Attempts to pay. If the order is paid, by this attempt or an earlier one, the buyer goes to the shop; if not, back
/// to the order's page, which shows what happened.
async fn attempt(
    gateway: Shared,
    order: &Order,
    card: &'static TestCard,
    authentication: Option<Authentication>,
    back: &str,
) -> Result<Response, ApiError> {
    let attempted = service::pay(gateway, order, card, authentication).await.ok_or(ApiError::Internal)?;
    let paid = match attempted {
        Ok(order) => order.paid_at.is_some(),
        Err(WorkError::Refused(refusal)) => matches!(refusal, Refusal::OrderAlreadyPaid),
        Err(failed @ WorkError::Failed(_)) => return Err(failed.into()),
    };
    let shop = checkout::return_address(order).filter(|_| paid);
    Ok(see_other(shop.as_ref().map_or(back, |shop| shop.as_str())))
}

/// The fields of a form; those that are missing are empty.
async fn read_form<const N: usize>(body: Body, names: [&str; N]) -> Result<[String; N], ApiError> {
    let body = String::from_utf8(extract::read(body).await?).unwrap_or_default();
    Ok(names.map(|name| {
        form::pairs(&body).find(|(found, _)| found == name).map(|(_, value)| value).unwrap_or_default()
    }))
}

/// A redirect that the browser follows with GET. Its address is relative, because the sandbox does not know by which
/// name the buyer reached it.
fn see_other(address: &str) -> Response {
    let Ok(address) = HeaderValue::from_str(address) else { return ApiError::Internal.into_response() };
    let headers =
        [(header::LOCATION, address), (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// Turns an error below `/checkout/` into a page, because a person looks at it.
pub(super) async fn errors_as_pages(request: Request, next: Next) -> Response {
    let Some(below) = request.uri().path().strip_prefix("/checkout/") else { return next.run(request).await };
    let root = "../".repeat(below.matches('/').count());
    let texts = Texts::of(language::choose(None, request.headers()));
    let mut response = next.run(request).await;
    let Some(error) = response.extensions_mut().remove::<ErrorBody>() else { return response };
    let mut page = page::error(texts, error.status, &root);
    for name in [header::ALLOW, header::RETRY_AFTER] {
        if let Some(value) = response.headers_mut().remove(&name) {
            page.headers_mut().insert(name, value);
        }
    }
    page
}
