//! Reading a text character by character: as it is, or with the escapes of JSON and URLs decoded, even if they were
//! applied more than once.

use std::ops::Range;

/// A way to read a text. Both are tried: in `%4242…` the digits may belong to an escape or to a number.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reading {
    /// As it is, with only the escapes of separators decoded.
    Plain,
    /// With all escapes decoded.
    Unescaped,
}

/// A character, and the bytes of the text that stand for it.
#[derive(Debug, Clone)]
pub(super) struct Symbol {
    pub(super) value: char,
    pub(super) bytes: Range<usize>,
}

impl Reading {
    /// The symbol at a place of a text; none at its end.
    pub(super) fn at(self, text: &str, place: usize) -> Option<Symbol> {
        let rest = &text[place..];
        let first = rest.chars().next()?;
        let (value, length) = match first {
            '%' => percent(rest.as_bytes()).filter(|(value, _)| self.undoes(*value)).unwrap_or((first, 1)),
            '\\' => self.after_backslashes(rest.as_bytes()),
            _ => (first, first.len_utf8()),
        };
        Some(Symbol { value, bytes: place..place + length })
    }
}

impl Reading {
    fn undoes(self, value: char) -> bool {
        matches!(self, Self::Unescaped) || is_separator(value)
    }

    /// `\n`, `\u0020`, `\\u0020`: a character and its length in the text. A row of backslashes is read at once:
    /// reading it from each backslash would take quadratic time.
    fn after_backslashes(self, text: &[u8]) -> (char, usize) {
        let slashes = text.iter().take_while(|byte| **byte == b'\\').count();
        let escaped = match text.get(slashes) {
            Some(b'n' | b'r' | b't') => Some((' ', slashes + 1)),
            Some(b'u') => text
                .get(slashes + 1..slashes + 5)
                .and_then(hex)
                .map(|code| (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), slashes + 5)),
            _ => None,
        };
        escaped.filter(|(value, _)| self.undoes(*value)).unwrap_or(('\\', slashes))
    }
}

/// Whether a character is one that people write between the groups of a number.
pub(super) fn is_separator(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '-' | '.' | '+' | '·' | '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2010}'..='\u{2015}')
        || matches!(c, '\u{2212}' | '\u{2060}' | '\u{feff}' | '\u{ff0d}' | '\u{ff0e}')
}

/// `%20`, `%2520`, `%EF%BC%94`: a character and its length in the text.
fn percent(text: &[u8]) -> Option<(char, usize)> {
    let mut bytes = [0; 4];
    let mut at = 0;
    let mut wanted = 1;
    let mut have = 0;
    while have < wanted {
        let (byte, length) = percent_byte(&text[at..])?;
        if have == 0 {
            wanted = match byte {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => 1,
            };
        }
        bytes[have] = byte;
        have += 1;
        at += length;
    }
    let value = std::str::from_utf8(&bytes[..have]).ok()?.chars().next()?;
    Some((value, at))
}

fn percent_byte(text: &[u8]) -> Option<(u8, usize)> {
    let mut digits = text.strip_prefix(b"%")?;
    while let Some(rest) = digits.strip_prefix(b"25") {
        digits = rest;
    }
    let value = u8::try_from(hex(digits.get(..2)?)?).ok()?;
    Some((value, text.len() - digits.len() + 2))
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| Some(value * 16 + char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_one_character() {
        for (text, value) in [
            ("4x", '4'),
            ("%20x", ' '),
            ("%2520x", ' '),
            ("%EF%BC%94x", '４'),
            (r"\nx", ' '),
            (r"\u0034x", '4'),
            (r"\\u0034x", '4'),
            (r"\u5361x", '卡'),
            (r"\ud83dx", '\u{fffd}'),
            (r"\x", '\\'),
        ] {
            let symbol = Reading::Unescaped.at(text, 0).unwrap();
            assert_eq!((symbol.value, symbol.bytes), (value, 0..text.len() - 1), "{text}");
        }
        for text in ["%zz", "%2", "%", "%ff", "%C2x", "%25"] {
            assert!(Reading::Unescaped.at(text, 0).is_some(), "{text}");
            assert_eq!(Reading::Plain.at(text, 0).unwrap().value, '%');
        }
        for (text, value) in [("%20x", ' '), ("%42x", '%'), (r"\nx", ' '), (r"\u4242x", '\\')] {
            assert_eq!(Reading::Plain.at(text, 0).unwrap().value, value, "{text}");
        }
        assert!(Reading::Unescaped.at("", 0).is_none());
    }
}
