//! Finds the protocol in what an agent printed, each form at the beginning of a line:
//!
//! ```text
//!  AWAITING_USER_INPUT                     PAUSED_FOR_INPUT: state.json
//!  {"questions": [ … ], "context": …}      Question: Which one?
//!                                          A) This (what it implies)
//! ```

use serde_json::{Map, Value, json};

use super::{Awaiting, Checkpoint, StateFile, awaiting, state_file};
use crate::limits::SENTINEL_BYTES;
use crate::question::Question;
use crate::sentinel::{self, Malformed};

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
        if let Some(rest) = bare.strip_prefix(state_file::MARK) {
            let (file, beside) = named_file(rest.trim_start());
            let rest = format!("{beside}\n{}", &output[start + line.len()..]);
            return Some(Marker::StateFile(Paused { file: file.to_owned(), rest }));
        }
        if let Some(rest) = bare.strip_prefix(awaiting::MARK)
            && (rest.trim_start_matches([':', ' ']).is_empty() || rest.trim_start().starts_with('{'))
        {
            let after = start + line.find(awaiting::MARK).unwrap_or(0) + awaiting::MARK.len();
            let asked = Awaiting::parse(&output[after..]).and_then(Awaiting::into_question);
            return Some(Marker::Asked(asked));
        }
    }
    None
}

/// Splits off a file's name: up to the quote that closes it, else up to the next space.
fn named_file(text: &str) -> (&str, &str) {
    for quote in ['`', '"', '\''] {
        if let Some((file, beside)) = text.strip_prefix(quote).and_then(|rest| rest.split_once(quote)) {
            return (file, beside);
        }
    }
    text.split_once(char::is_whitespace).unwrap_or((text, ""))
}

impl Paused {
    /// Makes the question from the state file's content and from what was printed beside it. A state that is not said to be a part
    /// of the file is the whole of it, and goes back to the agent.
    pub fn question(&self, state: &[u8]) -> Result<Question, Malformed> {
        let size = state.len() as u64;
        if size > SENTINEL_BYTES {
            return Err(Malformed::TooLarge(size));
        }
        let text = str::from_utf8(state).map_err(|_| Malformed::NotUtf8)?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut fields = match StateFile::fields(text) {
            Some(fields) => fields,
            None => Map::from_iter([("partial_state".to_owned(), whole(text))]),
        };
        if let Some(printed) = self.printed() {
            printed.complete(&mut fields);
        } else if !fields.contains_key("question") && !fields.contains_key("questions") {
            // Nobody says what is asked but a checkpoint's pending decision.
            let decision = Checkpoint::parse(text).ok().and_then(|checkpoint| checkpoint.decision());
            fields.insert("question".to_owned(), json!(decision.ok_or(Malformed::NoQuestion)?));
        }
        sentinel::from_fields(fields)
    }

    /// Reads `Question: …` and the options `A) …` below it.
    fn printed(&self) -> Option<Printed> {
        let mut lines = self.rest.lines().map(str::trim);
        let question = lines.by_ref().find_map(|line| line.strip_prefix("Question:"))?.trim().to_owned();
        let option = |line: &str| {
            let (letter, label) = line.split_once(')')?;
            let is_letter = letter.len() == 1 && letter.bytes().all(|byte| byte.is_ascii_alphanumeric());
            is_letter.then(|| label.trim().to_owned())
        };
        Some(Printed { question, options: lines.filter_map(option).collect() })
    }
}

/// A state that is no JSON object with a question is kept as it stands.
fn whole(text: &str) -> Value {
    crate::strict::parse(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// What stands in an output beside a state file's name.
struct Printed {
    question: String,
    /// As they are printed: a label, and perhaps what it implies in brackets.
    options: Vec<String>,
}

impl Printed {
    /// Adds what a file leaves out: the question, or what its options imply.
    fn complete(&self, fields: &mut Map<String, Value>) {
        if !fields.contains_key("question") && !fields.contains_key("questions") {
            fields.insert("question".to_owned(), json!(self.question));
            fields.insert("options".to_owned(), json!(self.choices()));
            return;
        }
        let Some(Value::Array(options)) = fields.get_mut("options") else { return };
        for option in options {
            let Value::String(label) = option else { continue };
            let implied =
                self.options.iter().find_map(|printed| in_brackets(printed.strip_prefix(&**label)?));
            if let Some(implied) = implied {
                *option = json!({"label": label, "description": implied});
            }
        }
    }

    /// Takes each option apart, unless two of them were the same then.
    fn choices(&self) -> Vec<Value> {
        let parts: Vec<_> = self.options.iter().map(|option| in_two(option)).collect();
        let distinct = parts
            .iter()
            .enumerate()
            .all(|(at, (label, _))| !label.is_empty() && parts[..at].iter().all(|(other, _)| other != label));
        if !distinct {
            return self.options.iter().map(|option| json!(option)).collect();
        }
        let choice = |(label, implied): &(&str, Option<&str>)| match implied {
            Some(implied) => json!({"label": label, "description": implied}),
            None => json!(label),
        };
        parts.iter().map(choice).collect()
    }
}

/// Splits `Strict (safer)` into its label and what it implies.
fn in_two(option: &str) -> (&str, Option<&str>) {
    let split = option.rfind(" (").map(|at| option.split_at(at));
    match split.and_then(|(label, rest)| Some((label.trim(), in_brackets(rest)?))) {
        Some((label, implied)) => (label, Some(implied)),
        None => (option, None),
    }
}

fn in_brackets(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?.trim();
    (!inner.is_empty()).then_some(inner)
}

#[cfg(test)]
#[path = "marker_tests.rs"]
mod tests;
