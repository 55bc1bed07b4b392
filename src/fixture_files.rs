//! The files that `serve --fixtures` reads: every file of a folder, in JSON or YAML. An error names its file, line
//! and field. `domain::fixtures` says what a fixture may hold.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use crate::domain::api_key;
use crate::domain::fixtures::Fixtures;
use crate::domain::id::MerchantId;
use crate::domain::json::fields::FieldError;
use crate::domain::json::strict;
use crate::domain::webhook::web_url::NotifyPolicy;

/// The API key of a file that names none.
const DEFAULT_API_KEY: &str = "kuko_test_local_000001";

/// Lines by JSON pointer.
type Lines = BTreeMap<String, u64>;

/// A file that can be loaded.
#[derive(Debug)]
pub struct FixtureFile {
    /// Whose fixtures they are: the merchant of the member `api_key`, or of `kuko_test_local_000001`.
    pub merchant: MerchantId,
    /// What it holds.
    pub fixtures: Fixtures,
    places: Places,
}

/// The lines of a file's members.
#[derive(Debug)]
struct Places {
    path: PathBuf,
    lines: Lines,
}

impl FixtureFile {
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.places.path
    }

    /// Describes errors in this file by its name, line and field.
    #[must_use]
    pub fn describe(&self, errors: &[FieldError]) -> String {
        self.places.describe(errors)
    }
}

impl Places {
    fn describe(&self, errors: &[FieldError]) -> String {
        let path = self.path.display();
        let lines = errors
            .iter()
            .map(|error| format!("{path}:{}: {}: {}", self.line(&error.param), error.param, error.message));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The line of a JSON pointer; for a missing member, the line of its object.
    fn line(&self, pointer: &str) -> u64 {
        let mut place = pointer;
        loop {
            if let Some(line) = self.lines.get(place) {
                return *line;
            }
            match place.rfind('/') {
                Some(end) => place = &place[..end],
                None => return 1,
            }
        }
    }
}

/// Reads every `.json`, `.yaml` and `.yml` file of a folder, in the order of their names.
///
/// # Errors
/// All errors, one per line.
pub fn read(directory: &Path, policy: NotifyPolicy) -> Result<Vec<FixtureFile>, String> {
    let unreadable = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path
            .extension()
            .is_some_and(|extension| ["json", "yaml", "yml"].iter().any(|known| extension == *known))
        {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        return Err(format!("{}: no .json, .yaml or .yml file is there", directory.display()));
    }
    let (mut files, mut wrong) = (Vec::new(), Vec::new());
    for path in paths {
        match read_file(path, policy) {
            Ok(file) => files.push(file),
            Err(error) => wrong.push(error),
        }
    }
    if wrong.is_empty() { Ok(files) } else { Err(wrong.join("\n")) }
}

fn read_file(path: PathBuf, policy: NotifyPolicy) -> Result<FixtureFile, String> {
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (mut object, lines) = parse(&path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    let places = Places { path, lines };
    let merchant = match object.remove("api_key") {
        Some(key) => api_key::merchant_of(key.as_str().unwrap_or_default()),
        None => api_key::merchant_of(DEFAULT_API_KEY),
    };
    // The message does not quote the key: it may be a live one.
    let merchant = merchant.map_err(|_| {
        places.describe(&[FieldError {
            param: "/api_key".to_owned(),
            code: "api_key_invalid".to_owned(),
            message: "api_key must be kuko_test_ followed by 8 to 64 of A-Z a-z 0-9 _ -.".to_owned(),
        }])
    })?;
    let fixtures = Fixtures::from_json(object, policy).map_err(|errors| places.describe(&errors))?;
    Ok(FixtureFile { merchant, fixtures, places })
}

/// The object in a file, and the lines of its members.
fn parse(path: &Path, text: &str) -> Result<(Map<String, Value>, Lines), String> {
    let tree = serde_saphyr::from_str::<Spanned<Node>>(text);
    let mut lines = BTreeMap::new();
    if path.extension().is_some_and(|extension| extension == "json") {
        let object = strict::parse_object(text.as_bytes())?;
        // Nearly all JSON is YAML, too. For the rest, errors name no lines.
        if let Ok(tree) = tree {
            tree.value.locate("", tree.referenced.line(), &mut lines);
        }
        return Ok((object, lines));
    }
    let tree = tree.map_err(|error| error.to_string())?;
    match tree.value.locate("", tree.referenced.line(), &mut lines) {
        Value::Object(object) => Ok((object, lines)),
        _ => Err("must hold an object".to_owned()),
    }
}

/// A value in which every part knows its line.
#[derive(Debug)]
enum Node {
    Scalar(Value),
    List(Vec<Spanned<Node>>),
    Object(Vec<(String, Spanned<Node>)>),
}

impl Node {
    /// The plain value. Notes the lines of all its parts under their JSON pointers.
    fn locate(self, pointer: &str, line: u64, lines: &mut Lines) -> Value {
        lines.insert(pointer.to_owned(), line);
        match self {
            Self::Scalar(value) => value,
            Self::List(items) => {
                let items = items.into_iter().enumerate();
                items.map(|(index, item)| locate(item, &format!("{pointer}/{index}"), lines)).collect()
            }
            Self::Object(members) => {
                let located = members.into_iter().map(|(name, member)| {
                    let member = locate(member, &format!("{pointer}/{name}"), lines);
                    (name, member)
                });
                Value::Object(located.collect())
            }
        }
    }
}

fn locate(node: Spanned<Node>, pointer: &str, lines: &mut Lines) -> Value {
    let line = node.referenced.line();
    node.value.locate(pointer, line, lines)
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Node::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str, text: &str) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(name), text).unwrap();
        let error = read(directory.path(), NotifyPolicy::Anywhere).unwrap_err();
        let prefix = format!("{}/", directory.path().display());
        error.lines().map(|line| line.replacen(&prefix, "", 1)).collect()
    }

    #[test]
    fn yaml_is_told_by_line_and_field() {
        let text = "orders:\n  - out_trade_no: A\n    amount: 29.9\n    currency: USD\n    subject: S\n    \
                    stauts: paid\n";
        let errors = lines("shop.yaml", text);
        assert_eq!(errors[0], "shop.yaml:6: /orders/0/stauts: No such field: stauts.");
        assert!(errors[1].starts_with("shop.yaml:3: /orders/0/amount: amount must be"), "{errors:?}");
    }

    #[test]
    fn json_is_told_by_line_and_field() {
        let text =
            "{\"orders\": [\n  {\"out_trade_no\": \"A\",\n   \"amount\": \"1\", \"currency\": \"USD\"}]}";
        let errors = lines("shop.json", text);
        assert!(errors[0].starts_with("shop.json:3: /orders/0/amount: "), "{errors:?}");
        assert!(errors[1].starts_with("shop.json:2: /orders/0/subject: subject is required"), "{errors:?}");
    }

    #[test]
    fn what_is_no_fixture_is_said() {
        assert!(lines("a.json", "{\"orders\": [}")[0].contains("line 1"));
        assert!(lines("a.yaml", "orders: [")[0].starts_with("a.yaml: "));
        assert!(lines("a.yaml", "- 1")[0].contains("must hold an object"));
        assert_eq!(lines("a.yml", "\napi_key: kuko_live_12345678\n")[0].split(": ").next(), Some("a.yml:2"));
        assert!(lines("notes.txt", "")[0].contains("no .json, .yaml or .yml file"));
    }
}
