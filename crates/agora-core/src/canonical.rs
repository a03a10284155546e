//! Canonical JSON (RFC 8785): one text for one value, so that a value has one hash.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::hash::ContentHash;

/// The largest integer that no other one is taken for once it is a double: 2^53 - 1. (2^53 + 1 becomes 2^53.)
const LARGEST_EXACT: u64 = (1 << 53) - 1;

/// Says why a value has no canonical form.
#[derive(Debug, thiserror::Error)]
pub enum CanonicalError {
    /// The RFC writes numbers as doubles: this one would silently become another.
    #[error("the number {0} cannot be kept exactly in JSON; write it as a string")]
    InexactNumber(String),
    #[error("the value cannot be written as JSON")]
    NotJson(#[source] serde_json::Error),
}

/// Writes a value in its one canonical form.
pub fn to_bytes(value: &impl Serialize) -> Result<Vec<u8>, CanonicalError> {
    let value = serde_json::to_value(value).map_err(CanonicalError::NotJson)?;
    check_numbers(&value)?;
    serde_json_canonicalizer::to_vec(&value).map_err(CanonicalError::NotJson)
}

/// Hashes a value by its canonical form.
pub fn hash(value: &impl Serialize) -> Result<ContentHash, CanonicalError> {
    Ok(ContentHash::of(&to_bytes(value)?))
}

/// Writes a value in its canonical form, with integers beyond the exact ones in full instead of refused.
///
/// For what is signed between our own programs: an agent's partial state may hold any number, and must still be signed.
pub fn exact_bytes(fields: &Map<String, Value>) -> Result<Vec<u8>, CanonicalError> {
    let mut bytes = Vec::new();
    write_object(fields, &mut bytes)?;
    Ok(bytes)
}

fn write_exact(value: &Value, bytes: &mut Vec<u8>) -> Result<(), CanonicalError> {
    match value {
        // An integer that a double keeps is written in full there, too.
        Value::Number(number) if !number.is_f64() => bytes.extend_from_slice(number.to_string().as_bytes()),
        Value::Array(items) => {
            bytes.push(b'[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    bytes.push(b',');
                }
                write_exact(item, bytes)?;
            }
            bytes.push(b']');
        }
        Value::Object(fields) => write_object(fields, bytes)?,
        Value::String(text) => write_text(text, bytes)?,
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            bytes.extend(serde_json_canonicalizer::to_vec(value).map_err(CanonicalError::NotJson)?);
        }
    }
    Ok(())
}

fn write_object(fields: &Map<String, Value>, bytes: &mut Vec<u8>) -> Result<(), CanonicalError> {
    let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
    // Of ASCII the bytes have the order of UTF-16, and a map mostly has its keys in that order: then nothing is left to sort.
    if fields.iter().all(|(key, _)| key.is_ascii()) {
        fields.sort_by_key(|(key, _)| key.as_bytes());
    } else {
        fields.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    }
    bytes.push(b'{');
    for (place, (key, field)) in fields.into_iter().enumerate() {
        if place > 0 {
            bytes.push(b',');
        }
        write_text(key, bytes)?;
        bytes.push(b':');
        write_exact(field, bytes)?;
    }
    bytes.push(b'}');
    Ok(())
}

/// Texts have one form in JSON as `serde_json` writes it, and it is the canonical one.
fn write_text(text: &str, bytes: &mut Vec<u8>) -> Result<(), CanonicalError> {
    serde_json::to_writer(bytes, text).map_err(CanonicalError::NotJson)
}

fn is_inexact(number: &serde_json::Number) -> bool {
    let size = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
    size.is_some_and(|size| size > LARGEST_EXACT)
}

fn check_numbers(value: &Value) -> Result<(), CanonicalError> {
    match value {
        Value::Number(number) if is_inexact(number) => Err(CanonicalError::InexactNumber(number.to_string())),
        Value::Array(items) => items.iter().try_for_each(check_numbers),
        Value::Object(fields) => fields.values().try_for_each(check_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Number(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn canonical(value: &Value) -> String {
        String::from_utf8(to_bytes(value).unwrap()).unwrap()
    }

    fn exact(value: &Value) -> String {
        String::from_utf8(exact_bytes(value.as_object().unwrap()).unwrap()).unwrap()
    }

    proptest! {
        #[test]
        fn the_exact_form_is_the_canonical_one_for_any_text_and_any_exact_number(
            texts in prop::collection::vec((any::<String>(), any::<String>()), 0..6),
            whole in any::<i32>(),
            fraction in any::<f64>(),
        ) {
            let texts: Map<String, Value> = texts.into_iter().map(|(key, text)| (key, text.into())).collect();
            let value = json!({"texts": texts, "whole": whole, "fraction": fraction});
            prop_assert_eq!(exact(&value), canonical(&value));
        }
    }

    #[test]
    fn keys_are_ordered_by_utf16_and_numbers_written_shortest() {
        // RFC 8785, 3.2.3: the emoji is a surrogate pair and sorts before U+FB33.
        let value =
            json!({"\u{fb33}": 1, "😀": 2, "a": 1e30, "b": 4.50, "A": [333_333_333.333_333_3, 2e-3, 1.0]});
        assert_eq!(
            canonical(&value),
            "{\"A\":[333333333.3333333,0.002,1],\"a\":1e+30,\"b\":4.5,\"😀\":2,\"\u{fb33}\":1}"
        );
    }

    #[test]
    fn the_exact_form_is_the_canonical_one_with_large_integers_in_full() {
        let value = json!({"\u{fb33}": [1, {}, []], "😀": {"b": 1e30, "a": "\u{1}\""}, "a": null});
        assert_eq!(exact(&value), canonical(&value));
        let nanos = json!({"b": [u64::MAX], "a": i64::MIN});
        let expected = format!("{{\"a\":{},\"b\":[{}]}}", i64::MIN, u64::MAX);
        assert_eq!(exact(&nanos), expected);
    }

    #[test]
    fn a_number_that_would_change_is_refused() {
        assert_eq!(canonical(&json!(9_007_199_254_740_991_u64)), "9007199254740991");
        for number in [
            json!(9_007_199_254_740_992_u64),
            json!(-9_007_199_254_740_992_i64),
            json!(i64::MIN),
            json!([{"a": u64::MAX}]),
        ] {
            assert!(matches!(to_bytes(&number), Err(CanonicalError::InexactNumber(_))), "{number}");
        }
    }
}
