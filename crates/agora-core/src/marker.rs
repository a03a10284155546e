//! The portable user input protocol: how an agent asks in what it prints, where it has no file to write.
//!
//! Two forms, each at the beginning of a line of the final output:
//!
//! ```text
//!  AWAITING_USER_INPUT                     PAUSED_FOR_INPUT: state.json
//!  {"questions": [ … ], "context": …}      Question: Which one?
//!                                          A) This (what it implies)
//! ```

use serde_json::{Map, Value, json};

use crate::limits::SENTINEL_BYTES;
use crate::question::Question;
use crate::sentinel::{self, Malformed};
use crate::strict;

const AWAITING: &str = "AWAITING_USER_INPUT";
const PAUSED: &str = "PAUSED_FOR_INPUT:";

/// What a final output asks by.
#[derive(Clone, Debug, PartialEq)]
pub enum Marker {
    /// The question stands in the output.
    Asked(Result<Question, Malformed>),
    /// A state file holds what the agent had worked out, and perhaps the question.
    StateFile(Paused),
}

/// A pause whose state is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paused {
    /// As the agent wrote it; whoever opens it sees that it stays inside the workspace.
    pub file: String,
    /// What follows the marker.
    rest: String,
}

/// Finds the last marker of an output. Earlier ones were talk, or of an earlier attempt.
pub fn find(output: &str) -> Option<Marker> {
    for line in output.lines().rev() {
        let start = line.as_ptr() as usize - output.as_ptr() as usize;
        let bare = line.trim();
        if let Some(rest) = bare.strip_prefix(PAUSED) {
            let file = rest.split_whitespace().next().unwrap_or_default().trim_matches(['`', '"', '\'']);
            let rest =
                format!("{}\n{}", rest.trim_start().trim_start_matches(file), &output[start + line.len()..]);
            return Some(Marker::StateFile(Paused { file: file.to_owned(), rest }));
        }
        if let Some(rest) = bare.strip_prefix(AWAITING)
            && (rest.trim_start_matches([':', ' ']).is_empty() || rest.trim_start().starts_with('{'))
        {
            let after = start + line.find(AWAITING).unwrap_or(0) + AWAITING.len();
            return Some(Marker::Asked(in_text(&output[after..])));
        }
    }
    None
}

/// Reads the JSON object that a text begins with, after white space and a code fence.
fn in_text(text: &str) -> Result<Question, Malformed> {
    let begin = text.find('{').ok_or(Malformed::NotAnObject)?;
    let fence = |character: char| {
        character.is_whitespace() || character.is_alphanumeric() || "`:".contains(character)
    };
    if !text[..begin].chars().all(fence) {
        return Err(Malformed::NotAnObject);
    }
    let object = first_object(&text[begin..]);
    if object.len() as u64 > SENTINEL_BYTES {
        return Err(Malformed::TooLarge(object.len() as u64));
    }
    match strict::parse(object).map_err(Malformed::Json)? {
        Value::Object(fields) => asked(fields),
        _ => Err(Malformed::NotAnObject),
    }
}

/// Returns the text up to the brace that closes the first one.
fn first_object(text: &str) -> &str {
    let (mut depth, mut in_string, mut escaped) = (0_u64, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return &text[..=at];
                }
            }
            _ => {}
        }
    }
    text
}

/// Reads a question of the protocol: the sentinel's shape, and a state file beside it.
fn asked(mut fields: Map<String, Value>) -> Result<Question, Malformed> {
    if let Some(file) = fields.remove("stateFile")
        && !fields.contains_key("partial_state")
    {
        fields.insert("partial_state".to_owned(), json!({"stateFile": file}));
    }
    sentinel::from_fields(fields)
}

impl Paused {
    /// Makes the question from the state file's content and from what was printed beside it. The state goes back to the
    /// agent whole.
    pub fn question(&self, state: &[u8]) -> Result<Question, Malformed> {
        let size = state.len() as u64;
        if size > SENTINEL_BYTES {
            return Err(Malformed::TooLarge(size));
        }
        let text = str::from_utf8(state).map_err(|_| Malformed::NotUtf8)?;
        let parsed = strict::parse(text.strip_prefix('\u{feff}').unwrap_or(text)).ok();
        let whole = parsed.clone().unwrap_or_else(|| Value::String(text.to_owned()));
        let mut fields = match parsed {
            Some(Value::Object(mut state))
                if state.contains_key("question") || state.contains_key("questions") =>
            {
                if let Some(Value::Object(inner)) = state.get("question").cloned() {
                    state = unnested(inner);
                }
                state
            }
            _ => self.printed().ok_or(Malformed::NoQuestion)?,
        };
        fields.entry("partial_state").or_insert(whole);
        sentinel::from_fields(fields)
    }

