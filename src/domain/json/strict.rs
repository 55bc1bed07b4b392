//! JSON as a payment gateway must read it: UTF-8 without a byte-order mark, and no member twice in an object,
//! because a parser must not choose between two amounts.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads one JSON document.
///
/// # Errors
/// What is wrong and where, in words for the client.
pub fn parse(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("the body is not valid UTF-8 from byte {}", error.valid_up_to()))?;
    if text.starts_with('\u{feff}') {
        return Err("the body starts with a byte-order mark; send plain UTF-8 without it".to_owned());
    }
    if text.trim().is_empty() {
        return Err("the body is empty; send a JSON object".to_owned());
    }
    let mut parser = serde_json::Deserializer::from_str(text);
    StrictValue
        .deserialize(&mut parser)
        .and_then(|value| parser.end().map(|()| value))
        .map_err(|error| describe(&error))
}

fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    // The parser's message about half of a surrogate pair, which nobody would understand.
    let half = ["unexpected end of hex escape", "lone leading surrogate"].iter().any(|it| text.contains(it));
    let why = if half { " (a lone surrogate such as \\ud800 is no character)" } else { "" };
    format!("the body is not valid JSON: {text}{why}")
}

/// Reads one JSON document that is an object.
///
/// # Errors
/// As for [`parse`], or what stands there instead of an object.
pub fn parse_object(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    match parse(bytes)? {
        Value::Object(object) => Ok(object),
        other => Err(format!(
            "the body must be a JSON object; {} was sent",
            crate::domain::json::fields::kind_of(&other)
        )),
    }
}

/// Builds a [`Value`] as `serde_json` does, but refuses a second member of the same name.
struct StrictValue;

impl<'de> DeserializeSeed<'de> for StrictValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(Self)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                let name = name.escape_debug();
                return Err(A::Error::custom(format!("the member \"{name}\" stands twice in one object")));
            }
            let value = members.next_value_seed(Self)?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_serde_json_reads() {
        let text = r#"{"a":[1,-2,3.5,"x",null,true],"b":{"c":18446744073709551615},"d":"\ud83d\ude00"}"#;
        assert_eq!(parse(text.as_bytes()), Ok(serde_json::from_str(text).unwrap()));
    }

    #[test]
    fn refuses_the_ambiguous_and_the_malformed() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        for (text, reason) in [
            (&b"{\"a\":1,\"a\":1}"[..], "stands twice"),
            (b"{\"m\":{\"a\":1,\"\\u0061\":2}}", "stands twice"),
            (b"\xef\xbb\xbf{}", "byte-order mark"),
            (b"{\"a\":\"\xff\"}", "UTF-8"),
            (b"  ", "empty"),
            (b"{\"a\":1", "EOF"),
            (b"{} {}", "trailing"),
            (b"{\"a\":\"\\ud800\"}", "surrogate"),
            (deep.as_bytes(), "recursion"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        assert!(parse_object(b"[]").unwrap_err().contains("an array was sent"));
    }
}
