//! One POST to a receiver, and its outcome in plain words. A receiver is not trusted: it gets ten seconds, a bounded
//! part of its answer is read, and redirects are not followed (contract, section 6).

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, TRANSFER_ENCODING};
use reqwest::{Client, ClientBuilder, StatusCode, redirect};
use serde_json::Value;

use crate::domain::id::EventId;
use crate::domain::masking;
use crate::domain::webhook::delivery::AttemptOutcome;
use crate::domain::webhook::signature::HEADER;
use crate::domain::webhook::web_url::{self, NotifyPolicy};

const X_KUKOPAY_EVENT_ID: HeaderName = HeaderName::from_static("x-kukopay-event-id");
const USER_AGENT: &str = concat!("kukopay-sandbox/", env!("CARGO_PKG_VERSION"));

/// How long connecting, sending and reading the answer may take together.
const LIMIT: Duration = Duration::from_secs(10);
/// How much of an answer is read, in bytes. The rest does not matter.
const READ: usize = 256 * 1024;
/// How much of it is kept, in bytes.
const EXCERPT: usize = 1024;
/// How much of it is masked, in bytes: more than the excerpt, as masking shortens.
const MASKED: usize = 16 * EXCERPT;

/// Sends webhooks.
#[derive(Debug)]
pub(super) struct Sender {
    http: Result<Client, String>,
    policy: NotifyPolicy,
}

/// The part of an answer that has arrived.
#[derive(Default)]
struct Received {
    status: Option<StatusCode>,
    body: Vec<u8>,
}

impl Sender {
    /// A sender that keeps to a policy.
    pub(super) fn new(policy: NotifyPolicy) -> Self {
        // reqwest is built without a provider of TLS. If the process has one already, that one stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = builder(policy).build().or_else(|error| {
            tracing::warn!(error = root(&error), "no https receiver will be trusted");
            builder(policy).tls_certs_only([]).build()
        });
        Self { http: http.map_err(|error| root(&error)), policy }
    }

    /// Sends a body as it is.
    pub(super) async fn post(
        &self,
        url: &str,
        event: EventId,
        signature: &str,
        body: &str,
    ) -> AttemptOutcome {
        let started = Instant::now();
        let mut received = Received::default();
        let exchange = self.exchange(url, event, signature, body, &mut received);
        let error = match tokio::time::timeout(LIMIT, exchange).await {
            Ok(Ok(())) => received.status.and_then(why_no_acknowledgement),
            Ok(Err(error)) => Some(error),
            Err(_) if received.status.is_some() => {
                Some(format!("the answer was not complete within {} s", LIMIT.as_secs()))
            }
            Err(_) => Some(format!("no answer within {} s", LIMIT.as_secs())),
        };
        AttemptOutcome {
            status: received.status.map(|status| status.as_u16()),
            error,
            duration_ms: i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX),
            response_excerpt: received.status.map(|_| excerpt(&received.body)),
        }
    }

    async fn exchange(
        &self,
        url: &str,
        event: EventId,
        signature: &str,
        body: &str,
        received: &mut Received,
    ) -> Result<(), String> {
        // Checked again: the policy may have become stricter, and an IP address does not pass the resolver.
        if web_url::notify_url_from_json(&Value::from(url), self.policy).is_err() {
            return Err("the URL is not public https, as --strict-urls asks for; nothing was sent".to_owned());
        }
        let request = self.http.as_ref().map_err(|error| format!("nothing can be sent: {error}"))?.post(url);
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .header(HEADER, signature)
            .header(X_KUKOPAY_EVENT_ID, event.to_string())
            .body(body.to_owned());
        let mut response = request.send().await.map_err(|error| describe(&error))?;
        received.status = Some(response.status());
        // Such an answer ends with its connection, which simple servers do not close properly.
        let ends_by_closing =
            ![CONTENT_LENGTH, TRANSFER_ENCODING].iter().any(|name| response.headers().contains_key(name));
        while received.body.len() < READ {
            match response.chunk().await {
                Ok(Some(chunk)) => received.body.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(_) if ends_by_closing => break,
                Err(error) => return Err(format!("the answer broke off: {}", root(&error))),
            }
        }
        Ok(())
    }
}

fn builder(policy: NotifyPolicy) -> ClientBuilder {
    let builder = Client::builder()
        .user_agent(USER_AGENT)
        .redirect(redirect::Policy::none())
        .no_proxy()
        // Each attempt has its own connection, so that no earlier attempt can slow it down or cut it off.
        .pool_max_idle_per_host(0);
    match policy {
        NotifyPolicy::Anywhere => builder,
        NotifyPolicy::PublicHttps => builder.dns_resolver(PublicAddresses),
    }
}

