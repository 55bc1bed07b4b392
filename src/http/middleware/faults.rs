//! Around every call under `/v1`: the fault that strikes it, and its entry in the journal, which `journal` makes
//! (contract, section 7). The call runs in a task of its own: a client that hangs up drops this handler, and the
//! work goes on and is stored for the retry.

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

use crate::domain::fault::call::{CallEffect, CallFault, Leaves, Reach};
use crate::domain::fault::occasion::Occasion;
use crate::domain::journal::entry::{self, Entry, Outcome};
use crate::domain::time::real_time;
use crate::http::error::ApiError;
use crate::http::extract::{self, Caller, Unread};
use crate::http::server::Lost;
use crate::http::{Shared, envelope};
use crate::service::faults;

/// How long the first half of a truncated response has to leave, before the connection is closed.
const HALF_LEAVES_WITHIN: Duration = Duration::from_millis(50);

/// A call before it runs, and what is known of it.
pub(super) struct IncomingCall {
    pub(super) caller: Caller,
    pub(super) parts: Parts,
    pub(super) body: Bytes,
    pub(super) occasion: Occasion,
    pub(super) received: Instant,
    pub(super) received_at: OffsetDateTime,
}

/// Runs a call under `/v1` under the fault that strikes it, and journals it. Other calls, and calls without a valid
/// key, just pass.
pub(in crate::http) async fn run(State(gateway): State<Shared>, request: Request, next: Next) -> Response {
    let under_v1 = request.uri().path().starts_with("/v1/");
    if !under_v1 || !gateway.health.is_ready() {
        return next.run(request).await;
    }
    let (received, received_at) = (Instant::now(), real_time::now());
    let (mut parts, body) = request.into_parts();
    let Ok(caller) = Caller::from_request_parts(&mut parts, &gateway).await else {
        return next.run(Request::from_parts(parts, body)).await;
    };
    // Before the first answer, so that an audit over another instance waits for this one.
    gateway.journal.announce(&gateway.db, caller.merchant).await;
    let (sender, response) = oneshot::channel();
    let running = gateway.running.clone();
    let task = async move {
        let (body, unread) = match extract::read(body).await {
            Ok(body) => (Bytes::from(body), None),
            Err(unread) => (Bytes::new(), Some(unread)),
        };
        let uri = &parts.uri;
        let occasion = Occasion::of_request(parts.method.as_str(), uri.path(), uri.query(), &body);
        let call = IncomingCall { caller, parts, body, occasion, received, received_at };
        let (response, entry) = call.answer(&gateway, unread, next, || sender.is_closed()).await;
        // Before the response, so that a client that has it can read its entry.
        gateway.journal.record(entry);
        let _ = sender.send(response);
    };
    running.spawn(task.in_current_span());
    response.await.unwrap_or_else(|_| ApiError::Internal.into_response())
}

impl IncomingCall {
    async fn answer(
        self,
        gateway: &Shared,
        unread: Option<Unread>,
        next: Next,
        hung_up: impl Fn() -> bool,
    ) -> (Response, Entry) {
        let body_hash = unread.is_none().then(|| entry::body_hash(&self.body));
        let upload_broke = matches!(unread, Some(Unread::HungUp));
        let (fault, response) = match unread {
            Some(unread) => (None, ApiError::from(unread).into_response()),
            None => match self.fault(gateway).await {
                Ok(fault) => (fault, self.run_under(CallEffect::of(fault), next).await),
                Err(error) => (None, error.into_response()),
            },
        };
        let (response, body) = envelope::rendered(self.caller.request_id, response).await;
        let mut entry = self.entry(fault, &response, &body, hung_up());
        entry.body_hash = body_hash;
        if upload_broke {
            // Nobody reads the refusal.
            entry = Entry {
                outcome: Outcome::Error,
                status: None,
                code: None,
                response_body: String::new(),
                answered: false,
                client_hung_up: true,
                ..entry
            };
        }
        (cut(CallEffect::of(fault).leaves, response, body), entry)
    }

    /// The fault that strikes this call: the one in its header, or else by a rule.
    async fn fault(&self, gateway: &Shared) -> Result<Option<CallFault>, ApiError> {
        if let Some(fault) = extract::fault(&self.parts.headers)? {
            return Ok(Some(fault));
        }
        Ok(faults::strike_call(gateway, self.caller.merchant, &self.occasion).await?)
    }

    /// Runs the call, as far as the fault lets it, and answers it.
    async fn run_under(&self, effect: CallEffect, next: Next) -> Response {
        let response = if self.starts(effect).await { Some(self.run(effect, next).await) } else { None };
        match (effect.error, response) {
            (Some(error), _) => ApiError::from(error).into_response(),
            (None, Some(response)) => response,
            // It was lost on its way.
            (None, None) => ().into_response(),
        }
    }

    /// Waits as long as the fault says, and returns whether the call goes on. A write does both in the idempotent
    /// execution, where its key is in progress or bound meanwhile; but not one that gets nowhere.
    async fn starts(&self, effect: CallEffect) -> bool {
        let is_write = self.parts.method == Method::POST;
        let starts = match effect.reach {
            Reach::Nowhere => false,
            Reach::Key => is_write,
            Reach::Work => true,
        };
        let waits_there = is_write && starts;
        if !waits_there && !effect.wait.is_zero() {
            tokio::time::sleep(effect.wait).await;
        }
        starts
    }

    async fn run(&self, effect: CallEffect, next: Next) -> Response {
        let mut request = Request::from_parts(self.parts.clone(), Body::from(self.body.clone()));
        request.extensions_mut().insert(effect);
        let response = AssertUnwindSafe(next.run(request)).catch_unwind().await;
        response.unwrap_or_else(crate::http::error::panicked)
    }
}

/// The response as it leaves: lost, cut in half, or whole.
fn cut(leaves: Leaves, response: Response, body: Bytes) -> Response {
    let (mut parts, _) = response.into_parts();
    match leaves {
        Leaves::Nothing => {
            parts.extensions.insert(Lost);
            Response::from_parts(parts, Body::empty())
        }
        Leaves::Half => {
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
            Response::from_parts(parts, half(&body))
        }
        Leaves::Whole => Response::from_parts(parts, Body::from(body)),
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
