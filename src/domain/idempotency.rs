//! The Idempotency-Key: its form, what a request's fingerprint is, and the explanation for a key
//! that was used with another request (contract, section 4). Who holds a key, and what is stored
//! under it, is the service's.

use sha2::{Digest, Sha256};

use super::fields::FieldError;
use super::json_diff::{self, Change};
use super::strict_json;

/// How long a response is kept under its key, in hours of the merchant's time.
pub const KEPT_HOURS: i32 = 24;

const MAX_LENGTH: usize = 255;
/// How many changed fields an explanation names; the rest is counted.
const MAX_CHANGES: usize = 20;

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
    pub target: String,
    /// The body's bytes, as sent.
    pub body: Vec<u8>,
}

/// SHA-256 over a request.
pub type Fingerprint = [u8; 32];

impl BoundRequest {
    /// The fingerprint: two requests have the same one exactly where all their bytes are the same.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = Sha256::new();
        // Neither a method nor a target can hold a line break, so the parts cannot run together.
        hash.update(&self.method);
        hash.update("\n");
        hash.update(&self.target);
        hash.update("\n");
        hash.update(&self.body);
        hash.finalize().into()
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

/// Explains how `second` differs from `first`, the request that the key is bound to.
#[must_use]
pub fn explain_mismatch(first: &BoundRequest, second: &BoundRequest) -> Mismatch {
    if (&first.method, &first.target) != (&second.method, &second.target) {
        let (method, target) = (&first.method, &first.target);
        return without_fields(&format!(
            "This Idempotency-Key was first used for {method} {target}. Use a new key for every operation."
        ));
    }
    let changes = match (strict_json::parse(&first.body), strict_json::parse(&second.body)) {
        (Ok(before), Ok(after)) => json_diff::changes(&before, &after),
        _ => {
            return without_fields(
                "This Idempotency-Key was first used with another body. Send exactly the same bytes on every \
                 attempt, or use a new key for a new operation.",
            );
        }
    };
    if changes.is_empty() {
        return without_fields(
            "This Idempotency-Key was first used with the same JSON, other bytes: order of members, white space \
             or escapes differ. Serialise the body once, and send the same bytes on every attempt.",
        );
    }
    let names: Vec<_> = changes.iter().take(MAX_CHANGES).map(|change| change.pointer.as_str()).collect();
    let more = changes.len().saturating_sub(MAX_CHANGES);
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Mismatch {
        message: format!(
            "This Idempotency-Key was first used with another body. Changed: {}{and_more}. Send exactly the same \
             body on every attempt, or use a new key for a new operation.",
            names.join(", ")
        ),
        errors: changes.iter().take(MAX_CHANGES).map(changed_field).collect(),
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

    fn request(target: &str, body: &str) -> BoundRequest {
        BoundRequest { method: "POST".into(), target: target.into(), body: body.into() }
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
}
