//! Reading the fields of a JSON object: all bad fields are named at once, unknown fields are reported back, and an
//! explicit null counts as absent (contract, section 2).

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::domain::code::Code;

const METADATA_PAIRS: usize = 50;
const METADATA_KEY: usize = 40;
const METADATA_VALUE: usize = 500;
/// How many names a message tells in a sentence.
const A_FEW: usize = 4;

/// One field that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The field's name, or a JSON pointer.
    pub param: String,
    /// `<field>_missing`, `<field>_invalid`, or the code of the rule that the field breaks.
    pub code: String,
    /// What is wrong and what to send instead.
    pub message: String,
}

impl FieldError {
    /// A field whose value is not acceptable: `<field>_invalid`.
    #[must_use]
    pub fn invalid(param: &str, message: &str) -> Self {
        Self {
            param: param.to_owned(),
            code: format!("{param}_invalid"),
            message: format!("{param} {message}."),
        }
    }

    fn missing(param: &str) -> Self {
        Self {
            param: param.to_owned(),
            code: format!("{param}_missing"),
            message: format!("{param} is required."),
        }
    }
}

/// What came of reading an object.
#[derive(Debug)]
pub struct Parsed<T> {
    /// The content, or every field that is wrong.
    pub content: Result<T, Vec<FieldError>>,
    /// The names that no field of this call has, in alphabetical order.
    pub ignored: Vec<String>,
}

/// An object whose fields are being read. Each `required` or `optional` takes one field out; what is
/// left at the end is unknown.
#[derive(Debug)]
pub struct Fields {
    rest: Map<String, Value>,
    errors: Vec<FieldError>,
}

impl Fields {
    /// Starts to read an object.
    #[must_use]
    pub const fn new(object: Map<String, Value>) -> Self {
        Self { rest: object, errors: Vec::new() }
    }

    /// Reads a field that may be absent or null. `None` also stands for a wrong value, which is noted.
    pub fn optional<T>(&mut self, name: &str, read: impl FnOnce(&Value) -> Result<T, String>) -> Option<T> {
        let value = self.rest.remove(name).filter(|value| !value.is_null())?;
        read(&value).map_err(|message| self.errors.push(FieldError::invalid(name, &message))).ok()
    }

    /// Reads a field that must be there. `None` stands for a missing or wrong value, which is noted.
    pub fn required<T>(&mut self, name: &str, read: impl FnOnce(&Value) -> Result<T, String>) -> Option<T> {
        if self.has(name) {
            return self.optional(name, read);
        }
        self.rest.remove(name);
        self.errors.push(FieldError::missing(name));
        None
    }

    /// Whether a field is there, and not null.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.rest.get(name).is_some_and(|value| !value.is_null())
    }

    /// Whether a field is present and null: for the few fields in which null has a meaning.
    #[must_use]
    pub fn is_null(&self, name: &str) -> bool {
        self.rest.get(name).is_some_and(Value::is_null)
    }

    /// Notes an error that concerns more than one field's own value.
    pub fn refuse(&mut self, error: FieldError) {
        self.errors.push(error);
    }

    /// Ends the reading. `content` builds the result from the fields read. It returns `None` only if a field has been
    /// noted as wrong.
    pub fn finish<T>(self, content: impl FnOnce() -> Option<T>) -> Parsed<T> {
        let content = match content() {
            Some(content) if self.errors.is_empty() => Ok(content),
            _ => Err(self.errors),
        };
        Parsed { content, ignored: self.rest.into_iter().map(|(name, _)| name).collect() }
    }
}

/// Reads a text of `min` to `max` code points without control characters (category Cc).
///
/// # Errors
/// What is wrong with the value.
pub fn text(value: &Value, min: usize, max: usize) -> Result<String, String> {
    let text = value.as_str().ok_or_else(|| format!("must be a string; {} was sent", kind_of(value)))?;
    let length = text.chars().count();
    if !(min..=max).contains(&length) {
        return Err(format!("must have {min} to {max} characters; it has {length}"));
    }
    if let Some(control) = text.chars().find(|c| c.is_control()) {
        return Err(format!("must not contain control characters; it has U+{:04X}", u32::from(control)));
    }
    Ok(text.to_owned())
}

/// Reads a free text of at most `max` code points. It may hold line breaks but no NUL, which Postgres cannot store.
///
/// # Errors
/// What is wrong with the value.
pub fn note(value: &Value, max: usize) -> Result<String, String> {
    let text = value.as_str().ok_or_else(|| format!("must be a string; {} was sent", kind_of(value)))?;
    let length = text.chars().count();
    if length > max {
        return Err(format!("must have at most {max} characters; it has {length}"));
    }
    if text.contains('\0') {
        return Err("must not contain the character U+0000".to_owned());
    }
    Ok(text.to_owned())
}

