//! What a request must bring along: a merchant's key, and for a write its Idempotency-Key and a JSON
//! body. Reading the body's fields is the domain's.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::Response;
use http_body_util::BodyExt;
use serde_json::{Map, Value};

use super::error::{ApiError, MAX_BODY};
use super::{Shared, envelope};
use crate::domain::api_key;
use crate::domain::fault::call::{CallEffect, CallFault};
use crate::domain::fault::header as fault_header;
use crate::domain::id::{MerchantId, RequestId};
use crate::domain::idempotency::{BoundRequest, IdempotencyKey};
use crate::domain::json::fields::Parsed;
use crate::domain::json::strict;
use crate::domain::refusal::Refusal;
use crate::domain::view::View;
use crate::service::Written;
use crate::service::idempotent::{self, Work, WriteCall};

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const X_SANDBOX_FAULT: HeaderName = HeaderName::from_static("x-sandbox-fault");

/// How much of a too large body is still read, in bytes, so that the client sees the answer instead of a reset
/// connection.
const DRAINED: usize = 4 * 1024 * 1024;

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Who calls, by the header `X-Api-Key`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller {
    pub(super) merchant: MerchantId,
    pub(super) request_id: RequestId,
}

impl FromRequestParts<Shared> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, gateway: &Shared) -> Result<Self, ApiError> {
        let header = only(&parts.headers, &X_API_KEY)
            .map_err(|()| ApiError::ApiKeyInvalid("The header X-Api-Key stands more than once."))?
            .ok_or(ApiError::ApiKeyMissing)?;
        let merchant = api_key::merchant_of(std::str::from_utf8(header).unwrap_or_default())?;
        if !gateway.lets_in(merchant) {
            return Err(ApiError::ApiKeyInvalid("This key is not one of those that --api-keys lists."));
        }
        gateway.activity.note(merchant);
        let request_id = parts.extensions.get().copied().ok_or(ApiError::Internal)?;
        Ok(Self { merchant, request_id })
    }
}

/// A number in the path. It is never malformed: at worst, nothing has that number.
pub(super) struct Number(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Number {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(number)) => Ok(Self(number)),
            // No number has bytes that are not UTF-8.
            Err(_) => Ok(Self("\u{fffd}".to_owned())),
        }
    }
}

/// A call with a JSON object as its body.
pub(super) struct JsonCall {
    pub(super) caller: Caller,
    /// The object, or why there is none.
    pub(super) object: Result<Map<String, Value>, Refusal>,
    /// Whether a body was sent.
    has_body: bool,
}

impl JsonCall {
    /// The object of a call that may come without a body.
    pub(super) fn object_or_empty(self) -> Result<Map<String, Value>, Refusal> {
        if self.has_body { self.object } else { Ok(Map::new()) }
    }
}

impl FromRequest<Shared> for JsonCall {
    type Rejection = ApiError;

    async fn from_request(request: Request, gateway: &Shared) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let caller = Caller::from_request_parts(&mut parts, gateway).await?;
        let body = read_json_bytes(&parts.headers, body).await?;
        Ok(Self { caller, object: object(&body), has_body: !body.is_empty() })
    }
}

/// A write under `/v1`: who calls, and what its key is bound to.
pub(super) struct Write {
    call: WriteCall,
    /// Whether a body was sent; only `close` needs none.
    has_body: bool,
}

impl FromRequest<Shared> for Write {
    type Rejection = ApiError;

    async fn from_request(request: Request, gateway: &Shared) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let caller = Caller::from_request_parts(&mut parts, gateway).await?;
        let key = idempotency_key(&parts.headers)?;
        let effect = parts.extensions.get().copied().unwrap_or_else(|| CallEffect::of(None));
        let body = read_json_bytes(&parts.headers, body).await?;
        let path = parts.uri.path_and_query().map_or(parts.uri.path(), |path| path.as_str());
        let has_body = !body.is_empty();
        let bound = BoundRequest { method: parts.method.to_string(), path: path.to_owned(), body };
        let bound = Arc::new(bound);
        let call = WriteCall { merchant: caller.merchant, request_id: caller.request_id, key, bound, effect };
        Ok(Self { call, has_body })
    }
}

impl Write {
    pub(super) const fn merchant(&self) -> MerchantId {
        self.call.merchant
    }

    /// Reads the fields of the body.
    pub(super) fn parse<T>(
        &self,
        read: impl FnOnce(Map<String, Value>) -> Parsed<T>,
    ) -> (Result<T, Refusal>, Vec<String>) {
        match object(&self.call.bound.body) {
            Ok(object) => {
                let parsed = read(object);
                (parsed.content.map_err(Refusal::Fields), parsed.ignored)
            }
            Err(refusal) => (Err(refusal), Vec::new()),
        }
    }

    /// Reads a body that may be absent and has no fields.
    pub(super) fn parse_nothing(&self) -> (Result<(), Refusal>, Vec<String>) {
        if self.has_body {
            self.parse(|object| Parsed {
                content: Ok(()),
                ignored: object.into_iter().map(|(name, _)| name).collect(),
            })
        } else {
            (Ok(()), Vec::new())
        }
    }

