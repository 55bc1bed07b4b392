//! What is never kept, neither in the journal, nor in the log, nor in the copy of a request under its
//! Idempotency-Key: API keys, other credentials, and possible card numbers, wherever a client put them. Also the
//! longest text that the journal keeps.
//!
//! The rule: of 13 to 19 digits with a valid check digit, only the first and last four stay readable, whatever
//! separators and escapes are between them and whatever surrounds them. The merchant's and the gateway's own numbers
//! stay readable as whole values of their fields or in a path (`spared`), as do longer numbers, times, UUIDs and
//! digests. Of an API key, only the prefix stays. A text is masked before it is shortened: a number cut in half would
//! not be recognised.

mod api_keys;
mod cards;
mod reading;
mod spared;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use crate::domain::json::strict;
use reading::Reading;

/// How much of a body is kept, in bytes.
const MAX_BODY: usize = 16 * 1024;
/// How much of a header's value is kept, in bytes.
const MAX_HEADER: usize = 1024;
/// Marks what is left out.
const LEFT_OUT: &str = "…";
/// Replaces a masked digit.
const MASK: &str = "*";

/// Headers that hold credentials.
const CREDENTIALS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "set-cookie"];
/// Parts of the names of other such headers.
const CREDENTIAL_WORDS: [&str; 6] = ["token", "secret", "password", "credential", "api-key", "apikey"];

/// A header as the journal keeps it. `name` is in lower case.
#[must_use]
pub fn header(name: &str, value: &[u8]) -> String {
    let value = String::from_utf8_lossy(value);
    let is_credential =
        CREDENTIALS.contains(&name) || CREDENTIAL_WORDS.iter().any(|word| name.contains(word));
    match name {
        // Its kind stays readable, its owner does not.
        "x-api-key" => {
            let prefix = ["kuko_test_", "kuko_live_"].into_iter().find(|prefix| value.starts_with(prefix));
            format!("{}{LEFT_OUT}", prefix.unwrap_or_default())
        }
        _ if is_credential => LEFT_OUT.to_owned(),
        _ => shorten(&text(&value), MAX_HEADER),
    }
}

/// An Idempotency-Key as the journal keeps it. The key itself is stored as sent: it is compared.
#[must_use]
pub fn idempotency_key(key: &str) -> String {
    header("idempotency-key", key.as_bytes())
}

/// A body as the journal keeps it.
#[must_use]
pub fn body(bytes: &[u8]) -> String {
    shorten(&whole_body(&String::from_utf8_lossy(bytes)), MAX_BODY)
}

/// A body, masked and not shortened.
#[must_use]
pub fn whole_body(body: &str) -> Cow<'_, str> {
    mask(body, &spared::in_body(body))
}

/// A path with its query as the journal keeps it.
#[must_use]
pub fn path(path: &str) -> String {
    shorten(&whole_path(path), MAX_HEADER)
}

/// A path with its query, masked and not shortened.
#[must_use]
pub fn whole_path(path: &str) -> Cow<'_, str> {
    mask(path, &spared::in_path(path))
}

/// Any other text, masked and not shortened.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    mask(text, &spared::in_text(text))
}

/// Whether a text holds a test or live API key.
#[must_use]
pub fn holds_api_key(text: &str) -> bool {
    let mut keys = Vec::new();
    api_keys::find(text, Reading::Plain, &mut keys);
    !keys.is_empty()
}

/// Reads a masked body as JSON. A number that was masked reads as a string.
///
/// # Errors
/// As for [`strict::parse`].
pub fn parse(masked: &[u8]) -> Result<Value, String> {
    strict::parse(masked).or_else(|error| match quote_masked_numbers(masked) {
        Some(quoted) => strict::parse(&quoted),
        None => Err(error),
    })
}

/// At most this many bytes, without NUL, which Postgres cannot store.
fn shorten(text: &str, bytes: usize) -> String {
    let text = text.replace('\0', "\u{fffd}");
    if text.len() <= bytes {
        return text;
    }
    format!("{}{LEFT_OUT}", &text[..text.floor_char_boundary(bytes)])
}

fn mask<'a>(text: &'a str, spared: &[Range<usize>]) -> Cow<'a, str> {
    let (mut digits, mut keys) = (Vec::new(), Vec::new());
    let has_escapes = text.contains(['%', '\\']);
    for reading in [Some(Reading::Plain), has_escapes.then_some(Reading::Unescaped)].into_iter().flatten() {
        cards::find(text, reading, spared, &mut digits);
        api_keys::find(text, reading, &mut keys);
    }
    let digits = digits.into_iter().map(|place| (place, MASK));
    let keys = keys.into_iter().map(|place| (place, LEFT_OUT));
    let mut edits: Vec<_> = digits.chain(keys).collect();
    // Of two that start at the same place, the longer one comes first and covers the other.
    edits.sort_unstable_by(|(one, _), (other, _)| (one.start, other.end).cmp(&(other.start, one.end)));
    if edits.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(edited(text, &edits)) }
}

/// A text with parts replaced. If parts overlap, the rest of the later one is left out.
fn edited(text: &str, edits: &[(Range<usize>, &str)]) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut done = 0;
    for (place, replacement) in edits {
        if place.start >= done {
            kept.push_str(&text[done..place.start]);
            kept.push_str(replacement);
        }
        done = done.max(place.end);
    }
    kept + &text[done..]
}

/// Quotes masked numbers outside of strings, which are not JSON. `None` if there are none.
fn quote_masked_numbers(json: &[u8]) -> Option<Vec<u8>> {
    let mut quoted = Vec::with_capacity(json.len() + 16);
    let (mut in_string, mut found, mut at) = (false, false, 0);
    while let Some(&byte) = json.get(at) {
        let in_number = |byte: &&u8| matches!(**byte, b'0'..=b'9' | b'*' | b'-' | b'+' | b'.' | b'e' | b'E');
        let number = json[at..].iter().take_while(in_number).count();
        if in_string || number == 0 {
            let length = if in_string && byte == b'\\' { 2 } else { 1 };
            in_string ^= byte == b'"';
            quoted.extend_from_slice(&json[at..(at + length).min(json.len())]);
            at += length;
            continue;
        }
        let number = &json[at..at + number];
        let is_masked = number.contains(&b'*');
        found |= is_masked;
        quoted.extend(is_masked.then_some(b'"'));
        quoted.extend_from_slice(number);
        quoted.extend(is_masked.then_some(b'"'));
        at += number.len();
    }
    found.then_some(quoted)
}
