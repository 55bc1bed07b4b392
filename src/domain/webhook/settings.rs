//! Where a merchant's webhooks go and what signs them: the settings, and how they may be changed
//! (contract, section 7).

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::domain::json::fields::{Fields, Parsed, kind_of};
use crate::domain::webhook::web_url::{self, NotifyPolicy};

const MAX_SECRET: usize = 255;
/// How long the old secret signs, too, if a rotation does not say.
const DEFAULT_OVERLAP: Duration = Duration::DAY;
const MAX_OVERLAP: Duration = Duration::days(30);

/// A secret that signs webhooks. Only its merchant can read it; it never reaches a log.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct WebhookSecret(String);

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

impl WebhookSecret {
    /// A new random secret.
    #[must_use]
    pub fn generate() -> Self {
        Self(format!("whsec_{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
    }

    /// A stored secret.
    #[must_use]
    pub const fn stored(text: String) -> Self {
        Self(text)
    }

    /// The text that keys the signature.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn from_json(value: &Value) -> Result<Self, String> {
        let text = value.as_str().unwrap_or_default();
        let fits = (1..=MAX_SECRET).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("must be a string of 1 to {MAX_SECRET} visible ASCII characters"))
        }
    }
}

/// A merchant's webhook settings.
#[derive(Debug, Clone, Serialize)]
pub struct WebhookSettings {
    /// The URL of events whose order or refund names none.
    pub url: Option<String>,
    /// The secret.
    pub secret: WebhookSecret,
    /// Until when the previous secret signs, too, in real time; absent if it does not.
    #[serde(with = "crate::domain::time::rfc3339::option")]
    pub previous_secret_until: Option<OffsetDateTime>,
}

/// A change of the settings. What is `None` stays.
#[derive(Debug, Clone)]
pub struct SettingsChange {
    /// The new URL, or `Some(None)` to remove it.
    pub url: Option<Option<String>>,
    /// The new secret. The old one signs no more.
    pub secret: Option<WebhookSecret>,
}

impl SettingsChange {
    /// Reads the body of `PUT /sandbox/webhook`. Unlike elsewhere, null does not count as absent: it removes the URL.
    #[must_use]
    pub fn from_json(object: Map<String, Value>, policy: NotifyPolicy) -> Parsed<Self> {
        let removes_url = object.get("url").is_some_and(Value::is_null);
        let mut fields = Fields::new(object);
        let url = fields.optional("url", |value| web_url::notify_url_from_json(value, policy));
        let secret = fields.optional("secret", WebhookSecret::from_json);
        let url = if removes_url { Some(None) } else { url.map(Some) };
        fields.finish(|| Some(Self { url, secret }))
    }
}

/// A rotation of the secret: for a while, both sign.
#[derive(Debug)]
pub struct Rotation {
    /// The new secret.
    pub secret: WebhookSecret,
    /// How long the old secret signs, too, in real time.
    pub overlap: Duration,
}

impl Rotation {
    /// Reads the body of `POST /sandbox/webhook/rotate`.
    #[must_use]
    pub fn from_json(object: Map<String, Value>) -> Parsed<Self> {
        let mut fields = Fields::new(object);
        let overlap = fields.optional("overlap_seconds", overlap).unwrap_or(DEFAULT_OVERLAP);
        let secret = fields.optional("secret", WebhookSecret::from_json);
        let secret = secret.unwrap_or_else(WebhookSecret::generate);
        fields.finish(|| Some(Self { secret, overlap }))
    }
}

fn overlap(value: &Value) -> Result<Duration, String> {
    let max = MAX_OVERLAP.whole_seconds();
    let seconds = value.as_i64().filter(|seconds| (0..=max).contains(seconds));
    seconds
        .map(Duration::seconds)
        .ok_or_else(|| format!("must be an integer from 0 to {max}; {} was sent", kind_of(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn change(body: &Value) -> Result<SettingsChange, Vec<String>> {
        let parsed =
            SettingsChange::from_json(body.as_object().cloned().unwrap_or_default(), NotifyPolicy::Anywhere);
        parsed.content.map_err(|errors| errors.into_iter().map(|error| error.code).collect())
    }

    #[test]
    fn what_is_absent_stays_and_a_null_removes_the_url() {
        let kept = change(&json!({"secret": null})).unwrap();
        assert_eq!((kept.url, kept.secret), (None, None));
        assert_eq!(change(&json!({"url": null})).unwrap().url, Some(None));
        let set = change(&json!({"url": "http://127.0.0.1/hook", "secret": "s"})).unwrap();
        assert_eq!(set.url, Some(Some("http://127.0.0.1/hook".to_owned())));
        assert_eq!(set.secret.unwrap().as_str(), "s");
        let both = change(&json!({"url": "/hook", "secret": "a b"})).unwrap_err();
        assert_eq!(both, ["url_invalid", "secret_invalid"]);
        for secret in [json!(""), json!(1), json!("é"), json!("s".repeat(256))] {
            assert_eq!(change(&json!({"secret": secret})).unwrap_err(), ["secret_invalid"]);
        }
    }

    #[test]
    fn secrets_are_random_and_do_not_show_in_logs() {
        let (one, two) = (WebhookSecret::generate(), WebhookSecret::generate());
        assert_ne!(one, two);
        assert_eq!(one.as_str().len(), "whsec_".len() + 64);
        assert_eq!(format!("{one:?}"), "WebhookSecret(…)");
    }
}
