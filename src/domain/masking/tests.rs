//! Whatever stands around a card's number or an API key, it is never in what is kept.

use super::*;
use crate::domain::id::{RefundNo, TradeNo};
use crate::domain::payment::card::TEST_CARDS;
use uuid::Uuid;

const SEPARATORS: [&str; 18] = [
    "", " ", "-", ".", "+", "%20", "%2520", "\n", "\r\n", "\t", r"\n", r"\u0020", r"\\u0020", r"\u002d",
    "\u{a0}", "–", "\u{3000}", " - ",
];
const BEFORE: [&str; 12] =
    ["", " ", "\n", r"\n", "a", "ORDER_", "卡号", "card:", "12/26 ", "%", "&pan=", r#"{"card":""#];
const AFTER: [&str; 11] =
    ["", " 12/26", " 123", "x", "号", "%20", "&x=1", r#"","cvc":"123"}"#, "\n", ".", "_"];

/// A number in the groups that it is printed in.
fn grouped(number: &str, separator: &str) -> String {
    let sizes: &[usize] = if number.len() == 15 { &[4, 6, 5] } else { &[4, 4, 4, 4] };
    let (mut groups, mut rest) = (Vec::new(), number);
    for size in sizes {
        let (group, after) = rest.split_at(*size);
        groups.push(group);
        rest = after;
    }
    groups.join(separator)
}

/// What is kept of a text, by every way in.
fn kept(text: &str) -> [String; 5] {
    [
        body(text.as_bytes()),
        path(text),
        header("x-note", text.as_bytes()),
        idempotency_key(text),
        super::text(text).into_owned(),
    ]
}

#[test]
fn no_test_card_is_kept_whatever_stands_around_it() {
    for card in &TEST_CARDS {
        for separator in SEPARATORS {
            let number = grouped(card.number, separator);
            let middle = &number[4..number.len() - 4];
            for (before, after) in BEFORE.iter().flat_map(|before| AFTER.map(|after| (before, after))) {
                let text = format!("{before}{number}{after}");
                for kept in kept(&text) {
                    assert!(!kept.contains(middle), "{text:?} is kept as {kept:?}");
                    assert!(kept.contains('*'), "{text:?} is kept as {kept:?}");
                }
            }
        }
    }
}

#[test]
fn two_side_by_side_are_masked_both() {
    for separator in [" ", "-", ".", "%20", "\n", r"\n", ",", "/", "and", "卡"] {
        let text = format!("4242424242424242{separator}5555 5555 5555 4444");
        let expected = format!("4242********4242{separator}5555 **** **** 4444");
        assert_eq!(super::text(&text), expected);
    }
    assert_eq!(
        super::text("4242 4242 4242 4242 4000 0000 0000 0002"),
        "4242 **** **** 4242 4000 **** **** 0002"
    );
}

#[test]
fn other_digits_and_escaped_digits_are_digits() {
    assert_eq!(super::text("４２４２４２４２４２４２４２４２"), "４２４２********４２４２");
    let escaped = r"\u0034\u0032".repeat(8);
    assert_eq!(super::text(&escaped).matches('*').count(), 8);
    assert_eq!(super::text("%34%32%34%32%34%32%34%32%34%32%34%32%34%32%34%32").matches('*').count(), 8);
    assert_eq!(super::text("622126 1234567890129"), "6221** *********0129");
    assert_eq!(super::text("4222222222222"), "4222*****2222");
    assert_eq!(super::text("30569309025904"), "3056******5904");
}

#[test]
fn no_api_key_is_kept() {
    for key in
        ["kuko_live_abc-DEF_123", "kuko_test_local_000001", "KUKO_LIVE_ABCDEFGH", "kuko%5Flive%5Fabc-DEF_123"]
    {
        for (before, after) in
            [("", ""), ("?key=", "&x=1"), ("Bearer ", ""), (r#"{"a":""#, r#""}"#), ("x", " y"), ("键", "。")]
        {
            for kept in kept(&format!("{before}{key}{after}")) {
                for secret in ["abc-DEF", "local_0", "ABCDEFGH"] {
                    assert!(!kept.contains(secret), "{kept}");
                }
                assert!(kept.contains('…') && kept.ends_with(after), "{kept}");
            }
        }
    }
    assert_eq!(body(br#"{"out_trade_no":"kuko_live_abcdefgh"}"#), r#"{"out_trade_no":"kuko_live_…"}"#);
    assert_eq!(super::text("a key starts with kuko_test_ and"), "a key starts with kuko_test_ and");
}

#[test]
fn credentials_stay_out() {
    assert_eq!(header("x-api-key", b"kuko_test_local_000001"), "kuko_test_…");
    assert_eq!(header("x-api-key", b"short"), "…");
    for name in ["authorization", "cookie", "x-auth-token", "api-key", "x-client-secret"] {
        assert_eq!(header(name, b"Bearer secret"), "…", "{name}");
    }
    assert_eq!(header("user-agent", b"shop/1.0"), "shop/1.0");
    assert_eq!(
        header("referer", b"https://a.example/?k=kuko_live_abcdefgh&c=4242424242424242"),
        "https://a.example/?k=kuko_live_…&c=4242********4242"
    );
    assert_eq!(
        header("idempotency-key", b"8f14e45f-ea2a-4c6f-9d3b-1b7c2a55e901"),
        "8f14e45f-ea2a-4c6f-9d3b-1b7c2a55e901"
    );
}

#[test]
fn own_numbers_are_readable_as_whole_values_of_their_fields_and_in_a_path() {
    for number in ["4000000000000002", "ORDER_4242424242424242", "4242-4242-4242-4242", "4242.4242.4242.4242"]
    {
        for field in ["out_trade_no", "trade_no", "out_refund_no", "refund_no"] {
            let own = format!(r#"{{"a":[{{"{field}" : "{number}"}}]}}"#);
            assert_eq!(body(own.as_bytes()), own);
        }
        for target in
            ["/v1/orders/N", "/v1/refunds/N?x=1", "/v1/orders/N/close", "/v1/orders?out_trade_no=N&limit=1"]
        {
            let target = target.replace('N', number);
            assert_eq!(path(&target), target);
        }
        for other in [
            format!(r#"{{"out_trade_no":"A","subject":"{number}"}}"#),
            format!(r#"{{"subject":"\"out_trade_no\":\"{number}\""}}"#),
            format!(r#"{{"out_trade_no":"no. {number}"}}"#),
            format!(r#"{{"x_no":"{number}"}}"#),
        ] {
            assert_ne!(body(other.as_bytes()), other);
        }
        assert!(path(&format!("/v1/orders?card={number}")).contains('*'));
    }
}

#[test]
fn longer_numbers_times_and_identifiers_stay_as_they_are() {
    let mut texts: Vec<String> = [
        "4242424242424241",
        "42424242424242425555555555554444",
        "20261104091234567890123456789012",
        "2026-11-04 09:12:34.567",
        "2026-11-04 2026-11-05 2026-11-06",
        "04.11.2026 09.15.30 04.11.2026",
        "1764553200123 1764553200123",
        "0.8414709848078965",
        "12345678-1234-4234-8234-123456789012",
        "",
    ]
    .map(str::to_owned)
    .into();
    for n in 0..2000_u64 {
        let ms = 1_764_553_200_000 + n;
        let (second, minute) = (n % 60, n / 60);
        texts.extend([
            ms.to_string(),
            format!("{ms}{n:03}"),
            format!("{ms}{n:06}"),
            format!("{}.{:06}", ms / 1000, n),
            format!("20261104{:02}{minute:02}{second:02}", n % 24),
            format!("20261104-{:02}{minute:02}{second:02}.{n:03}", n % 24),
            format!("2026-11-04T09:{minute:02}:{second:02}.{n:09}Z"),
            format!("0.{}", 1_000_000_000_000_000 + n * 7_777_777_777),
            format!("{}{n:04}", 4_242_424_242_424_242_u64),
            Uuid::new_v4().to_string(),
            Uuid::from_u128(0x1234_5678_1234_4234_8234_1234_5678_0000 + u128::from(n)).to_string(),
            TradeNo::generate().to_string(),
            RefundNo::generate().to_string(),
        ]);
    }
    for text in texts {
        assert_eq!(super::text(&text), text);
        let json = format!(r#"{{"a":"{text}","b":["{text}"]}}"#);
        assert_eq!(body(json.as_bytes()), json);
    }
}

#[test]
fn a_masked_body_is_still_read_as_json() {
    let masked = body(br#"{"a\"":4242424242424242,"b":[1.5e3,"4242424242424242\\"],"c":-1}"#);
    let expected =
        serde_json::json!({"a\"": "4242********4242", "b": [1500.0, "4242********4242\\"], "c": -1});
    assert_eq!(parse(masked.as_bytes()), Ok(expected));
    for broken in ["{", "*", "{\"a\":**}", "\"\\"] {
        let _ = parse(broken.as_bytes());
    }
}

#[test]
fn long_texts_are_masked_and_then_cut_between_characters() {
    let kept = body("年".repeat(6000).as_bytes());
    assert!(kept.ends_with("年…") && kept.len() <= MAX_BODY + LEFT_OUT.len());
    assert_eq!(body(b"a\0b"), "a\u{fffd}b");
    assert_eq!(header("user-agent", &[b'a'; 2000]).chars().count(), MAX_HEADER + 1);
    let cut = format!("{}4242424242424242", "a".repeat(MAX_BODY - 12));
    assert!(body(cut.as_bytes()).ends_with("a4242********…"));
}
