//! Signatures of webhooks: the header `X-KukoPay-Signature` over the bytes of a body, written and verified
//! (contract, section 6). Choosing the secrets is left to the delivery.

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
    /// There is no `t` entry.
    #[error("the header has no timestamp; it needs t=<unix seconds>")]
    NoTimestamp,
    /// The `t` entry is no number.
    #[error("the header's timestamp is not a number; it needs t=<unix seconds>")]
    MalformedTimestamp,
    /// There is no `v1` entry.
    #[error("the header has no signature; it needs v1=<hex>")]
    NoSignature,
    /// The timestamp lies so many seconds back.
    #[error("the timestamp is {0} seconds old: an old request that is sent again, or a clock that is wrong")]
    Stale(u64),
    /// The timestamp lies so many seconds ahead.
    #[error("the timestamp is {0} seconds ahead: a clock is wrong")]
    Early(u64),
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
        for byte in mac(secret, &timestamp.to_string(), body).finalize().into_bytes() {
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
    let (_, written) = entries().find(|(name, _)| *name == "t").ok_or(SignatureError::NoTimestamp)?;
    let timestamp: i64 = written.parse().map_err(|_| SignatureError::MalformedTimestamp)?;
    let mut signatures = entries().filter(|(name, _)| *name == "v1").map(|(_, hex)| hex).peekable();
    signatures.peek().ok_or(SignatureError::NoSignature)?;
    let fits = |hex: &str| {
        let bytes = from_hex(hex).unwrap_or_default();
        // The timestamp is signed as it is written. Compared in constant time.
        mac(secret, written, body).verify_slice(&bytes).is_ok()
    };
    if !signatures.any(fits) {
        return Err(SignatureError::NoMatch);
    }
    match now.abs_diff(timestamp) {
        off if off <= tolerance_seconds.max(0).unsigned_abs() => Ok(()),
        off if timestamp < now => Err(SignatureError::Stale(off)),
        off => Err(SignatureError::Early(off)),
    }
}

fn mac(secret: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        unreachable!("HMAC takes a key of any length: a long one is hashed first")
    };
    mac.chain_update(timestamp).chain_update(b".").chain_update(body)
}

/// The bytes that lower-case digits stand for: receivers compare the text, so upper case fits nowhere.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: char| if digit.is_ascii_uppercase() { None } else { digit.to_digit(16) };
    let digits: Option<Vec<_>> = text.chars().map(digit).collect();
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
        assert_eq!(check(&signed, "secret", NOW + 300), Ok(()));
        assert_eq!(check(&signed, "secret", NOW + 301), Err(SignatureError::Stale(301)));
        assert_eq!(check(&signed, "secret", NOW - 300), Ok(()));
        assert_eq!(check(&signed, "secret", NOW - 301), Err(SignatureError::Early(301)));
        assert_eq!(check("v1=00", "secret", NOW), Err(SignatureError::NoTimestamp));
        for timestamp in ["", "x", "1e9", "99999999999999999999"] {
            let malformed = Err(SignatureError::MalformedTimestamp);
            assert_eq!(check(&format!("t={timestamp},v1=00"), "secret", NOW), malformed, "{timestamp}");
        }
        assert_eq!(check("t=1", "secret", NOW), Err(SignatureError::NoSignature));
        assert_eq!(check(&format!("t={NOW},v1=zz,v0=1"), "secret", NOW), Err(SignatureError::NoMatch));
        assert_eq!(check(&signed[..signed.len() - 2], "secret", NOW), Err(SignatureError::NoMatch));
        assert_eq!(verify(&signed, "secret", b"{}", NOW, 300), Err(SignatureError::NoMatch));
        assert_eq!(check(&format!("{signed},v2=later"), "secret", NOW), Ok(()));
        let (timestamp, hex) = signed.split_once(",v1=").unwrap();
        let upper_case = format!("{timestamp},v1={}", hex.to_uppercase());
        assert_eq!(check(&upper_case, "secret", NOW), Err(SignatureError::NoMatch));
    }

    #[test]
    fn the_timestamp_is_signed_as_it_is_written() {
        let signed = header(&["secret"], NOW, BODY);
        let other_text = signed.replace("t=", "t=0");
        assert_eq!(check(&other_text, "secret", NOW), Err(SignatureError::NoMatch));
    }

    #[test]
    fn any_secret_and_any_time_will_do() {
        for secret in ["", "年度", &"long".repeat(100)] {
            assert_eq!(check(&header(&[secret], NOW, BODY), secret, NOW), Ok(()));
        }
        let signed = header(&["secret"], i64::MIN, BODY);
        assert_eq!(check(&signed, "secret", i64::MAX), Err(SignatureError::Stale(u64::MAX)));
    }
}
