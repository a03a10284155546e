//! The line that answers a question, as a person types it: in hints, and in what an agent shows to its user.

use agora_core::QuestionId;
use agora_core::question::Item;
use serde_json::{Map, Value, json};

/// Returns the line, with a word where the answer goes: for several items they are named, because one value would be refused.
pub(crate) fn line(id: &QuestionId, items: &[Item]) -> String {
    match items {
        [_] => format!("agora answer {id} VALUE"),
        _ => {
            let answers: Map<String, Value> =
                items.iter().map(|item| (item.id().to_string(), json!("…"))).collect();
            format!("agora answer {id} --answers {}", quoted(&Value::Object(answers).to_string()))
        }
    }
}

/// Writes a word as a shell reads it.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./:@%+=,".contains(character);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use agora_core::question::Question;

    use super::*;

    fn question(items: Value) -> Question {
        serde_json::from_value(json!({"questions": items})).unwrap()
    }

    #[test]
    fn a_line_works_as_it_stands_but_for_the_answer() {
        let id: QuestionId = "q_7f3k".parse().unwrap();
        let one = question(json!([{"question": "Which?"}]));
        assert_eq!(line(&id, one.items()), "agora answer q_7f3k VALUE");
        let two = question(json!([{"id": "db", "question": "Which?"}, {"id": "it's", "question": "Why?"}]));
        assert_eq!(
            line(&id, two.items()),
            r#"agora answer q_7f3k --answers '{"db":"…","it'\''s":"…"}'"#,
            "one value for two items would be refused"
        );
    }

    #[test]
    fn a_word_is_written_as_a_shell_reads_it() {
        assert_eq!(quoted("sqlite"), "sqlite");
        assert_eq!(quoted("Bob's way; rm -rf /"), r"'Bob'\''s way; rm -rf /'");
        assert_eq!(quoted("--decline"), "'--decline'");
    }
}
