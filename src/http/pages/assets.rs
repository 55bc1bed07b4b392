//! The pages' style and script, built into the program. Their address holds a digest of their content, so a browser
//! may keep them for ever and never uses old ones.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::http::error::ApiError;

const FILES: [(&str, &str, &str); 2] = [
    ("checkout.css", "text/css; charset=utf-8", include_str!("checkout.css")),
    ("checkout.js", "text/javascript; charset=utf-8", include_str!("checkout.js")),
];

const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// The digest of all files.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let digest = FILES.iter().fold(Sha256::new(), |digest, (_, _, text)| digest.chain_update(text));
    let first = digest.finalize().iter().take(8).fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    format!("{first:016x}")
});

/// The digest that an asset's address holds.
pub(in crate::http) fn version() -> &'static str {
    &VERSION
}

/// `GET /checkout/assets/{version}/{file}`
pub(in crate::http) async fn show(
    Path((version, name)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let file = FILES.iter().find(|(file, ..)| version == *VERSION && name == *file);
    let (_, content_type, text) = file.ok_or_else(|| ApiError::EndpointNotFound(String::new()))?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, FOR_EVER),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((headers, *text).into_response())
}
