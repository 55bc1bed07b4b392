//! The differences between two JSON documents, as JSON pointers (RFC 6901). They explain a key that was used with
//! another body. The work is bounded by the size of the documents, and the text by the number of listed changes,
//! however many places differ and however long their names are.

use serde_json::Value;

/// One place where two documents differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// A JSON pointer, shortened where it is long; empty for the whole document.
    pub pointer: String,
    /// The first document's value there; `None` where it has none.
    pub before: Option<Value>,
    /// The second document's value there; `None` where it has none.
    pub after: Option<Value>,
}

/// What changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The first [`MAX_CHANGES`] places that differ.
    pub listed: Vec<Change>,
    /// How many more there are.
    pub more: usize,
}

/// How many changes are listed; the rest is counted.
pub const MAX_CHANGES: usize = 20;
/// How much of a value is shown, in characters of JSON.
const MAX_SHOWN: usize = 120;
/// How much is shown of a name, and of all names of a pointer together, in characters.
const MAX_NAME: usize = 60;
const MAX_POINTER: usize = 200;

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
    shorten(value.to_string(), MAX_SHOWN)
}

fn shorten(mut text: String, characters: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(characters) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The places where two documents differ, in the order of their names; none when they are equal.
#[must_use]
pub fn changes(before: &Value, after: &Value) -> Changes {
    let mut search = Search { path: Vec::new(), changes: Changes::default() };
    search.compare(Some(before), Some(after));
    search.changes
}

/// One step of a JSON pointer.
#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Member(&'a str),
    Item(usize),
}

/// The path to the place that is compared, and the changes found. Pointers are written only for listed changes,
/// because the names in them may be long.
struct Search<'a> {
    path: Vec<Step<'a>>,
    changes: Changes,
}

impl<'a> Search<'a> {
    fn compare(&mut self, before: Option<&'a Value>, after: Option<&'a Value>) {
        match (before, after) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => {
                let added = new.keys().filter(|name| !old.contains_key(*name));
                for name in old.keys().chain(added) {
                    self.step(Step::Member(name), old.get(name), new.get(name));
                }
            }
            (Some(Value::Array(old)), Some(Value::Array(new))) => {
                for index in 0..old.len().max(new.len()) {
                    self.step(Step::Item(index), old.get(index), new.get(index));
                }
            }
            _ if before == after => {}
            _ if self.changes.listed.len() == MAX_CHANGES => self.changes.more += 1,
            _ => {
                let change =
                    Change { pointer: self.pointer(), before: before.cloned(), after: after.cloned() };
                self.changes.listed.push(change);
            }
        }
    }

    fn step(&mut self, step: Step<'a>, before: Option<&'a Value>, after: Option<&'a Value>) {
        self.path.push(step);
        self.compare(before, after);
        self.path.pop();
    }

    fn pointer(&self) -> String {
        let steps = self.path.iter().map(|step| match step {
            Step::Item(index) => format!("/{index}"),
            Step::Member(name) => {
                let name = shorten(name.chars().take(MAX_NAME + 1).collect(), MAX_NAME);
                format!("/{}", name.replace('~', "~0").replace('/', "~1"))
            }
        });
        shorten(steps.collect(), MAX_POINTER)
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
        let pointers: Vec<_> = changes(&before, &after).listed.into_iter().map(|c| c.pointer).collect();
        assert_eq!(pointers, ["/amount", "/gone", "/items/1/a~1b", "/items/2", "/timestamp"]);
        assert_eq!(changes(&before, &before), Changes::default());
        assert_eq!(changes(&json!(1), &json!([])).listed[0].pointer, "");
    }

    #[test]
    fn shows_long_values_shortened() {
        let change = &changes(&json!({}), &json!({"a": "字".repeat(500)})).listed[0];
        assert_eq!(change.shown(), ("absent".to_owned(), format!("\"{}…", "字".repeat(119))));
    }

    #[test]
    fn lists_a_bounded_number_of_bounded_changes() {
        let name = "字".repeat(10_000);
        let document = |offset: usize| json!({&name: (offset..offset + 16_000).collect::<Vec<_>>()});
        let found = changes(&document(0), &document(1));
        assert_eq!((found.listed.len(), found.more), (MAX_CHANGES, 15_980));
        assert_eq!(found.listed[19].pointer, format!("/{}…/19", "字".repeat(60)));

        let nest = |inner| (0..100).fold(inner, |inner, _| json!({"a long name": inner}));
        let found = changes(&nest(json!(1)), &nest(json!(2)));
        assert_eq!(found.listed[0].pointer.chars().count(), MAX_POINTER + 1);
    }
}
