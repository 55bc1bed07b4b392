//! Finds what may be a card number: groups of digits that together have 13 to 19 digits and a valid check digit,
//! whatever surrounds them. A longer unbroken number is not a card number, nor is a time.

use std::ops::Range;

use super::reading::{Reading, Symbol, is_separator};
use crate::domain::payment::card;

/// How many digits a card's number has.
const DIGITS: std::ops::RangeInclusive<usize> = 13..=19;
/// How many of them stay readable at either end.
const READABLE: usize = 4;
/// How many separators may stand between two groups.
const SEPARATORS: usize = 8;

/// Digits without a break.
#[derive(Debug)]
struct Group {
    /// The range of its digits within the run.
    digits: Range<usize>,
    /// The separators before it; none at the beginning of a run.
    glue: Option<char>,
}

/// Groups of digits with nothing but separators between them.
#[derive(Debug, Default)]
struct Run {
    values: String,
    places: Vec<Range<usize>>,
    groups: Vec<Group>,
    /// Which digits are to be masked.
    masked: Vec<bool>,
    /// How many separators have come since the last digit, and the last of them.
    separators: usize,
    glue: Option<char>,
}

/// The places of the digits to mask, in order. Spared parts are skipped.
pub(super) fn find(text: &str, reading: Reading, spared: &[Range<usize>], found: &mut Vec<Range<usize>>) {
    let mut spared = spared.iter().peekable();
    let mut run = Run::default();
    let mut place = 0;
    let may_start = |byte: &u8| byte.is_ascii_digit() || !byte.is_ascii() || matches!(byte, b'%' | b'\\');
    loop {
        if run.groups.is_empty() {
            // Only ASCII is skipped, so a character starts here.
            place += text.as_bytes()[place..].iter().take_while(|byte| !may_start(byte)).count();
        }
        let Some(symbol) = reading.at(text, place) else { break };
        while spared.next_if(|span| span.end <= place).is_some() {}
        if let Some(span) = spared.peek().filter(|span| span.start <= place) {
            place = span.end;
            run.end(found);
            continue;
        }
        place = symbol.bytes.end;
        run.take(symbol, found);
    }
    run.end(found);
}

impl Run {
    fn take(&mut self, symbol: Symbol, found: &mut Vec<Range<usize>>) {
        if let Some(digit) = digit(symbol.value) {
            if self.separators > 0 || self.groups.is_empty() {
                let at = self.places.len();
                self.groups.push(Group { digits: at..at, glue: self.glue.take() });
                self.separators = 0;
            }
            self.values.push(digit);
            self.places.push(symbol.bytes);
            if let Some(group) = self.groups.last_mut() {
                group.digits.end += 1;
            }
        } else if !self.groups.is_empty() && is_separator(symbol.value) && self.separators < SEPARATORS {
            self.glue = (self.separators == 0).then_some(symbol.value).or(Some(' '));
            self.separators += 1;
        } else if !self.groups.is_empty() {
            self.end(found);
        }
    }

    /// Notes what there is to mask, and starts anew.
    fn end(&mut self, found: &mut Vec<Range<usize>>) {
        if self.places.len() >= *DIGITS.start() {
            let times = self.times();
            self.masked.clear();
            self.masked.resize(self.places.len(), false);
            for first in 0..self.groups.len() {
                self.mask_cards_from(first, &times);
            }
            let masked = self.places.drain(..).zip(&self.masked);
            found.extend(masked.filter(|(_, is_masked)| **is_masked).map(|(place, _)| place));
        }
        self.values.clear();
        self.places.clear();
        self.groups.clear();
        (self.separators, self.glue) = (0, None);
    }

    fn mask_cards_from(&mut self, first: usize, times: &[bool]) {
        let start = self.groups[first].digits.start;
        for (group, is_time) in self.groups[first..].iter().zip(&times[first..]) {
            let digits = start..group.digits.end;
            // 19 digits are also grouped as 6 and 13.
            let six_and_13 = [group.digits.start - start, group.digits.len()] == [6, 13]
                && self.values[start..].starts_with(['5', '6']);
            if (*is_time && !six_and_13) || digits.len() > *DIGITS.end() {
                break;
            }
            let values = &self.values[digits.clone()];
            if DIGITS.contains(&values.len()) && !starts_with_date(values) && card::passes_luhn(values) {
                self.masked[digits.start + READABLE..digits.end - READABLE].fill(true);
            }
        }
    }

    /// The groups that belong to a time or a fraction, and so to no card number.
    fn times(&self) -> Vec<bool> {
        let text =
            |place: usize| self.groups.get(place).map_or("", |group| &self.values[group.digits.clone()]);
        let glue = |place: usize| self.groups.get(place).and_then(|group| group.glue);
        let mut times = vec![false; self.groups.len()];
        for place in 0..self.groups.len() {
            let group = text(place);
            let unix = group.starts_with('1') && matches!(group.len(), 13 | 16 | 19);
            let seconds = group.starts_with('1') && matches!(group.len(), 10 | 13);
            let fraction = glue(place + 1) == Some('.') && glue(place + 2) != Some('.');
            times[place] |= unix;
            if fraction && (seconds || (group == "0" && glue(place) != Some('.'))) {
                times[place..place + 2].fill(true);
            }
            let parts = [group, text(place + 1), text(place + 2)];
            if glue(place + 1) == glue(place + 2)
                && matches!(glue(place + 1), Some('-' | '.'))
                && is_date(parts)
            {
                times[place..place + 3].fill(true);
            }
        }
        times
    }
}

/// The digit that a character is, in the scripts that people type numbers in.
fn digit(c: char) -> Option<char> {
    let zero = match c {
        '0'..='9' => return Some(c),
        '\u{660}'..='\u{669}' => 0x660,
        '\u{6f0}'..='\u{6f9}' => 0x6f0,
        '\u{966}'..='\u{96f}' => 0x966,
        '\u{ff10}'..='\u{ff19}' => 0xff10,
        _ => return None,
    };
    char::from_digit(u32::from(c) - zero, 10)
}

/// Whether three groups are a year, a month and a day, or the other way round.
fn is_date(parts: [&str; 3]) -> bool {
    let [first, second, third] = parts;
    parts.map(str::len) == [4, 2, 2] && starts_with_date(&parts.concat())
        || parts.map(str::len) == [2, 2, 4] && starts_with_date(&[third, second, first].concat())
}

/// Whether digits start with a day of the 20th or 21st century, `YYYYMMDD`. No network's numbers do.
fn starts_with_date(digits: &str) -> bool {
    let (Some(century), Some(month), Some(day)) = (digits.get(..2), digits.get(4..6), digits.get(6..8))
    else {
        return false;
    };
    matches!(century, "19" | "20") && ("01"..="12").contains(&month) && ("01"..="31").contains(&day)
}
