//! API keys: their form, and the merchant of each key (contract, section 1). A key is kept only while its request is
//! read. What is stored is the merchant, which comes from the key's SHA-256.

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::domain::id::MerchantId;

const TEST_PREFIX: &str = "kuko_test_";
const LIVE_PREFIX: &str = "kuko_live_";
const BODY_LENGTH: std::ops::RangeInclusive<usize> = 8..=64;

/// Why a text is not a test key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiKeyError {
    /// Not of the form `kuko_test_` + 8 to 64 of `[A-Za-z0-9_-]`.
    Malformed,
    /// A key of production, which must not be typed into a sandbox.
    Live,
}

/// Reads an API key and returns its merchant.
///
/// The merchant's number is the first 128 bits of the key's SHA-256 as a UUID: a merchant needs no
/// look-up, and the key cannot be told from what is stored.
///
/// # Errors
/// See [`ApiKeyError`].
pub fn merchant_of(key: &str) -> Result<MerchantId, ApiKeyError> {
    if key.starts_with(LIVE_PREFIX) {
        return Err(ApiKeyError::Live);
    }
    let body = key.strip_prefix(TEST_PREFIX).ok_or(ApiKeyError::Malformed)?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !BODY_LENGTH.contains(&body.len()) || !body.bytes().all(allowed) {
        return Err(ApiKeyError::Malformed);
    }
    let digest = Sha256::digest(key.as_bytes());
    let mut first = [0; 16];
    first.copy_from_slice(&digest[..16]);
    Ok(MerchantId::from_uuid(Uuid::new_v8(first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_documented_form_are_merchants_of_their_own() {
        let one = merchant_of("kuko_test_local_000001");
        assert!(one.is_ok());
        assert_eq!(one, merchant_of("kuko_test_local_000001"));
        assert_ne!(one, merchant_of("kuko_test_local_000002"));
        assert!(merchant_of(&format!("kuko_test_{}", "a".repeat(64))).is_ok());
    }

    #[test]
    fn everything_else_is_refused() {
        assert_eq!(merchant_of("kuko_live_12345678"), Err(ApiKeyError::Live));
        for key in ["", "sk_test_12345678", "kuko_test_1234567", "kuko_test_1234 678", "kuko_test_12345678é"]
        {
            assert_eq!(merchant_of(key), Err(ApiKeyError::Malformed), "{key}");
        }
        assert_eq!(merchant_of(&format!("kuko_test_{}", "a".repeat(65))), Err(ApiKeyError::Malformed));
    }
}
