//! Around every call under `/v1`: the fault that strikes it, and its entry in the journal (contract,
//! section 7). The call runs in a task of its own: a client that hangs up drops this handler, and the work
//! goes on and is stored for the retry.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::{FutureExt, StreamExt, stream};
use time::OffsetDateTime;
use tokio::sync::oneshot;
use tracing::Instrument;

use super::error::ApiError;
use super::extract::{self, Caller};
use super::serve::Lost;
use super::{Shared, respond};
use crate::domain::fault::CallFault;
use crate::domain::journal::{Entry, Outcome};
use crate::domain::masking;
use crate::domain::occasion::Occasion;
use crate::service::faults;

/// How long the first half of a truncated response has to leave, before the connection is closed.
const HALF_LEAVES_WITHIN: Duration = Duration::from_millis(50);

/// A call that has come in, and what is known of it before it runs.
struct Call {
    caller: Caller,
    parts: Parts,
    body: Bytes,
    occasion: Occasion,
    received: Instant,
    received_at: OffsetDateTime,
}

/// Runs a call under `/v1` under the fault that strikes it, and journals it. Calls of nobody, and those
/// elsewhere, pass.
pub(super) async fn run(State(gateway): State<Shared>, request: Request, next: Next) -> Response {
    let under_v1 = request.uri().path().starts_with("/v1/");
    if !under_v1 || !gateway.is_ready() {
        return next.run(request).await;
    }
    let (received, received_at) = (Instant::now(), OffsetDateTime::now_utc());
    let (mut parts, body) = request.into_parts();
    let Ok(caller) = Caller::from_request_parts(&mut parts, &gateway).await else {
        return next.run(Request::from_parts(parts, body)).await;
    };
    let (sender, response) = oneshot::channel();
    let running = gateway.running.clone();
    let task = async move {
        let (body, unreadable) = match extract::read(body).await {
            Ok(body) => (Bytes::from(body), None),
            Err(error) => (Bytes::new(), Some(error)),
        };
        let uri = &parts.uri;
        let occasion = Occasion::of_request(parts.method.as_str(), uri.path(), uri.query(), &body);
        let call = Call { caller, parts, body, occasion, received, received_at };
        let (response, entry) = call.answer(&gateway, unreadable, next, || sender.is_closed()).await;
        // Before the response: who has it can read its entry.
        gateway.journal.record(entry);
        let _ = sender.send(response);
    };
    running.spawn(task.in_current_span());
    response.await.unwrap_or_else(|_| ApiError::Internal.into_response())
}

impl Call {
    async fn answer(
        self,
        gateway: &Shared,
        unreadable: Option<ApiError>,
        next: Next,
        hung_up: impl Fn() -> bool,
    ) -> (Response, Entry) {
        let (fault, response) = match unreadable {
            Some(error) => (None, error.into_response()),
            None => match self.fault(gateway).await {
                Ok(fault) => (fault, self.run_under(fault, next).await),
                Err(error) => (None, error.into_response()),
            },
        };
        let (response, body) = respond::rendered(self.caller.request_id, response).await;
        let entry = self.entry(fault, &response, &body, hung_up());
        (cut(fault, response, body), entry)
    }

    /// What goes wrong with this call: what its header asks for, or else a rule.
    async fn fault(&self, gateway: &Shared) -> Result<Option<CallFault>, ApiError> {
        if let Some(fault) = extract::fault(&self.parts.headers)? {
            return Ok(Some(fault));
        }
        Ok(faults::strike_call(gateway, self.caller.merchant, &self.occasion).await?)
    }

    /// Runs the call, as far as the fault lets it. Of a write, the idempotent execution knows two faults:
    /// latency, while its key is in progress, and an error after it, which stores nothing.
    async fn run_under(&self, fault: Option<CallFault>, next: Next) -> Response {
        match fault {
            Some(CallFault::RequestLost) => return ().into_response(),
            Some(CallFault::ErrorBefore(status)) => return ApiError::Fault(status).into_response(),
            Some(CallFault::RateLimited(after)) => return ApiError::RateLimited(after).into_response(),
            Some(CallFault::Latency(delay)) if self.parts.method != Method::POST => {
                tokio::time::sleep(delay).await;
            }
            _ => {}
        }
        let mut request = Request::from_parts(self.parts.clone(), Body::from(self.body.clone()));
        if let Some(fault) = fault {
            request.extensions_mut().insert(fault);
        }
        let response = AssertUnwindSafe(next.run(request)).catch_unwind().await;
        match (response, fault) {
            (_, Some(CallFault::ErrorAfter(status))) => ApiError::Fault(status).into_response(),
            (Ok(response), _) => response,
            (Err(cause), _) => super::error::panicked(cause),
        }
    }

    fn entry(&self, fault: Option<CallFault>, response: &Response, body: &[u8], hung_up: bool) -> Entry {
        let ran = fault != Some(CallFault::RequestLost);
        let lost = matches!(
            fault,
            Some(CallFault::RequestLost | CallFault::ResponseLost | CallFault::TruncatedResponse)
        );
        let headers = self.parts.headers.iter().map(|(name, value)| {
            (name.as_str().to_owned(), masking::header(name.as_str(), value.as_bytes()))
        });
        let mut occasion = self.occasion.clone();
        occasion.learn_from_response(body);
        let target = self.parts.uri.path_and_query().map_or(self.parts.uri.path(), |target| target.as_str());
        let key = self.parts.headers.get(extract::IDEMPOTENCY_KEY);
        Entry {
            merchant: self.caller.merchant,
            request_id: self.caller.request_id,
            at: self.received_at,
            received_at: self.received_at,
            duration: self.received.elapsed(),
            method: self.parts.method.to_string(),
            path: masking::path(target, &occasion),
            idempotency_key: key.map(|key| masking::header("idempotency-key", key.as_bytes())),
            request_headers: headers.collect(),
            request_body: masking::body(&self.body, &occasion),
            outcome: if ran { outcome(response) } else { Outcome::Error },
            fault: fault.map(|fault| fault.kind().to_owned()),
            status: ran.then(|| response.status().as_u16()),
            response_body: masking::body(body, &occasion),
            order_nos: occasion.order_nos,
            refund_nos: occasion.refund_nos,
            answered: !lost && !hung_up,
            client_hung_up: hung_up,
        }
    }
}

fn outcome(response: &Response) -> Outcome {
    match response.status().as_u16() {
        _ if response.headers().contains_key(respond::REPLAYED) => Outcome::Replayed,
        409 => Outcome::InProgress,
        400..500 => Outcome::Refused,
        500.. => Outcome::Error,
        _ => Outcome::Executed,
    }
}

/// The response as it leaves: lost, cut in half, or whole.
fn cut(fault: Option<CallFault>, response: Response, body: Bytes) -> Response {
    let (mut parts, _) = response.into_parts();
    match fault {
        Some(CallFault::RequestLost | CallFault::ResponseLost) => {
            parts.extensions.insert(Lost);
            Response::from_parts(parts, Body::empty())
        }
        Some(CallFault::TruncatedResponse) => {
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
            Response::from_parts(parts, half(&body))
        }
        _ => Response::from_parts(parts, Body::from(body)),
    }
}

/// Half of a body, and then an error, on which the connection is closed.
fn half(body: &Bytes) -> Body {
    let half = stream::iter([Ok(body.slice(..body.len() / 2))]);
    let broken = stream::once(async {
        tokio::time::sleep(HALF_LEAVES_WITHIN).await;
        Err(std::io::Error::other("the response is cut, as a fault asked for"))
    });
    Body::from_stream(half.chain(broken))
}
