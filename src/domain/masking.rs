//! What never gets into the journal: API keys, other credentials, and what may be a card's number, wherever
//! a client put it. Also how long a text may get there.

use super::card;
use super::occasion::Occasion;

/// How much of a body is kept, in bytes.
const MAX_BODY: usize = 16 * 1024;
/// How much of a header's value is kept, in bytes.
const MAX_HEADER: usize = 1024;
/// What stands where something is left out.
const LEFT_OUT: &str = "…";

/// Headers that prove who somebody is.
const CREDENTIALS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "set-cookie"];

/// A header as the journal keeps it. `name` is in lower case.
#[must_use]
pub fn header(name: &str, value: &[u8]) -> String {
    let value = String::from_utf8_lossy(value);
    match name {
        // Its kind can be told, not whose it is.
        "x-api-key" => match value.match_indices('_').nth(1) {
            Some((end, _)) if end < 16 => format!("{}{LEFT_OUT}", &value[..=end]),
            _ => LEFT_OUT.to_owned(),
        },
        // The journal keeps it apart as well, to tell attempts of one operation.
        "idempotency-key" => shorten(&value, MAX_HEADER),
        name if CREDENTIALS.contains(&name) => LEFT_OUT.to_owned(),
        _ => mask_cards(&shorten(&value, MAX_HEADER), &Occasion::default()),
    }
}

/// A body as the journal keeps it: shortened, and masked but for the numbers that the call is about.
#[must_use]
pub fn body(bytes: &[u8], occasion: &Occasion) -> String {
    mask_cards(&shorten(&String::from_utf8_lossy(bytes), MAX_BODY), occasion)
}

/// A path with its query as the journal keeps it: as for [`body`].
#[must_use]
pub fn path(text: &str, occasion: &Occasion) -> String {
    mask_cards(&shorten(text, MAX_HEADER), occasion)
}

/// At most so many bytes. No Postgres text holds a NUL.
fn shorten(text: &str, bytes: usize) -> String {
    let text = text.replace('\0', "\u{fffd}");
    if text.len() <= bytes {
        return text;
    }
    format!("{}{LEFT_OUT}", &text[..text.floor_char_boundary(bytes)])
}

/// Masks what may be a card's number: digits, perhaps grouped by spaces or hyphens, that are no part of a
/// longer word. All but the first and the last four become asterisks.
fn mask_cards(text: &str, occasion: &Occasion) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let (word, after) = from.split_at(grouped_digits(from));
        kept.push_str(before);
        let inside = kept.ends_with(is_word) || after.starts_with(is_word);
        if !inside && !occasion.names(word) && may_be_a_card(word) {
            kept.push_str(&masked(word));
        } else {
            kept.push_str(word);
        }
        rest = after;
    }
    kept + rest
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// How long the digits are that a text starts with, with single spaces or hyphens between them.
fn grouped_digits(text: &str) -> usize {
    let mut end = 0;
    for (at, c) in text.char_indices() {
        match c {
            '0'..='9' => end = at + 1,
            ' ' | '-' if end == at => {}
            _ => break,
        }
    }
    end
}

/// Whether a network gives out such numbers, and the check digit fits. Times in milliseconds and most order
/// numbers, which are digits as well, are none.
fn may_be_a_card(word: &str) -> bool {
    let digits: String = word.chars().filter(char::is_ascii_digit).collect();
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| digits.starts_with(prefix));
    let known = match digits.len() {
        13 => starts(&["4"]),
        14 => starts(&["30", "36", "38", "39"]),
        15 => starts(&["34", "37"]),
        16 => starts(&["22", "23", "24", "25", "26", "27", "3", "4", "5", "6", "81"]),
        17 | 18 => starts(&["5", "6", "81"]),
        19 => starts(&["4", "5", "6", "81"]),
        _ => false,
    };
    known && card::passes_luhn(&digits)
}

fn masked(word: &str) -> String {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let mut place = 0;
    let mask = |c: char| {
        place += usize::from(c.is_ascii_digit());
        if c.is_ascii_digit() && (5..=digits - 4).contains(&place) { '*' } else { c }
    };
    word.chars().map(mask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_stay_out() {
        assert_eq!(header("x-api-key", b"kuko_test_local_000001"), "kuko_test_…");
        assert_eq!(header("x-api-key", b"short"), "…");
        assert_eq!(header("authorization", b"Bearer secret"), "…");
        assert_eq!(header("cookie", b"session=1"), "…");
        assert_eq!(header("user-agent", b"shop/1.0"), "shop/1.0");
        assert_eq!(header("x-card", b"4242424242424242"), "4242********4242");
        assert_eq!(header("idempotency-key", b"4242424242424242"), "4242424242424242");
    }

    #[test]
    fn numbers_of_cards_are_masked() {
        let keep = |text: &str| body(text.as_bytes(), &Occasion::default());
        assert_eq!(keep(r#"{"card":"4242424242424242"}"#), r#"{"card":"4242********4242"}"#);
        assert_eq!(keep("pay 4000-0000-0000-0002!"), "pay 4000-****-****-0002!");
        assert_eq!(keep("[378282246310005,1]"), "[3782*******0005,1]");
        assert_eq!(keep("年5555 5555 5555 4444"), "年5555 5555 5555 4444", "a part of a word");
        assert_eq!(keep("年 5555 5555 5555 4444"), "年 5555 **** **** 4444");
    }

    #[test]
    fn other_numbers_are_not() {
        let occasion = Occasion { order_nos: vec!["4000000000000002".to_owned()], ..Occasion::default() };
        for other in [
            r#"{"out_trade_no":"4000000000000002"}"#,
            "4242424242424241",
            "ORDER_4242424242424242",
            "req_4242424242424242",
            "20261104091234567890123456789012",
            "2026-11-04 09:12:34.567",
            "1764553200123 1764553200123",
            "",
        ] {
            assert_eq!(body(other.as_bytes(), &occasion), other);
        }
        // Times in milliseconds, by which a client's mistake is told.
        for ms in 1_764_553_200_000_u64..1_764_553_200_100 {
            assert_eq!(body(ms.to_string().as_bytes(), &occasion), ms.to_string());
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let kept = body("年".repeat(6000).as_bytes(), &Occasion::default());
        assert!(kept.ends_with("年…") && kept.len() <= MAX_BODY + LEFT_OUT.len());
        assert_eq!(body(b"a\0b", &Occasion::default()), "a\u{fffd}b");
        assert_eq!(header("user-agent", &[b'a'; 2000]).chars().count(), MAX_HEADER + 1);
    }
}
