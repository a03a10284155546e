//! `AWAITING_USER_INPUT` and a JSON object behind it: the question stands in what the agent printed.

use serde_json::{Map, Value, json};

use super::{CannotHold, readable};
use crate::limits::SENTINEL_BYTES;
use crate::question::{Question, RawQuestion};
use crate::sentinel::{self, Malformed};
use crate::strict;

/// Begins the line that the question follows.
pub const MARK: &str = "AWAITING_USER_INPUT";

/// A question in an output, and the file that the agent says holds its state.
#[derive(Clone, Debug, PartialEq)]
pub struct Awaiting {
    question: Question,
    state_file: Option<String>,
}

impl Awaiting {
    /// Asks a question whose state is in a file, or in the question.
    pub fn new(question: Question, state_file: Option<String>) -> Self {
        Self { question, state_file }
    }

    /// Returns the file that holds the state, as the agent named it: usually a [checkpoint](super::Checkpoint).
    pub fn state_file(&self) -> Option<&str> {
        self.state_file.as_deref()
    }

    /// Reads the JSON object that a text begins with, after white space and a code fence.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
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
        let Value::Object(mut fields) = strict::parse(object).map_err(Malformed::Json)? else {
            return Err(Malformed::NotAnObject);
        };
        let state_file = match fields.remove("stateFile") {
            Some(Value::String(file)) => Some(file),
            // Something else under that name is not a file's, but may mean something to the agent.
            Some(other) if !other.is_null() => {
                fields.entry("partial_state").or_insert(json!({"stateFile": other}));
                None
            }
            Some(_) | None => None,
        };
        Ok(Self { question: sentinel::from_fields(fields)?, state_file })
    }

    /// Returns the question with the state file's name in its partial state, which goes back to the agent.
    pub fn into_question(self) -> Result<Question, Malformed> {
        let Some(file) = self.state_file else { return Ok(self.question) };
        let mut raw = RawQuestion::from(self.question);
        raw.partial_state = match raw.partial_state {
            Value::Null => json!({"stateFile": file}),
            Value::Object(mut state) => {
                state.entry("stateFile").or_insert(json!(file));
                Value::Object(state)
            }
            other => json!({"partial_state": other, "stateFile": file}),
        };
        Question::new(raw).map_err(Malformed::Question)
    }

    /// Writes the marker: the mark, and the object below it. It holds every part of a question; readers of the plain protocol pass
    /// over the keys that are ours.
    pub fn produce(&self) -> Result<String, CannotHold> {
        let raw = RawQuestion::from(self.question.clone());
        let mut fields = Map::new();
        fields.insert("questions".to_owned(), json!(raw.questions));
        fields.extend(raw.context.map(|context| ("context".to_owned(), json!(context))));
        fields.extend(self.state_file.as_ref().map(|file| ("stateFile".to_owned(), json!(file))));
        if !raw.partial_state.is_null() {
            fields.insert("partial_state".to_owned(), raw.partial_state);
        }
        Ok(format!("{MARK}\n{}\n", readable(Value::Object(fields).to_string())?))
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
