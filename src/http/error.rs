//! Errors at the edge: the only table of HTTP statuses, types and codes (contract, section 1). An error
//! has a message for the client and, where it is ours, a cause for the log; the two never mix.

use std::any::Any;

use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::db::DbError;
use crate::domain::api_key::ApiKeyError;
use crate::domain::fault::call::CallError;
use crate::domain::idempotency::Mismatch;
use crate::domain::json::fields::FieldError;
use crate::domain::refusal::Refusal;
use crate::service::WorkError;
use crate::service::idempotent::NoReply;

/// The largest body that is read, in bytes.
pub(super) const MAX_BODY: usize = 64 * 1024;

/// Every error that a client can see.
#[derive(Debug)]
pub(super) enum ApiError {
    /// The gateway says no.
    Refused(Refusal),
    /// No `X-Api-Key`.
    ApiKeyMissing,
    /// A key that is not let in.
    ApiKeyInvalid(&'static str),
    /// A key of production.
    LiveKey,
    /// No such path; the path that may have been meant.
    EndpointNotFound(String),
    /// A path that has no such method.
    MethodNotAllowed,
    /// A body over [`MAX_BODY`].
    BodyTooLarge,
    /// A body whose Content-Type is not JSON.
    NotJson,
    /// A body in an unsupported encoding; names the header and the fault in it.
    Encoded(&'static str),
    /// A malformed `Idempotency-Key`; what is wrong.
    IdempotencyKeyInvalid(String),
    /// A malformed `X-Sandbox-Fault`; what is wrong.
    FaultInvalid(String),
    /// The key is bound to another request.
    IdempotencyMismatch(Box<Mismatch>),
    /// The first request with this key is still running.
    IdempotencyInProgress,
    /// A fault of this status, as asked for.
    Fault(u16),
    /// A fault that says when to come back, in seconds.
    RateLimited(u16),
    /// The sandbox is starting.
    Starting,
    /// Workers have panicked; their names.
    WorkersDown(String),
    /// The database failed, or a deadline has passed.
    Unavailable,
    /// A bug in the sandbox.
    Internal,
}

/// The type and code of an error.
struct Kind<'a>(StatusCode, &'static str, &'a str);

impl ApiError {
    fn kind(&self) -> Kind<'_> {
        const REQUEST: &str = "invalid_request_error";
        const KEY: &str = "authentication_error";
        const CONNECTION: &str = "api_connection_error";
        match self {
            Self::Refused(refusal) if refusal.is_not_found() => {
                Kind(StatusCode::NOT_FOUND, REQUEST, refusal.code())
            }
            Self::Refused(refusal) => Kind(StatusCode::BAD_REQUEST, REQUEST, refusal.code()),
            Self::ApiKeyMissing => Kind(StatusCode::UNAUTHORIZED, KEY, "api_key_missing"),
            Self::ApiKeyInvalid(_) => Kind(StatusCode::UNAUTHORIZED, KEY, "api_key_invalid"),
            Self::LiveKey => Kind(StatusCode::UNAUTHORIZED, KEY, "live_key_not_allowed"),
            Self::EndpointNotFound(_) => Kind(StatusCode::NOT_FOUND, REQUEST, "endpoint_not_found"),
            Self::MethodNotAllowed => Kind(StatusCode::METHOD_NOT_ALLOWED, REQUEST, "method_not_allowed"),
            Self::BodyTooLarge => Kind(StatusCode::PAYLOAD_TOO_LARGE, REQUEST, "body_too_large"),
            Self::NotJson => Kind(StatusCode::UNSUPPORTED_MEDIA_TYPE, REQUEST, "content_type_not_json"),
            Self::Encoded(_) => Kind(StatusCode::UNSUPPORTED_MEDIA_TYPE, REQUEST, "encoding_not_supported"),
            Self::IdempotencyKeyInvalid(_) => {
                Kind(StatusCode::BAD_REQUEST, REQUEST, "idempotency_key_invalid")
            }
            Self::FaultInvalid(_) => Kind(StatusCode::BAD_REQUEST, REQUEST, "fault_invalid"),
            Self::IdempotencyMismatch(_) => {
                Kind(StatusCode::BAD_REQUEST, "idempotency_error", "idempotency_key_reused")
            }
            Self::IdempotencyInProgress => {
                Kind(StatusCode::CONFLICT, "idempotency_in_progress", "idempotency_in_progress")
            }
            Self::Fault(502..=504) => Kind(self.fault_status(), CONNECTION, "sandbox_fault"),
            Self::Fault(_) => Kind(self.fault_status(), "api_error", "sandbox_fault"),
            Self::RateLimited(_) => Kind(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", "rate_limited"),
            Self::Starting => Kind(StatusCode::SERVICE_UNAVAILABLE, CONNECTION, "starting"),
            Self::WorkersDown(_) => Kind(StatusCode::SERVICE_UNAVAILABLE, CONNECTION, "workers_down"),
            Self::Unavailable => Kind(StatusCode::SERVICE_UNAVAILABLE, CONNECTION, "temporarily_unavailable"),
            Self::Internal => Kind(StatusCode::INTERNAL_SERVER_ERROR, "api_error", "internal_error"),
        }
    }

    fn fault_status(&self) -> StatusCode {
        match self {
            Self::Fault(status) => StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn message(&self) -> String {
        let text = match self {
            Self::Refused(refusal) => return refusal.message(),
            Self::IdempotencyMismatch(mismatch) => return mismatch.message.clone(),
            Self::ApiKeyInvalid(what) => {
                return format!(
                    "{what} A test key is kuko_test_ followed by 8 to 64 of A-Z a-z 0-9 _ -; any that you make up works, \
                     unless the sandbox runs with --api-keys."
                );
            }
            Self::EndpointNotFound(hint) => return format!("There is no such endpoint.{hint}"),
            Self::BodyTooLarge => return format!("The body is larger than {MAX_BODY} bytes."),
            Self::Encoded(what) => {
                return format!("The header {what}. Send the body as plain JSON in UTF-8, not compressed.");
            }
            Self::IdempotencyKeyInvalid(what) => {
                return format!(
                    "The header Idempotency-Key must stand once, with 1 to 255 visible ASCII characters; {what}."
                );
            }
            Self::FaultInvalid(what) => return format!("The header X-Sandbox-Fault cannot be read: {what}."),
            Self::WorkersDown(names) => {
                return format!(
                    "These workers have failed and are started again: {names}; the log has the cause."
                );
            }
            Self::ApiKeyMissing => {
                "The header X-Api-Key is missing. Send a test key, for example kuko_test_local_000001."
            }
            Self::LiveKey => {
                "This is a live key. Never use it outside of production; the sandbox takes kuko_test_ keys only."
            }
            Self::MethodNotAllowed => {
                "This endpoint does not have that method; the header Allow names those it has."
            }
            Self::NotJson => "Send the header Content-Type: application/json, and a JSON body.",
            Self::IdempotencyInProgress => {
                "The first request with this Idempotency-Key is still running. Wait a second, then send the same \
                 request with the same key again."
            }
            Self::RateLimited(_) => {
                "Too many requests, as a fault rule or X-Sandbox-Fault asked for. Nothing has run: send the same request \
                 again after the time that Retry-After names."
            }
            Self::Fault(_) => {
                "This error was asked for by a fault rule or X-Sandbox-Fault. As after any 5xx, the outcome is unknown: send the same \
                 request with the same key again."
            }
            Self::Starting => "The sandbox is starting; GET /readyz tells when it is ready.",
            Self::Unavailable => {
                "The gateway could not finish in time, and the outcome is unknown. Send the same request with the same \
                 key again."
            }
            Self::Internal => {
                "Something went wrong in the gateway, and the outcome is unknown. Send the same request with the same \
                 key again; the log has the cause under this request_id."
            }
        };
        text.to_owned()
    }

    fn errors(&self) -> Vec<FieldError> {
        match self {
            Self::Refused(refusal) => refusal.errors(),
            Self::IdempotencyMismatch(mismatch) => mismatch.errors.clone(),
            _ => Vec::new(),
        }
    }

    /// What `Retry-After` says, in seconds.
    const fn retry_after(&self) -> Option<u16> {
        match self {
            Self::IdempotencyInProgress | Self::Starting | Self::WorkersDown(_) | Self::Unavailable => {
                Some(1)
            }
            Self::RateLimited(after) => Some(*after),
            _ => None,
        }
    }

    /// What the client reads.
    pub(super) fn body(&self) -> ErrorBody {
        let Kind(status, error_type, code) = self.kind();
        ErrorBody {
            status,
            error_type,
            code: code.to_owned(),
            message: self.message(),
            errors: self.errors(),
        }
    }
}

/// An error as the client reads it, without the request's id, which `middleware::request_id` adds.
#[derive(Debug, Clone)]
pub(super) struct ErrorBody {
    pub(super) status: StatusCode,
    pub(super) error_type: &'static str,
    pub(super) code: String,
    pub(super) message: String,
    pub(super) errors: Vec<FieldError>,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = self.body();
        let mut response = body.status.into_response();
        if let Some(after) = self.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after));
        }
        response.extensions_mut().insert(body);
        response
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ApiKeyError> for ApiError {
    fn from(error: ApiKeyError) -> Self {
        match error {
            ApiKeyError::Malformed => Self::ApiKeyInvalid("The header X-Api-Key does not hold a test key."),
            ApiKeyError::Live => Self::LiveKey,
        }
    }
}

impl From<DbError> for ApiError {
    fn from(error: DbError) -> Self {
        tracing::error!(error = &error as &dyn std::error::Error, "the database failed");
        match error {
            DbError::Unavailable(_) | DbError::Unreachable(_) | DbError::Emptying => Self::Unavailable,
            DbError::Failed(_) | DbError::Corrupt(_) | DbError::Panicked | DbError::Setup(_) => {
                Self::Internal
            }
        }
    }
}

impl From<WorkError> for ApiError {
    fn from(error: WorkError) -> Self {
        match error {
            WorkError::Refused(refusal) => Self::Refused(refusal),
            WorkError::Failed(error) => error.into(),
        }
    }
}

impl From<CallError> for ApiError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Server(status) => Self::Fault(status),
            CallError::RateLimited(after) => Self::RateLimited(after),
        }
    }
}