    /// Executes the write, and answers with what it created (201) or found (200).
    pub(super) async fn execute<W: Work>(
        self,
        gateway: Shared,
        work: W,
        ignored: &[String],
    ) -> Result<Response, ApiError> {
        let request_id = self.call.request_id;
        let public_url = gateway.public_url.clone();
        let render = move |outcome: Result<&Written<W::Object>, &Refusal>| match outcome {
            Ok(Written { object, created }) => {
                let status = if *created { StatusCode::CREATED } else { StatusCode::OK };
                envelope::success(request_id, status, object.view(&public_url))
            }
            Err(refusal) => envelope::refusal(request_id, refusal),
        };
        let reply = idempotent::execute(&gateway, &self.call, work, render).await?;
        let mut response = envelope::reply(reply);
        envelope::name_ignored(&mut response, ignored);
        Ok(response)
    }
}

fn object(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    strict::parse_object(body).map_err(Refusal::Malformed)
}

/// The value of a header that may occur once; an error if it occurs more often.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a [u8]>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(()),
        (first, None) => Ok(first.map(axum::http::HeaderValue::as_bytes)),
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, ApiError> {
    let header = only(headers, &IDEMPOTENCY_KEY)
        .map_err(|()| ApiError::IdempotencyKeyInvalid("it stands more than once".to_owned()))?;
    header.map(IdempotencyKey::parse).transpose().map_err(ApiError::IdempotencyKeyInvalid)
}

/// The fault that a call asks for.
pub(super) fn fault(headers: &HeaderMap) -> Result<Option<CallFault>, ApiError> {
    let header = only(headers, &X_SANDBOX_FAULT)
        .map_err(|()| ApiError::FaultInvalid("it stands more than once".to_owned()))?;
    let parse = |header| fault_header::parse(std::str::from_utf8(header).unwrap_or_default());
    header.map(parse).transpose().map_err(ApiError::FaultInvalid)
}

/// Reads a body of at most [`MAX_BODY`] bytes. Unless it is empty, its Content-Type must be JSON.
async fn read_json_bytes(headers: &HeaderMap, body: Body) -> Result<Vec<u8>, ApiError> {
    let content_type = only(headers, &header::CONTENT_TYPE).map_err(|()| ApiError::NotJson)?;
    let body = read(body).await?;
    if !body.is_empty() {
        is_plain_json(content_type.unwrap_or_default())?;
        is_not_encoded(headers)?;
    }
    Ok(body)
}

fn is_plain_json(content_type: &[u8]) -> Result<(), ApiError> {
    let text = std::str::from_utf8(content_type).unwrap_or_default();
    let mut parts = text.split(';').map(str::trim);
    if !parts.next().unwrap_or_default().eq_ignore_ascii_case("application/json") {
        return Err(ApiError::NotJson);
    }
    let parameters = parts.filter_map(|part| part.split_once('='));
    let mut charsets = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    // ASCII is UTF-8, too. Reading the body finds other bytes.
    let known =
        |charset: &str| ["utf-8", "utf8", "us-ascii"].iter().any(|name| charset.eq_ignore_ascii_case(name));
    if charsets.all(|(_, charset)| known(charset.trim().trim_matches('"'))) {
        Ok(())
    } else {
        Err(ApiError::Encoded("Content-Type names a charset other than UTF-8"))
    }
}

/// Refuses compressed bodies: a small one may decompress to a very large one.
fn is_not_encoded(headers: &HeaderMap) -> Result<(), ApiError> {
    let only_has = |name: &HeaderName, plain: &str| {
        let values = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?"));
        let mut encodings = values.flat_map(|value| value.split(',')).map(str::trim);
        encodings.all(|encoding| encoding.is_empty() || encoding.eq_ignore_ascii_case(plain))
    };
    if !only_has(&header::CONTENT_ENCODING, "identity") {
        return Err(ApiError::Encoded("Content-Encoding names an encoding that is not read here"));
    }
    if !only_has(&header::TRANSFER_ENCODING, "chunked") {
        return Err(ApiError::Encoded("Transfer-Encoding names more than chunked"));
    }
    Ok(())
}

/// Reads a body of at most [`MAX_BODY`] bytes that arrives in time.
pub(super) async fn read(body: Body) -> Result<Vec<u8>, Unread> {
    let late = || Refusal::Malformed(format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs()));
    tokio::time::timeout(BODY_TIMEOUT, read_all(body)).await.map_err(|_| Unread::Refused(late().into()))?
}

/// Why a body could not be read.
pub(super) enum Unread {
    /// The client hung up before all of it was there.
    HungUp,
    /// It is refused.
    Refused(ApiError),
}

impl From<Unread> for ApiError {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::HungUp => {
                Refusal::Malformed("the body ended before its announced length".to_owned()).into()
            }
            Unread::Refused(error) => error,
        }
    }
}

async fn read_all(mut body: Body) -> Result<Vec<u8>, Unread> {
    let mut bytes = Vec::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Unread::HungUp)?.into_data() else { continue };
        length += data.len();
        if length <= MAX_BODY {
            bytes.extend_from_slice(&data);
        } else if length > DRAINED {
            break;
        }
    }
    if length > MAX_BODY { Err(Unread::Refused(ApiError::BodyTooLarge)) } else { Ok(bytes) }
}
