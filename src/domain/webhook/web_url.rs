//! The URLs that a merchant names, and where they may point. Checking the address that a host resolves to is left to
//! the delivery.

use std::net::IpAddr;

use serde_json::Value;
use url::{Host, Url};

const MAX_BYTES: usize = 2048;

/// Which `notify_url` the gateway accepts (contract, section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotifyPolicy {
    /// Any http or https URL, loopback included, for a laptop or CI.
    Anywhere,
    /// Production's rule: https, and no host that is evidently private.
    PublicHttps,
}

/// Reads an absolute http(s) URL of at most 2048 bytes and returns it as it was sent.
///
/// # Errors
/// What is wrong with the value.
pub fn from_json(value: &Value) -> Result<String, String> {
    parse(value).map(|(text, _)| text.to_owned())
}

/// Reads a URL that webhooks may be sent to.
///
/// # Errors
/// What is wrong with the value, or with its address under the policy.
pub fn notify_url_from_json(value: &Value, policy: NotifyPolicy) -> Result<String, String> {
    let (text, url) = parse(value)?;
    if policy == NotifyPolicy::PublicHttps && !(url.scheme() == "https" && has_public_host(&url)) {
        return Err(
            "must be a public https URL, as in production (the sandbox runs with --strict-urls)".to_owned()
        );
    }
    Ok(text.to_owned())
}

fn parse(value: &Value) -> Result<(&str, Url), String> {
    let wrong = || format!("must be an absolute http or https URL of at most {MAX_BYTES} bytes");
    let text = value.as_str().ok_or_else(wrong)?;
    // The parser silently drops tabs and line breaks. A client that sends them has made a mistake.
    let clean = !text.contains(|c: char| c.is_control() || c.is_whitespace());
    let url = Url::parse(text).map_err(|_| wrong())?;
    let web = matches!(url.scheme(), "http" | "https") && url.has_host();
    if text.len() <= MAX_BYTES && clean && web { Ok((text, url)) } else { Err(wrong()) }
}

fn has_public_host(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            let local = ["localhost", "local", "internal"];
            name.contains('.') && !local.iter().any(|suffix| name.rsplit('.').next() == Some(suffix))
        }
        Some(Host::Ipv4(address)) => is_public(address.into()),
        Some(Host::Ipv6(address)) => is_public(address.into()),
        None => false,
    }
}

/// Whether an address is one of the public internet: not loopback, private, link-local (where clouds
/// keep their metadata), shared, multicast, documentation or reserved.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            let special = v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_documentation()
                || v4.is_broadcast();
            let shared = a == 100 && (64..128).contains(&b);
            let benchmark = a == 198 && (b == 18 || b == 19);
            let protocol = a == 192 && b == 0 && c == 0;
            !(special || shared || benchmark || protocol || a == 0 || a >= 240)
        }
        IpAddr::V6(v6) => {
            if let Some(v4) = v6.to_ipv4_mapped() {
                return is_public(v4.into());
            }
            let [first, second, ..] = v6.segments();
            // 2000::/3 is all that is routed; of it, 2001:db8::/32 is documentation, and 2002::/16
            // (6to4) and 2001::/32 (Teredo) carry an IPv4 address that would have to be judged too.
            let tunnel = first == 0x2002 || (first == 0x2001 && (second == 0 || second == 0xdb8));
            first & 0xe000 == 0x2000 && !tunnel
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_urls_are_absolute_and_clean() {
        for ok in ["http://127.0.0.1:3000/hook", "https://shop.example.com/?a=1", "https://例え.jp/"] {
            assert_eq!(from_json(&Value::from(ok)), Ok(ok.to_owned()));
        }
        let long = format!("https://shop.example.com/{}", "a".repeat(2048));
        for bad in [
            "",
            "/done",
            "ftp://a.b/",
            "javascript:alert(1)",
            "http://",
            "https://a.b/\tc",
            "https://a.b/ c",
            &long,
        ] {
            assert!(from_json(&Value::from(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_strict_policy_takes_public_https_only() {
        let check = |url: &str| notify_url_from_json(&Value::from(url), NotifyPolicy::PublicHttps);
        assert!(check("https://shop.example.com/hook").is_ok());
        assert!(check("https://8.8.8.8/hook").is_ok());
        for bad in [
            "http://shop.example.com/",
            "https://localhost/",
            "https://a.localhost/",
            "https://db.internal/",
            "https://127.0.0.1/",
            "https://10.0.0.1/",
            "https://169.254.169.254/",
            "https://100.64.0.1/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://[fd00::1]/",
            "https://[fe80::1]/",
            "https://2130706433/",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
