//! What is never searched for card numbers: the merchant's and the gateway's own numbers, as whole values of their
//! fields or in a path; UUIDs; and digests, which are hex words of known lengths.

use std::ops::Range;

/// The fields whose values are numbers of orders and refunds. In a query, a list starts after one.
const FIELDS: [&str; 5] = ["out_trade_no", "trade_no", "out_refund_no", "refund_no", "starting_after"];
/// The longest such number, in bytes.
const MAX_NUMBER: usize = 64;
/// How long hex digests are, and UUIDs without hyphens: those of the gateway's numbers.
const DIGESTS: [usize; 6] = [32, 40, 56, 64, 96, 128];
/// The hyphens of a UUID.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const UUID_LENGTH: usize = 36;

/// The spans of a body, in order.
pub(super) fn in_body(text: &str) -> Vec<Range<usize>> {
    let mut spans = identifiers(text);
    for (quote, _) in text.match_indices("_no\"") {
        let end = quote + "_no".len();
        let Some(start) = text[..end].rfind('"') else { continue };
        if FIELDS.contains(&&text[start + 1..end]) && !text[..start].ends_with('\\') {
            spans.extend(value_after(text, end + 1));
        }
    }
    in_order(spans)
}

/// The spans of a path with its query, in order.
pub(super) fn in_path(text: &str) -> Vec<Range<usize>> {
    let mut spans = identifiers(text);
    let place = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let mut segments = path.split('/').skip_while(|part| !matches!(*part, "orders" | "refunds")).skip(1);
    let values = query.split('&').filter_map(|pair| pair.split_once('='));
    let values = values.filter(|(name, _)| FIELDS.contains(name)).map(|(_, value)| value);
    let numbers = segments.next().into_iter().chain(values).filter(|part| is_number(part));
    spans.extend(numbers.map(|number| place(number)..place(number) + number.len()));
    in_order(spans)
}

/// The spans of any other text, in order.
pub(super) fn in_text(text: &str) -> Vec<Range<usize>> {
    in_order(identifiers(text))
}

fn in_order(mut spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    spans.sort_unstable_by_key(|span| span.start);
    spans
}

/// The string after the name of a JSON member, if it has the form of a number.
fn value_after(text: &str, name_end: usize) -> Option<Range<usize>> {
    let value =
        text[name_end..].trim_ascii_start().strip_prefix(':')?.trim_ascii_start().strip_prefix('"')?;
    let start = text.len() - value.len();
    let length = value.bytes().take(MAX_NUMBER + 1).position(|byte| byte == b'"')?;
    is_number(&value[..length]).then_some(start..start + length)
}

fn is_number(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=MAX_NUMBER).contains(&text.len()) && text.bytes().all(allowed)
}

/// UUIDs and digests.
fn identifiers(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut spans = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let word = &bytes[start..];
        let length = word.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let is_hex = |word: &[u8]| word.iter().all(u8::is_ascii_hexdigit);
        let next = if length == HYPHENS[0] && is_uuid(word) {
            spans.push(start..start + UUID_LENGTH);
            start + UUID_LENGTH
        } else {
            if DIGESTS.contains(&length) && is_hex(&word[..length]) {
                spans.push(start..start + length);
            }
            start + length
        };
        start = next.max(start + 1);
    }
    spans
}

fn is_uuid(text: &[u8]) -> bool {
    let Some(uuid) = text.get(..UUID_LENGTH) else { return false };
    let fits = |(at, byte): (usize, &u8)| {
        if HYPHENS.contains(&at) { *byte == b'-' } else { byte.is_ascii_hexdigit() }
    };
    uuid.iter().enumerate().all(fits) && !text.get(UUID_LENGTH).is_some_and(u8::is_ascii_alphanumeric)
}
