//! The comparison of JSON by the members that a test is about.

use serde_json::{Value, json};

/// Asserts that an object has these members with these values, whatever else it has. Objects inside are compared
/// alike, other values as a whole.
#[track_caller]
pub(crate) fn expect_fields(value: &Value, expected: &Value) {
    let mut differences = Vec::new();
    compare("", value, expected, &mut differences);
    assert!(differences.is_empty(), "{}\nin {value:#}", differences.join("\n"));
}

/// Adds what differs below `path`, a JSON pointer.
fn compare(path: &str, value: &Value, expected: &Value, differences: &mut Vec<String>) {
    match expected {
        Value::Object(members) if !members.is_empty() => {
            for (name, expected) in members {
                let path = format!("{path}/{name}");
                match value.get(name) {
                    Some(value) => compare(&path, value, expected, differences),
                    None => differences.push(format!("{path} is absent, expected {expected}")),
                }
            }
        }
        _ if value == expected => {}
        _ => differences.push(format!("{path} is {value}, expected {expected}")),
    }
}

#[test]
fn members_that_differ_are_told_and_others_do_not_matter() {
    let value = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1, {"f": 1}], "g": {}});
    let differences = |expected: Value| {
        let mut differences = Vec::new();
        compare("", &value, &expected, &mut differences);
        differences
    };
    assert_eq!(differences(json!({"a": 1, "b": {"c": 2}, "e": [1, {"f": 1}], "g": {}})), [""; 0]);
    assert_eq!(
        differences(json!({"a": 2, "b": {"c": 1, "x": null}, "e": [1, {}]})),
        [
            "/a is 1, expected 2",
            "/b/c is 2, expected 1",
            "/b/x is absent, expected null",
            r#"/e is [1,{"f":1}], expected [1,{}]"#,
        ]
    );
    assert_eq!(differences(json!({"b": {}})), [r#"/b is {"c":2,"d":3}, expected {}"#]);
}
