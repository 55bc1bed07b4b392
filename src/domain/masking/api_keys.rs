//! Finds test and live API keys anywhere in a text.

use std::ops::Range;

use super::reading::{Reading, Symbol};

const PREFIXES: [&str; 2] = ["kuko_test_", "kuko_live_"];

/// The places of what follows the prefixes, in order.
pub(super) fn find(text: &str, reading: Reading, found: &mut Vec<Range<usize>>) {
    let mut place = 0;
    let may_start = |byte: &u8| matches!(byte, b'k' | b'K' | b'%' | b'\\');
    while let Some(skipped) = text.as_bytes()[place..].iter().position(may_start) {
        let Some(symbol) = reading.at(text, place + skipped) else { break };
        place = symbol.bytes.end;
        if !symbol.value.eq_ignore_ascii_case(&'k') {
            continue;
        }
        let mut prefixes = PREFIXES.iter();
        if let Some(start) = prefixes.find_map(|it| after(it, text, reading, symbol.bytes.start)) {
            let end = end_of_word(text, reading, start);
            if end > start {
                found.push(start..end);
                place = end;
            }
        }
    }
}

/// Where a prefix that starts at this place ends. Upper and lower case count alike.
fn after(prefix: &str, text: &str, reading: Reading, mut place: usize) -> Option<usize> {
    for expected in prefix.chars() {
        let symbol = reading.at(text, place)?;
        if !symbol.value.eq_ignore_ascii_case(&expected) {
            return None;
        }
        place = symbol.bytes.end;
    }
    Some(place)
}

fn end_of_word(text: &str, reading: Reading, start: usize) -> usize {
    let mut end = start;
    while let Some(Symbol { value, bytes }) = reading.at(text, end) {
        if !value.is_ascii_alphanumeric() && !matches!(value, '_' | '-') {
            break;
        }
        end = bytes.end;
    }
    end
}
