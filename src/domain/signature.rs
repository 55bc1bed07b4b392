//! Signatures of webhooks: the header `X-KukoPay-Signature` over the bytes of a body, written and verified
//! (contract, section 6). Which secrets sign, and when, is the delivery's.

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The header's name.
pub const HEADER: &str = "X-KukoPay-Signature";

/// How far a timestamp may be off, in seconds, before receivers refuse it.
pub const TOLERANCE_SECONDS: i64 = 300;

/// Why a signature is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// There is no `t` entry that is a number.
    #[error("the header has no timestamp; it needs t=<unix seconds>")]
    NoTimestamp,
    /// There is no `v1` entry.
    #[error("the header has no signature; it needs v1=<hex>")]
    NoSignature,
    /// The timestamp is off by so many seconds, the past being positive.
    #[error("the timestamp is {0} seconds off: an old request that is sent again, or a clock that is wrong")]
    Stale(i64),
    /// No `v1` entry fits.
    #[error("no v1 fits: it was signed with another secret, or over other bytes")]
    NoMatch,
}

/// The header's value: `t=<unix seconds>,v1=<hex>`, with a `v1` for each secret, in their order.
#[must_use]
pub fn header(secrets: &[&str], timestamp: i64, body: &[u8]) -> String {
    let mut header = format!("t={timestamp}");
    for secret in secrets {
        header.push_str(",v1=");
        for byte in mac(secret, timestamp, body).finalize().into_bytes() {
            let _ = write!(header, "{byte:02x}"); // a String takes everything
        }
    }
    header
}

/// Verifies a header's value as a receiver does: one `v1` fits, whichever it is, and the timestamp is at
/// most `tolerance_seconds` off `now`, in Unix seconds. Other entries are ignored.
///
/// # Errors
/// See [`SignatureError`].
pub fn verify(
    header: &str,
    secret: &str,
    body: &[u8],
    now: i64,
    tolerance_seconds: i64,
) -> Result<(), SignatureError> {
    let entries = || header.split(',').filter_map(|entry| entry.trim().split_once('='));
    let timestamp = entries().find(|(name, _)| *name == "t").and_then(|(_, text)| text.parse().ok());
    let timestamp: i64 = timestamp.ok_or(SignatureError::NoTimestamp)?;
    let mut signatures = entries().filter(|(name, _)| *name == "v1").map(|(_, hex)| hex).peekable();
    signatures.peek().ok_or(SignatureError::NoSignature)?;
    let fits = |hex: &str| {
        let bytes = from_hex(hex).unwrap_or_default();
        mac(secret, timestamp, body).verify_slice(&bytes).is_ok() // in constant time
    };
    if !signatures.any(fits) {
        return Err(SignatureError::NoMatch);
    }
    let off = now.saturating_sub(timestamp);
    if off.saturating_abs() > tolerance_seconds { Err(SignatureError::Stale(off)) } else { Ok(()) }
}

fn mac(secret: &str, timestamp: i64, body: &[u8]) -> Hmac<Sha256> {
    // A key of any length is taken: a long one is hashed first.
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes());
    let mac = mac.unwrap_or_else(|_| Hmac::new(&hmac::digest::Key::<Hmac<Sha256>>::default()));
    mac.chain_update(timestamp.to_string()).chain_update(b".").chain_update(body)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<_>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = "{\"subject\":\"Pro 年度訂閲 🎉\"}".as_bytes();
    const NOW: i64 = 1_764_553_200;

    fn check(header: &str, secret: &str, now: i64) -> Result<(), SignatureError> {
        verify(header, secret, BODY, now, TOLERANCE_SECONDS)
    }

    #[test]
    fn the_form_is_the_known_clients() {
        // What `printf '1764553200.{}' | openssl dgst -sha256 -hmac whsec_test` prints.
        let hex = "834560b3698346260df34041e156b474dd00607d792fe367decedea981872ba8";
        assert_eq!(header(&["whsec_test"], NOW, b"{}"), format!("t={NOW},v1={hex}"));
    }

    #[test]
    fn any_of_two_secrets_verifies() {
        let signed = header(&["new", "old"], NOW, BODY);
        assert_eq!(signed.matches("v1=").count(), 2);
        assert_eq!(check(&signed, "new", NOW), Ok(()));
        assert_eq!(check(&signed, "old", NOW + 300), Ok(()));
        assert_eq!(check(&signed, "other", NOW), Err(SignatureError::NoMatch));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let signed = header(&["secret"], NOW, BODY);
        assert_eq!(check(&signed, "secret", NOW + 301), Err(SignatureError::Stale(301)));
        assert_eq!(check(&signed, "secret", NOW - 301), Err(SignatureError::Stale(-301)));
        assert_eq!(check("v1=00", "secret", NOW), Err(SignatureError::NoTimestamp));
        assert_eq!(check("t=x,v1=00", "secret", NOW), Err(SignatureError::NoTimestamp));
        assert_eq!(check("t=1", "secret", NOW), Err(SignatureError::NoSignature));
        assert_eq!(check(&format!("t={NOW},v1=zz,v0=1"), "secret", NOW), Err(SignatureError::NoMatch));
        assert_eq!(check(&signed[..signed.len() - 2], "secret", NOW), Err(SignatureError::NoMatch));
        assert_eq!(verify(&signed, "secret", b"{}", NOW, 300), Err(SignatureError::NoMatch));
        assert_eq!(check(&format!("{signed},v2=later"), "secret", NOW), Ok(()));
    }
}