/// Resolves names to public addresses only. The connection goes to one of the addresses checked here, so a name that
/// resolves to another address a moment later gains nothing.
#[derive(Debug)]
struct PublicAddresses;

impl Resolve for PublicAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move { only_public(tokio::net::lookup_host((name.as_str(), 0)).await?) })
    }
}

fn only_public(
    addresses: impl Iterator<Item = SocketAddr>,
) -> Result<Addrs, Box<dyn Error + Send + Sync + 'static>> {
    let public: Vec<_> = addresses.filter(|address| web_url::is_public(address.ip())).collect();
    if public.is_empty() { Err("it has no public address".into()) } else { Ok(Box::new(public.into_iter())) }
}

fn why_no_acknowledgement(status: StatusCode) -> Option<String> {
    if status.is_success() {
        None
    } else if status.is_redirection() {
        Some(format!("the redirect ({}) was not followed; only a 2xx is an acknowledgement", status.as_u16()))
    } else {
        Some(format!("{} is no acknowledgement, only a 2xx is", status.as_u16()))
    }
}

/// What went wrong, without the URL, which may hold a password.
fn describe(error: &reqwest::Error) -> String {
    let cause = root(error);
    if error.is_builder() {
        format!("the URL cannot be used: {cause}")
    } else if error.is_dns() {
        format!("the host name cannot be resolved: {cause}")
    } else if error.is_connect() {
        format!("no connection: {cause}")
    } else {
        format!("the connection broke before an answer came: {cause}")
    }
}

/// The innermost cause of an error. Only the outermost error holds the URL; it is removed from its text.
fn root(error: &reqwest::Error) -> String {
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(inner) = cause.and_then(Error::source) {
        cause = Some(inner);
    }
    cause.map_or_else(|| "unknown cause".to_owned(), ToString::to_string)
}

/// The beginning of an answer as text that the database can hold.
fn excerpt(body: &[u8]) -> String {
    // Masked before it is cut: the first digits of a cut card number would not be recognised.
    let beginning = String::from_utf8_lossy(&body[..body.len().min(MASKED)]);
    let mut text = masking::whole_body(&beginning).replace('\0', "\u{fffd}");
    text.truncate(text.floor_char_boundary(EXCERPT));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(list: &[&str]) -> Result<Vec<String>, String> {
        let all = list.iter().map(|text| text.parse::<SocketAddr>().unwrap());
        match only_public(all) {
            Ok(public) => Ok(public.map(|address| address.to_string()).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn only_public_addresses_are_connected_to() {
        assert_eq!(addresses(&["127.0.0.1:0", "8.8.8.8:0"]).unwrap(), ["8.8.8.8:0"]);
        for private in ["10.0.0.1:0", "169.254.169.254:0", "[::1]:0", "[::ffff:127.0.0.1]:0", "[fd00::1]:0"] {
            assert_eq!(addresses(&[private]).unwrap_err(), "it has no public address");
        }
        assert!(addresses(&[]).is_err());
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_loopback_is_not_resolved() {
        assert!(PublicAddresses.resolve("localhost".parse().unwrap()).await.is_err());
    }

    #[tokio::test]
    async fn the_strict_policy_sends_nothing_to_this_machine() {
        let sender = Sender::new(NotifyPolicy::PublicHttps);
        for url in ["http://127.0.0.1:1/", "https://127.0.0.1:1/", "https://[::1]:1/", "https://localhost:1/"]
        {
            let outcome = sender.post(url, EventId::generate(), "t=1,v1=00", "{}").await;
            assert!(outcome.error.unwrap().contains("--strict-urls"), "{url}");
            assert_eq!(outcome.status, None);
        }
    }

    #[test]
    fn an_excerpt_is_short_text_without_nul() {
        assert_eq!(excerpt(b"a\0b\xff"), "a\u{fffd}b\u{fffd}");
        assert_eq!(excerpt(&[b'x'; 5000]).len(), EXCERPT);
        assert!(excerpt(&[0xff; 5000]).len() <= EXCERPT);
        let cut = format!("{}4242424242424242 kuko_live_abcdefgh", "x".repeat(EXCERPT - 6));
        assert!(excerpt(cut.as_bytes()).ends_with("x4242**"));
    }
}
