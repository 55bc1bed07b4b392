//! What every HTML page needs: its headers, its style and script, and the language that its reader prefers.

pub(super) mod assets;
pub(super) mod language;

use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use url::{Host, Url};

use super::error::ApiError;

/// A page with its headers. Its forms may lead to the shop, because Chromium applies `form-action` to the redirect
/// that answers a form.
pub(super) fn html(status: StatusCode, page: &impl Template, shop: Option<&Url>) -> Response {
    let Ok(text) = page.render() else { return ApiError::Internal.into_response() };
    let shop = shop.map(form_target).unwrap_or_default();
    let policy = format!(
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; form-action 'self' {shop}; base-uri \
         'none'; frame-ancestors 'none'"
    );
    let policy = HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    (status, headers, text).into_response()
}

/// The shop as the policy names it: its origin, or only its scheme. A policy cannot name an IPv6 address, and a
/// character such as `;`, which a URL's host may hold, would end the directive.
fn form_target(shop: &Url) -> String {
    let is_named =
        |host: &str| host.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_'));
    match shop.host() {
        Some(Host::Domain(host)) if is_named(host) => shop.origin().ascii_serialization(),
        Some(Host::Ipv4(_)) => shop.origin().ascii_serialization(),
        _ => format!("{}:", shop.scheme()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_may_lead_to_the_shop_and_nowhere_else() {
        let target = |url| form_target(&Url::parse(url).unwrap());
        assert_eq!(target("https://shop.example.com:8443/a?b"), "https://shop.example.com:8443");
        assert_eq!(target("http://例え.jp/"), "http://xn--r8jz45g.jp");
        assert_eq!(target("https://127.0.0.1:3000/done"), "https://127.0.0.1:3000");
        assert_eq!(target("http://[::1]:3000/done"), "http:");
        for host in
            ["a;sandbox", "a,default-src", "*", "*.shop.test", "'self'", "a\"b", "a(b)", "a&b=c", "a!$+~`{}"]
        {
            let shop = Url::parse(&format!("https://{host}:8443/")).unwrap();
            assert_eq!(form_target(&shop), "https:", "{host}");
        }
    }
}
