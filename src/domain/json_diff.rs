//! What changed between two JSON documents, as JSON pointers (RFC 6901). It explains a key that was
//! used with another body.

use serde_json::Value;

/// One place where two documents differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// A JSON pointer; empty for the whole document.
    pub pointer: String,
    /// The first document's value there; `None` where it has none.
    pub before: Option<Value>,
    /// The second document's value there; `None` where it has none.
    pub after: Option<Value>,
}

/// How much of a value is shown, in characters of JSON.
const MAX_SHOWN: usize = 120;

impl Change {
    /// Both values as a person reads them, before and after.
    #[must_use]
    pub fn shown(&self) -> (String, String) {
        let show = |value: &Option<Value>| value.as_ref().map_or_else(|| "absent".to_owned(), show);
        (show(&self.before), show(&self.after))
    }
}

/// A value as JSON, which ends with an ellipsis where it is shortened.
#[must_use]
pub fn show(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Every place where two documents differ, in the order of their names; empty when they are equal.
#[must_use]
pub fn changes(before: &Value, after: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    compare(String::new(), Some(before), Some(after), &mut found);
    found
}

fn compare(pointer: String, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<Change>) {
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|name| !old.contains_key(*name));
            for name in old.keys().chain(added) {
                let escaped = name.replace('~', "~0").replace('/', "~1");
                compare(format!("{pointer}/{escaped}"), old.get(name), new.get(name), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for index in 0..old.len().max(new.len()) {
                compare(format!("{pointer}/{index}"), old.get(index), new.get(index), found);
            }
        }
        _ if before == after => {}
        _ => found.push(Change { pointer, before: before.cloned(), after: after.cloned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_each_place_once() {
        let before = json!({"amount": 1, "items": [1, {"a/b": 2}], "gone": true});
        let after = json!({"amount": 2, "items": [1, {"a/b": 3}, 4], "timestamp": 5});
        let pointers: Vec<_> = changes(&before, &after).into_iter().map(|c| c.pointer).collect();
        assert_eq!(pointers, ["/amount", "/gone", "/items/1/a~1b", "/items/2", "/timestamp"]);
        assert_eq!(changes(&before, &before), []);
        assert_eq!(changes(&json!(1), &json!([]))[0].pointer, "");
    }

    #[test]
    fn shows_long_values_shortened() {
        let change = &changes(&json!({}), &json!({"a": "字".repeat(500)}))[0];
        assert_eq!(change.shown(), ("absent".to_owned(), format!("\"{}…", "字".repeat(119))));
    }
}
