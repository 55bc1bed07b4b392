//! The envelope: the body of a success, a list and an error (contract, section 1).

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Serialize;

use super::error::{ApiError, ErrorBody};
use crate::domain::id::RequestId;
use crate::domain::json::fields::FieldError;
use crate::domain::refusal::Refusal;
use crate::service::idempotent::{Answer, Reply};

/// The Content-Type of every response.
pub(super) const JSON: [(HeaderName, HeaderValue); 1] =
    [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];

/// The header that every response carries.
pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const IGNORED_FIELDS: HeaderName = HeaderName::from_static("x-sandbox-ignored-fields");
/// The header of a response that is replayed.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// How many ignored fields a header names, and how long a name in it may be.
const IGNORED_NAMES: usize = 20;
const IGNORED_NAME_LENGTH: usize = 64;
/// How long they may be together, in bytes: some clients refuse an answer whose headers are long.
const IGNORED_LENGTH: usize = 2048;
const NOT_IN_A_LIST: &AsciiSet = &CONTROLS.add(b',').add(b' ').add(b'%');

#[derive(Serialize)]
struct Success<T> {
    request_id: RequestId,
    data: T,
}

#[derive(Serialize)]
struct Error<'a> {
    request_id: RequestId,
    #[serde(rename = "type")]
    kind: &'static str,
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    param: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
}

/// A page of a list.
#[derive(Serialize)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    pub(super) has_more: bool,
}

/// The body of an error.
pub(super) fn error_json(request_id: RequestId, error: &ErrorBody) -> Bytes {
    to_json(&Error {
        request_id,
        kind: error.error_type,
        code: &error.code,
        message: &error.message,
        param: error.errors.first().map(|error| error.param.as_str()),
        errors: &error.errors,
    })
}

/// A rendered success.
pub(super) fn success(request_id: RequestId, status: StatusCode, data: impl Serialize) -> Answer {
    Answer { status: status.as_u16(), body: to_json(&Success { request_id, data }) }
}

/// A rendered refusal.
pub(super) fn refusal(request_id: RequestId, refusal: &Refusal) -> Answer {
    let error = ApiError::Refused(refusal.clone()).body();
    Answer { status: error.status.as_u16(), body: error_json(request_id, &error) }
}

/// A success of a call that stores nothing.
pub(super) fn ok(request_id: RequestId, data: impl Serialize) -> Response {
    reply(Reply { answer: success(request_id, StatusCode::OK, data), request_id, replayed: false })
}

/// The success of a call that has created something.
pub(super) fn created(request_id: RequestId, data: impl Serialize) -> Response {
    reply(Reply { answer: success(request_id, StatusCode::CREATED, data), request_id, replayed: false })
}

/// A response and its body. The body of an error is written here.
pub(super) async fn rendered(request_id: RequestId, mut response: Response) -> (Response, Bytes) {
    if let Some(error) = response.extensions_mut().remove::<ErrorBody>() {
        let (mut parts, _) = response.into_parts();
        parts.headers.remove(header::CONTENT_LENGTH); // of the empty body that this one replaces
        let body = error_json(request_id, &error);
        return ((parts, JSON).into_response(), body);
    }
    let (parts, body) = response.into_parts();
    // Every body is already in memory.
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    (Response::from_parts(parts, Body::empty()), body)
}

/// The response over a reply.
pub(super) fn reply(reply: Reply) -> Response {
    let status = StatusCode::from_u16(reply.answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let id = [(X_REQUEST_ID, reply.request_id.to_string())];
    let mut response = (status, JSON, id, reply.answer.body).into_response();
    if reply.replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// Names the unknown fields in a header, so that a typo is seen at once. Characters that a header cannot hold are
/// percent-encoded.
pub(super) fn name_ignored(response: &mut Response, ignored: &[String]) {
    let mut list = String::new();
    for name in ignored.iter().take(IGNORED_NAMES) {
        let short: String = name.chars().take(IGNORED_NAME_LENGTH).collect();
        let encoded = utf8_percent_encode(&short, NOT_IN_A_LIST).to_string();
        if list.len() + encoded.len() > IGNORED_LENGTH {
            break;
        }
        list.extend([if list.is_empty() { "" } else { ", " }, &encoded]);
    }
    if let (false, Ok(list)) = (ignored.is_empty(), HeaderValue::from_str(&list)) {
        response.headers_mut().insert(IGNORED_FIELDS, list);
    }
}

fn to_json(value: &impl Serialize) -> Bytes {
    // Only maps whose keys are not strings, and values that refuse, fail to serialise. There are none here.
    serde_json::to_vec(value).unwrap_or_default().into()
}
