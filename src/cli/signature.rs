//! The subcommands `sign` and `verify-signature`: a webhook's signature by hand, over the bytes of
//! standard input. The signature itself is in `domain::signature`.

use std::fmt;
use std::io::Read;

use clap::Args;
use time::OffsetDateTime;

use crate::domain::webhook::signature::{self, HEADER, SignatureError, TOLERANCE_SECONDS};

/// The key that signs webhooks.
#[derive(Args)]
struct SigningKey {
    /// The secret of the webhook
    #[arg(long, env = "KUKOPAY_WEBHOOK_SECRET", hide_env_values = true)]
    secret: String,
}

/// Without the secret.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

/// How a body is signed.
#[derive(Debug, Args)]
pub(super) struct Sign {
    #[command(flatten)]
    key: SigningKey,

    /// The time of the signature, in Unix seconds [default: now]
    #[arg(long, allow_negative_numbers = true)]
    timestamp: Option<i64>,
}

/// How a signature is checked.
#[derive(Debug, Args)]
pub(super) struct VerifySignature {
    #[command(flatten)]
    key: SigningKey,

    /// The header X-KukoPay-Signature, with or without its name
    #[arg(long)]
    header: String,

    /// The time at which it is checked, in Unix seconds [default: now]
    #[arg(long, allow_negative_numbers = true)]
    now: Option<i64>,

    /// How many seconds the signature's time may be off
    #[arg(long, default_value_t = TOLERANCE_SECONDS, value_parser = clap::value_parser!(i64).range(0..))]
    tolerance: i64,
}

/// Prints the header that signs standard input, for `curl -H "$(…)"`.
///
/// # Errors
/// Where standard input cannot be read.
pub(super) fn sign(sign: &Sign) -> Result<(), String> {
    let timestamp = sign.timestamp.unwrap_or_else(now);
    println!("{HEADER}: {}", signature::header(&[&sign.key.secret], timestamp, &body()?));
    Ok(())
}

/// Checks that a header signs standard input.
///
/// # Errors
/// Why it does not fit.
pub(super) fn verify(verify: &VerifySignature) -> Result<(), String> {
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

/// The likely reason why a body does not match its signature.
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

/// The value of a header that is given with or without its name.
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