    /// Reads `Question: …` and the options `A) …` below it.
    fn printed(&self) -> Option<Map<String, Value>> {
        let mut lines = self.rest.lines().map(str::trim);
        let question = lines.by_ref().find_map(|line| line.strip_prefix("Question:"))?.trim();
        let option = |line: &str| {
            let (letter, label) = line.split_once(')')?;
            let is_letter = letter.len() == 1 && letter.bytes().all(|byte| byte.is_ascii_alphanumeric());
            is_letter.then(|| json!(label.trim()))
        };
        let options: Vec<Value> = lines.filter_map(option).collect();
        let mut fields = Map::new();
        fields.insert("question".to_owned(), json!(question));
        fields.insert("options".to_owned(), json!(options));
        Some(fields)
    }
}

/// Some write the question as an object of its own, with its words under `text`.
fn unnested(mut inner: Map<String, Value>) -> Map<String, Value> {
    if let Some(text) = inner.remove("text") {
        inner.entry("question").or_insert(text);
    }
    inner
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked(output: &str) -> Question {
        match find(output) {
            Some(Marker::Asked(Ok(question))) => question,
            other => panic!("{output}: {other:?}"),
        }
    }

    #[test]
    fn a_question_in_the_output_is_heard() {
        let json = r#"{"context": "97% score", "stateFile": "notes.md", "questions": [
            {"id": "tasks", "question": "Create } tasks?", "header": "Mutants",
             "options": [{"label": "Yes", "description": "three"}, {"label": "No"}], "multiSelect": false}]}"#;
        for output in [
            format!("Done so far.\nAWAITING_USER_INPUT\n{json}\nWaiting."),
            format!("AWAITING_USER_INPUT\n```json\n{json}\n```\n"),
            format!("AWAITING_USER_INPUT {json}"),
            format!("first AWAITING_USER_INPUT was talk\nAWAITING_USER_INPUT:\n{json}"),
        ] {
            let question = asked(&output);
            assert_eq!(question.items()[0].id().as_str(), "tasks", "{output}");
            assert_eq!(question.items()[0].options()[0].description.as_deref(), Some("three"));
            assert_eq!(question.context(), Some("97% score"));
            assert_eq!(question.partial_state(), &json!({"stateFile": "notes.md"}));
        }
    }

    #[test]
    fn talk_about_the_marker_asks_nothing_and_a_broken_question_is_not_passed_over() {
        for output in [
            "",
            "I would print AWAITING_USER_INPUT here.",
            "AWAITING_USER_INPUT_X\n{}",
            "`AWAITING_USER_INPUT`",
        ] {
            assert_eq!(find(output), None, "{output}");
        }
        for output in [
            "AWAITING_USER_INPUT",
            "AWAITING_USER_INPUT\nno object",
            "AWAITING_USER_INPUT\n{\"a\":",
            "AWAITING_USER_INPUT\n{}",
        ] {
            assert!(matches!(find(output), Some(Marker::Asked(Err(_)))), "{output}");
        }
    }

    fn paused(output: &str) -> Paused {
        match find(output) {
            Some(Marker::StateFile(paused)) => paused,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_state_file_brings_the_question_or_the_output_does() {
        let output = "PAUSED_FOR_INPUT: state/agent.json Question: Which?\nA) Strict (safer)\nB) Lenient\n";
        let paused = paused(output);
        assert_eq!(paused.file, "state/agent.json");
        let nested = br#"{"progress": "half", "question": {"text": "Which way?", "options": ["S", "L"]}}"#;
        let question = paused.question(nested).unwrap();
        assert_eq!(question.items()[0].question(), "Which way?");
        assert_eq!(question.partial_state()["progress"], json!("half"));
        for state in [&b"# Progress\nhalf"[..], br#"{"progress": "half"}"#] {
            let question = paused.question(state).unwrap();
            assert_eq!(question.items()[0].question(), "Which?");
            assert_eq!(question.items()[0].options()[1].label, "Lenient");
            assert!(question.partial_state().to_string().contains("half"));
        }
        assert_eq!(self::paused("PAUSED_FOR_INPUT: a.json").question(b"{}"), Err(Malformed::NoQuestion));
        assert_eq!(paused.question(b"\xff"), Err(Malformed::NotUtf8));
    }

    proptest! {
        #[test]
        fn no_output_panics(output in "(AWAITING_USER_INPUT|PAUSED_FOR_INPUT:|\\{|\\}|\"|\\\\|[a-zé: \n`]|Question:|A\\)){0,60}") {
            if let Some(Marker::StateFile(paused)) = find(&output) {
                let _ = paused.question(output.as_bytes());
            }
        }
    }
}
