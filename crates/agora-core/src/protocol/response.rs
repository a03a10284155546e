//! `USER_INPUT_RESPONSE {…}`: what an agent is told first when it goes on.

use serde_json::{Map, Value};

use crate::limits::{PATH_BYTES, SENTINEL_BYTES};
use crate::sentinel::Malformed;
use crate::strict;

/// Begins the line that hands an agent its answers.
pub const MARK: &str = "USER_INPUT_RESPONSE";

/// Names the file that the agent left its state in.
const STATE_FILE: &str = "Continue from state file:";

/// Tells an agent where it stands.
const GO_ON: &str = "You asked for this and stopped. Go on from there: the workspace is as you left it, and \
    `.agora/resume.json` holds your question, the answer and your `partial_state`. Do not redo what is done.";

/// The answers by item id, and where the agent said that its state is.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    answers: Map<String, Value>,
    state_file: Option<String>,
}

impl Response {
    /// Answers an agent. What it left behind may name a state file: by the key `stateFile`, as a question in an output does.
    pub fn new(answers: Map<String, Value>, partial_state: &Value) -> Self {
        let file = partial_state.get("stateFile").and_then(Value::as_str);
        Self { answers, state_file: file.filter(|file| is_named(file)).map(str::to_owned) }
    }

    pub fn answers(&self) -> &Map<String, Value> {
        &self.answers
    }

    pub fn state_file(&self) -> Option<&str> {
        self.state_file.as_deref()
    }

    /// Writes what the agent's prompt begins with.
    pub fn produce(&self) -> String {
        let answers = Value::Object(self.answers.clone());
        match &self.state_file {
            Some(file) => format!("{MARK} {answers}\n{STATE_FILE} {file}\n{GO_ON}"),
            None => format!("{MARK} {answers}\n{GO_ON}"),
        }
    }

    /// Reads one at the beginning of a prompt, with the object beside the mark or below it. `None`: the prompt does not begin with
    /// the mark.
    pub fn parse(prompt: &str) -> Option<Result<Self, Malformed>> {
        let rest = prompt.trim_start().strip_prefix(MARK)?;
        rest.starts_with([' ', '\n', '\r', ':', '{']).then(|| Self::read(rest.trim_start_matches(':')))
    }

    fn read(rest: &str) -> Result<Self, Malformed> {
        let head = rest.get(..rest.len().min(SENTINEL_BYTES as usize)).unwrap_or(rest);
        let mut values = serde_json::Deserializer::from_str(head).into_iter::<Map<String, Value>>();
        match values.next() {
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return Err(Malformed::NotAnObject),
        }
        let (object, below) = head.split_at(values.byte_offset());
        let Value::Object(answers) = strict::parse(object.trim()).map_err(Malformed::Json)? else {
            return Err(Malformed::NotAnObject);
        };
        let named = |line: &str| line.trim().strip_prefix(STATE_FILE).map(|file| file.trim().to_owned());
        let state_file = below.lines().find_map(named).filter(|file| is_named(file));
        Ok(Self { answers, state_file })
    }
}

/// Tells whether a text can stand for a file at the end of a line.
fn is_named(file: &str) -> bool {
    !file.is_empty() && file == file.trim() && file.len() <= PATH_BYTES && !file.chars().any(char::is_control)
}