impl From<NoReply> for ApiError {
    fn from(reason: NoReply) -> Self {
        match reason {
            NoReply::InProgress => Self::IdempotencyInProgress,
            NoReply::Mismatch(mismatch) => Self::IdempotencyMismatch(mismatch),
            // Nobody sees it: what the fault answers is put in its place, in `middleware::faults`.
            NoReply::Stopped => Self::Fault(StatusCode::INTERNAL_SERVER_ERROR.as_u16()),
            NoReply::TimedOut => {
                tracing::error!("the work did not finish before its deadline");
                Self::Unavailable
            }
            NoReply::Panicked => {
                tracing::error!("the work panicked");
                Self::Internal
            }
            NoReply::Database(error) => error.into(),
        }
    }
}

/// The answer for a path that no route has, with the path that may have been meant.
pub(super) async fn endpoint_not_found(method: Method, uri: Uri) -> ApiError {
    let parts: Vec<_> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    let straight = format!("/{}", parts.join("/"));
    let known = matches!(parts.first(), Some(&("v1" | "sandbox")));
    ApiError::EndpointNotFound(if known && straight != uri.path() {
        format!(" Did you mean {method} {straight}?")
    } else {
        String::new()
    })
}

/// The answer for a handler that panicked.
pub(super) fn panicked(_cause: Box<dyn Any + Send + 'static>) -> Response {
    tracing::error!("a handler panicked");
    ApiError::Internal.into_response()
}
