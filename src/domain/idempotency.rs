//! The Idempotency-Key: its form, the fingerprint of a request, and the explanation for a key that was used with
//! another request (contract, section 4). Claiming keys and storing responses is left to the service.

use sha2::{Digest, Sha256};

use crate::domain::json::diff::{self, Change, Changes};
use crate::domain::json::fields::FieldError;
use crate::domain::masking;

/// How long a response is kept under its key, in hours of the merchant's time.
pub const KEPT_HOURS: i32 = 24;

const MAX_LENGTH: usize = 255;

/// A well-formed Idempotency-Key: 1 to 255 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Reads the value of the header.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(header: &[u8]) -> Result<Self, String> {
        if !(1..=MAX_LENGTH).contains(&header.len()) {
            return Err(format!("it has {} bytes", header.len()));
        }
        match std::str::from_utf8(header) {
            Ok(text) if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Self(text.to_owned())),
            _ => Err("it has a space, a control character or a character outside of ASCII".to_owned()),
        }
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a key is bound to: the method, the path with its query, and the body's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundRequest {
    /// The HTTP method.
    pub method: String,
    /// The path with its query, as sent.
    pub path: String,
    /// The body's bytes, as sent.
    pub body: Vec<u8>,
}

/// SHA-256 over a request, as sent.
pub type Fingerprint = [u8; 32];

impl BoundRequest {
    /// The fingerprint: two requests have the same one exactly where all their bytes are the same.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = Sha256::new();
        // Neither a method nor a path can hold a line break, so the parts cannot run together.
        hash.update(&self.method);
        hash.update("\n");
        hash.update(&self.path);
        hash.update("\n");
        hash.update(&self.body);
        hash.finalize().into()
    }
}

impl BoundRequest {
    /// The copy that is kept under the key, without card numbers and API keys.
    #[must_use]
    pub fn masked(&self) -> Self {
        Self {
            method: self.method.clone(),
            path: masking::whole_path(&self.path).into_owned(),
            body: masking::whole_body(&String::from_utf8_lossy(&self.body)).into_owned().into_bytes(),
        }
    }
}

/// Why a key cannot be used for a request: it is bound to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// What changed, in words for the client.
    pub message: String,
    /// The changed places of a JSON body, old and new.
    pub errors: Vec<FieldError>,
}

/// Explains how `second` differs from `first`, the request that the key is bound to. Both are masked copies, so they
/// may be equal although the fingerprints of the requests differ.
#[must_use]
pub fn explain_mismatch(first: &BoundRequest, second: &BoundRequest) -> Mismatch {
    if (&first.method, &first.path) != (&second.method, &second.path) {
        let (method, path) = (&first.method, &first.path);
        return without_fields(&format!(
            "This Idempotency-Key was first used for {method} {path}. Use a new key for every operation."
        ));
    }
    if first.body == second.body {
        return without_fields(
            "This Idempotency-Key was first used with another request: a card number or an API key in it differs, \
             which is not kept and so not shown. Send exactly the same bytes on every attempt, or use a new key for \
             a new operation.",
        );
    }
    let Changes { listed, more } = match (masking::parse(&first.body), masking::parse(&second.body)) {
        (Ok(before), Ok(after)) => diff::changes(&before, &after),
        _ => {
            return without_fields(
                "This Idempotency-Key was first used with another body. Send exactly the same bytes on every \
                 attempt, or use a new key for a new operation.",
            );
        }
    };
    if listed.is_empty() {
        return without_fields(
            "This Idempotency-Key was first used with the same JSON, other bytes: order of members, white space \
             or escapes differ (card numbers and API keys are not compared). Serialise the body once, and send the same bytes on every attempt.",
        );
    }
    let names: Vec<_> = listed.iter().map(|change| change.pointer.as_str()).collect();
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Mismatch {
        message: format!(
            "This Idempotency-Key was first used with another body. Changed: {}{and_more}. Send exactly the same \
             body on every attempt, or use a new key for a new operation.",
            names.join(", ")
        ),
        errors: listed.iter().map(changed_field).collect(),
    }
}

fn without_fields(message: &str) -> Mismatch {
    Mismatch { message: message.to_owned(), errors: Vec::new() }
}

fn changed_field(change: &Change) -> FieldError {
    let (before, after) = change.shown();
    FieldError {
        param: change.pointer.clone(),
        code: "idempotency_body_changed".to_owned(),
        message: format!("It was {before}, now it is {after}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: &str, body: &str) -> BoundRequest {
        BoundRequest { method: "POST".into(), path: path.into(), body: body.into() }
    }

    #[test]
    fn keys_are_visible_ascii() {
        assert!(IdempotencyKey::parse(&[b'!'; 255]).is_ok());
        for bad in [&b""[..], &[b'a'; 256], b"a b", b"a\tb", "schlüssel".as_bytes()] {
            assert!(IdempotencyKey::parse(bad).is_err());
        }
    }

    #[test]
    fn every_byte_of_a_request_counts() {
        let first = request("/v1/orders", "{}");
        assert_eq!(first.fingerprint(), first.clone().fingerprint());
        for other in
            [request("/v1/refunds", "{}"), request("/v1/orders", "{ }"), request("/v1/orders?", "{}")]
        {
            assert_ne!(first.fingerprint(), other.fingerprint());
        }
    }

    #[test]
    fn a_mismatch_says_what_changed() {
        let first = request("/v1/orders", r#"{"amount":1,"timestamp":10}"#);
        let changed = explain_mismatch(&first, &request("/v1/orders", r#"{"amount":1,"timestamp":11}"#));
        assert_eq!(changed.errors[0].param, "/timestamp");
        assert_eq!(changed.errors[0].message, "It was 10, now it is 11.");
        let formatted = explain_mismatch(&first, &request("/v1/orders", r#"{"timestamp":10,"amount":1}"#));
        assert!(formatted.message.contains("same JSON, other bytes"));
        let elsewhere = explain_mismatch(&first, &request("/v1/refunds", r#"{"amount":1,"timestamp":10}"#));
        assert!(elsewhere.message.contains("POST /v1/orders"));
    }

    #[test]
    fn a_mismatch_is_explained_by_masked_copies() {
        let explain = |first: &str, second: &str| {
            let [first, second] = [first, second].map(|body| request("/v1/orders", body).masked());
            explain_mismatch(&first, &second)
        };
        let (one, other) = (r#"{"card":"4242424242424242"}"#, r#"{"card":"4242000000004242"}"#);
        assert!(explain(one, other).message.contains("a card number or an API key in it differs"));
        let changed = explain(r#"{"card":4242424242424242,"n":1}"#, r#"{"card":4000000000000002,"n":1}"#);
        assert_eq!(changed.errors[0].message, r#"It was "4242********4242", now it is "4000********0002"."#);
        let keys = [r#"{"k":"kuko_live_aaaaaaaa"}"#, r#"{"k":"kuko_live_bbbbbbbb"}"#];
        assert!(!format!("{:?}", explain(keys[0], keys[1])).contains("aaaa"));
    }
}
