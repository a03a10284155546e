//! An answer in a file.

use std::fs::File;
use std::io::{self, Read};

use agora_core::answer::Given;
use agora_core::question::{Choosing, Question};
use serde_json::Value;

use super::{STANDARD_INPUT, object};
use crate::failure::Failure;

/// As much as a question may have.
const FILE_BYTES: usize = 1 << 20;

/// Reads a file, or standard input for `-`, and no more of it than an answer may have.
pub(super) fn read(file: &str) -> Result<String, Failure> {
    let unreadable = |error: io::Error| {
        Failure::wrong("file-unreadable", format!("`{file}` cannot be read")).because(error)
    };
    let most = FILE_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    match file {
        STANDARD_INPUT => io::stdin().lock().take(most).read_to_end(&mut bytes),
        path => File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)),
    }
    .map_err(unreadable)?;
    if bytes.len() > FILE_BYTES {
        return Err(Failure::wrong("answer-too-large", format!("`{file}` has more than {FILE_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| unreadable(io::Error::other(error)))
}

/// Understands what a file holds: an object by the items' ids, or a text as it stands. Where any text will do, an object that does not
/// name the item is a text like any other.
pub(super) fn given(text: &str, question: &Question) -> Result<Given, Failure> {
    let takes_any_text = |values: &serde_json::Map<String, Value>| match question.items() {
        [item] => {
            (item.choosing() == Choosing::FreeText || item.allows_other())
                && !values.contains_key(item.id().as_str())
        }
        _ => false,
    };
    match serde_json::from_str(text) {
        // Read once more, strictly: what is there twice is nobody's answer.
        Ok(Value::Object(values)) if !takes_any_text(&values) => object(text).map(Given::ByItem),
        // A person's editor ends a file with a line break that is not meant.
        _ => {
            let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
            Ok(Given::Text(line.unwrap_or(text).to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_an_answer_by_items_or_a_text_as_it_stands() {
        let question =
            |items: Value| serde_json::from_value::<Question>(json!({"questions": items})).unwrap();
        let free = question(json!([{"question": "Why?"}]));
        let given = |text: &str, question: &Question| given(text, question).unwrap();
        let text = |text: &str| Given::Text(text.to_owned());
        let by_item = |values: Value| Given::ByItem(values.as_object().unwrap().clone());
        assert_eq!(given("a line\r\n", &free), text("a line"));
        assert_eq!(given("two\r\nlines\n", &free), text("two\r\nlines"), "only what an editor adds");
        assert_eq!(given(r#"{"port": 80}"#, &free), text(r#"{"port": 80}"#), "it may be what was asked for");
        assert_eq!(given(r#"{"q1": "x"}"#, &free), by_item(json!({"q1": "x"})));
        let choice = question(json!([{"question": "Which?", "options": [{"label": "a"}]}]));
        assert_eq!(given(r#"{"q2": "a"}"#, &choice), by_item(json!({"q2": "a"})), "and is refused as such");
        let two = question(json!([{"question": "Which?"}, {"question": "Why?"}]));
        assert_eq!(given(r#"{"port": 80}"#, &two), by_item(json!({"port": 80})));
    }

    #[test]
    fn an_item_that_a_file_answers_twice_is_not_answered() {
        let question = serde_json::from_value(json!({"questions": [{"question": "Why?"}]})).unwrap();
        let twice = given(r#"{"q1": "a", "q1": "b"}"#, &question);
        assert!(twice.is_err(), "{twice:?}");
    }
}
