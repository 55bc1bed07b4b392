//! The journal's entry of a call (contract, section 7): what came in, the outcome, and whether the client has the
//! answer. Writing it is left to the worker.

use axum::response::Response;

use super::faults::IncomingCall;
use crate::domain::fault::call::{CallEffect, CallFault};
use crate::domain::journal::answer::Answer;
use crate::domain::journal::entry::{self, Entry, Outcome};
use crate::domain::masking;
use crate::http::{envelope, extract};

impl IncomingCall {
    pub(super) fn entry(
        &self,
        fault: Option<CallFault>,
        response: &Response,
        body: &[u8],
        hung_up: bool,
    ) -> Entry {
        let effect = CallEffect::of(fault);
        let is_answered = effect.is_answered();
        let headers = self.parts.headers.iter().map(|(name, value)| {
            (name.as_str().to_owned(), masking::header(name.as_str(), value.as_bytes()))
        });
        let answer = Answer::read(body);
        let mut occasion = self.occasion.clone();
        occasion.learn_from_answer(&answer);
        let path = self.parts.uri.path_and_query().map_or(self.parts.uri.path(), |path| path.as_str());
        let key = self.parts.headers.get(extract::IDEMPOTENCY_KEY);
        Entry {
            merchant: self.caller.merchant,
            request_id: self.caller.request_id,
            at: self.received_at,
            received_at: self.received_at,
            duration: self.received.elapsed(),
            method: self.parts.method.to_string(),
            path: masking::path(path),
            idempotency_key: key.map(|key| masking::header("idempotency-key", key.as_bytes())),
            request_headers: entry::bounded_headers(headers),
            request_body: masking::body(&self.body),
            outcome: if is_answered { outcome(response) } else { Outcome::Error },
            fault: fault.map(|fault| fault.kind().to_owned()),
            status: is_answered.then(|| response.status().as_u16()),
            response_body: masking::body(body),
            order_nos: occasion.order_nos,
            refund_nos: occasion.refund_nos,
            answered: effect.arrives() && !hung_up,
            client_hung_up: hung_up,
            body_hash: None,
            code: answer.code,
            answer_nos: answer.numbers,
        }
    }
}

fn outcome(response: &Response) -> Outcome {
    match response.status().as_u16() {
        _ if response.headers().contains_key(envelope::REPLAYED) => Outcome::Replayed,
        409 => Outcome::InProgress,
        400..500 => Outcome::Refused,
        500.. => Outcome::Error,
        _ => Outcome::Executed,
    }
}
