//! The subcommands `sign` and `verify-signature`: a webhook's signature by hand, over the bytes of
//! standard input. The signature itself is in `domain::signature`.

use std::io::Read;

use time::OffsetDateTime;

use crate::config::{Sign, VerifySignature};
use crate::domain::signature::{self, HEADER, SignatureError};

/// Prints the header that signs standard input, for `curl -H "$(…)"`.
///
/// # Errors
/// Where standard input cannot be read.
pub fn sign(sign: &Sign) -> Result<(), String> {
    let timestamp = sign.timestamp.unwrap_or_else(now);
    println!("{HEADER}: {}", signature::header(&[&sign.key.secret], timestamp, &body()?));
    Ok(())
}

/// Says that a header fits standard input.
///
/// # Errors
/// Why it does not fit.
pub fn verify(verify: &VerifySignature) -> Result<(), String> {
    let body = body()?;
    let header = value(&verify.header);
    let check = |body: &[u8]| {
        let now = verify.now.unwrap_or_else(now);
        signature::verify(header, &verify.key.secret, body, now, verify.tolerance)
    };
    match check(&body) {
        Ok(()) => println!("valid: the body was signed with this secret, at a fitting time"),
        Err(error @ SignatureError::NoMatch) => {
            return Err(format!("not valid: {error}{}", hint(&body, check)));
        }
        Err(error) => return Err(format!("not valid: {error}")),
    }
    Ok(())
}

/// What most likely happened to a body that does not fit.
fn hint(body: &[u8], check: impl Fn(&[u8]) -> Result<(), SignatureError>) -> &'static str {
    let without_break = body.strip_suffix(b"\n").map(|rest| rest.strip_suffix(b"\r").unwrap_or(rest));
    let fits = |body: &[u8]| check(body) != Err(SignatureError::NoMatch);
    if without_break.is_some_and(fits) {
        return "; it fits without the line break at the end, which echo and editors add";
    }
    let compact = serde_json::from_slice::<serde_json::Value>(body).ok();
    let compact = compact.and_then(|value| serde_json::to_vec(&value).ok());
    if compact.is_some_and(|compact| compact.len() != body.len()) {
        return "; the body is JSON with white space or escapes that the sandbox does not send: was it parsed and \
                written again? Sign and verify the bytes as they came";
    }
    ""
}

/// The value of a header that may stand there with its name.
fn value(header: &str) -> &str {
    match header.split_once(':') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case(HEADER) => value.trim(),
        _ => header.trim(),
    }
}

fn now() -> i64 {
    OffsetDateTime::now_utc().unix_timestamp()
}

fn body() -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    let read = std::io::stdin().read_to_end(&mut body);
    read.map_err(|error| format!("the body cannot be read from standard input: {error}"))?;
    Ok(body)
}
