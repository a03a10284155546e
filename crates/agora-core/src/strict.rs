//! JSON from outside that must mean one thing: no key twice, and no deeper than anybody writes.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Objects and arrays within each other: more than people write, less than a stack minds.
pub const DEEPEST: usize = 128;
/// What was strict before stands some levels deep in agora's own documents: a question in an event line, in an entry of the
/// ledger, in a job. Whatever was taken in once must be readable for ever, so these are as deep as that and a little more.
const WRAPPED: usize = DEEPEST + 16;

/// Says why a text is not strict JSON. Names places, never what stands there: the text is somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrictError {
    #[error("it is nested deeper than {0}")]
    TooDeep(usize),
    #[error("it is not JSON: line {line}, column {column}")]
    Syntax { line: usize, column: usize },
    #[error("an object has a key twice: line {line}, column {column}")]
    KeyTwice { line: usize, column: usize },
}

/// Parses a text in which every object has each key once.
pub fn parse(text: &str) -> Result<Value, StrictError> {
    parse_within(text, DEEPEST)
}

/// Parses one of agora's own documents, which wraps what was strict before.
pub(crate) fn parse_wrapped(text: &str) -> Result<Value, StrictError> {
    parse_within(text, WRAPPED)
}

fn parse_within(text: &str, deepest: usize) -> Result<Value, StrictError> {
    if depth(text) > deepest {
        return Err(StrictError::TooDeep(deepest));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    let parsed =
        Unique::deserialize(&mut deserializer).and_then(|Unique(value)| deserializer.end().map(|()| value));
    parsed.map_err(|error| {
        let (line, column) = (error.line(), error.column());
        if error.is_data() {
            StrictError::KeyTwice { line, column }
        } else {
            StrictError::Syntax { line, column }
        }
    })
}

/// Counts how deep brackets open within each other, outside of texts. Exact for JSON, and never less for anything else.
pub(crate) fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match (in_text, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b'{' | b'[') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// A value in which every object has each key once.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Unique(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom("a key is there twice"));
            }
            let Unique(value) = entries.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// An object, and not what serde takes for one, too: a list of the values of its fields.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(entries))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_twice_is_refused_wherever_it_is() {
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"\u0061":2}}]"#] {
            assert!(matches!(parse(text), Err(StrictError::KeyTwice { line: 1, .. })), "{text}");
        }
        assert_eq!(parse(r#"{"a":{"a":1},"b":{"a":2}}"#), Ok(json!({"a": {"a": 1}, "b": {"a": 2}})));
    }

    #[test]
    fn depth_is_counted_to_the_letter() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(&nested(DEEPEST)).is_ok());
        assert!(parse_wrapped(&nested(WRAPPED)).is_ok());
        assert_eq!(parse_wrapped(&nested(WRAPPED + 1)), Err(StrictError::TooDeep(WRAPPED)));
        assert_eq!(parse(&nested(DEEPEST + 1)), Err(StrictError::TooDeep(DEEPEST)));
        assert_eq!(parse(&"[{\"a\":".repeat(100_000)), Err(StrictError::TooDeep(DEEPEST)));
        let brackets = json!({"text": "[{".repeat(200) + "\\\"[["}).to_string();
        assert!(parse(&brackets).is_ok(), "brackets in a text do not count");
    }

    proptest! {
        #[test]
        fn it_parses_what_serde_json_parses_unless_a_key_is_there_twice(text in "[\\[\\]{}:,\"a0-9.eE \\\\tfn-]{0,40}") {
            match (parse(&text), serde_json::from_str::<Value>(&text)) {
                (Ok(ours), Ok(theirs)) => prop_assert_eq!(ours, theirs),
                (Err(StrictError::KeyTwice { .. }), Ok(_)) | (Err(_), Err(_)) => {}
                (ours, theirs) => prop_assert!(false, "{:?} but {:?}", ours, theirs),
            }
        }
    }
}