/// Reads a merchant's metadata: at most 50 pairs, keys of 1 to 40 and string values of 0 to 500
/// code points (see [`note`]).
///
/// # Errors
/// Which pair is wrong.
pub fn metadata(value: &Value) -> Result<BTreeMap<String, String>, String> {
    let object =
        value.as_object().ok_or_else(|| format!("must be an object; {} was sent", kind_of(value)))?;
    if object.len() > METADATA_PAIRS {
        return Err(format!("must have at most {METADATA_PAIRS} pairs; it has {}", object.len()));
    }
    object.iter().map(metadata_pair).collect()
}

fn metadata_pair((key, value): (&String, &Value)) -> Result<(String, String), String> {
    let shown = key.escape_debug();
    if !(1..=METADATA_KEY).contains(&key.chars().count()) {
        return Err(format!(
            "must have keys of 1 to {METADATA_KEY} characters; \"{shown}\" has {}",
            key.chars().count()
        ));
    }
    if key.contains('\0') {
        return Err(format!("must not contain the character U+0000; the key \"{shown}\" does"));
    }
    let text = note(value, METADATA_VALUE)
        .map_err(|message| format!("is wrong at \"{shown}\": the value {message}"))?;
    Ok((key.clone(), text))
}

/// Reads one of the names of an enum.
///
/// # Errors
/// The names that would be right.
pub fn code<T: Code>(value: &Value) -> Result<T, String> {
    value.as_str().and_then(T::from_code).ok_or_else(|| one_of(&T::names()))
}

/// The message of a value that is none of these: two names are quoted, a few are a sentence, and many, which nobody
/// reads aloud, are a list.
#[must_use]
pub fn one_of(names: &[&str]) -> String {
    match names {
        [first, second] => format!("must be \"{first}\" or \"{second}\""),
        few if few.len() <= A_FEW => format!("must be one of {}", listed(few, "and")),
        many => format!("must be one of {}", many.join(", ")),
    }
}

/// "a, b and c", where the word before the last is "and".
#[must_use]
pub fn listed<S: Borrow<str>>(names: &[S], word: &str) -> String {
    match names {
        [] => String::new(),
        [only] => only.borrow().to_owned(),
        [first @ .., last] => format!("{} {word} {}", first.join(", "), last.borrow()),
    }
}

/// What a JSON value is, with its article, for messages.
#[must_use]
pub const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::journal::entry::Outcome;
    use crate::domain::payment::order::{Locale, OrderStatus};
    use serde_json::json;

    #[test]
    fn texts_are_counted_in_code_points() {
        assert_eq!(text(&json!("Pro 年度訂閲"), 1, 8), Ok("Pro 年度訂閲".to_owned()));
        assert!(text(&json!("👨‍👩‍👧"), 1, 5).is_ok());
        assert!(text(&json!("👨‍👩‍👧"), 1, 4).is_err());
        assert!(text(&json!("a\u{0}b"), 1, 9).unwrap_err().contains("U+0000"));
        assert!(text(&json!("a\u{85}b"), 1, 9).unwrap_err().contains("U+0085"));
        assert!(text(&json!(""), 1, 9).is_err());
    }

    #[test]
    fn a_value_that_is_no_name_is_answered_with_the_names() {
        assert_eq!(code(&json!("pending")), Ok(OrderStatus::Pending));
        let wrong = |value: &Value| code::<OrderStatus>(value).unwrap_err();
        assert_eq!(wrong(&json!("Pending")), "must be one of pending, paid, refunded and closed");
        assert_eq!(wrong(&json!(1)), wrong(&json!("")));
        assert_eq!(one_of(&Locale::names()), "must be \"zh\" or \"en\"");
        assert_eq!(
            one_of(&Outcome::names()),
            "must be one of executed, replayed, refused, in_progress, error"
        );
        assert_eq!(listed(&["a", "b", "c"], "or"), "a, b or c");
    }

    #[test]
    fn metadata_is_bounded() {
        assert!(metadata(&json!({"a": "line\nbreak", "b": ""})).is_ok());
        for bad in [
            json!([]),
            json!({"a": 1}),
            json!({"": "x"}),
            json!({"a": "\u{0}"}),
            json!({"a": "x".repeat(501)}),
        ] {
            assert!(metadata(&bad).is_err(), "{bad}");
        }
        let many: Map<_, _> = (0..51).map(|n| (n.to_string(), json!("x"))).collect();
        assert!(metadata(&Value::Object(many)).unwrap_err().contains("51"));
    }
}
