//! The plain state file: JSON that the agent keeps wherever it can write, and `PAUSED_FOR_INPUT: file` in its output.

use serde_json::{Map, Value, json};

use super::{CannotHold, Written, one_line, only_item, readable};
use crate::limits::SENTINEL_BYTES;
use crate::question::Question;
use crate::sentinel::{self, Malformed, Place};
use crate::strict;
use crate::time::Timestamp;

/// Begins the line that names the file.
pub const MARK: &str = "PAUSED_FOR_INPUT:";

/// A state file. What it says is checked; keys that are not known are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct StateFile(Map<String, Value>);

impl StateFile {
    /// Reads a state file: an object, the known keys of which are of their kind.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let size = bytes.len() as u64;
        if size > SENTINEL_BYTES {
            return Err(Malformed::TooLarge(size));
        }
        let text = str::from_utf8(bytes).map_err(|_| Malformed::NotUtf8)?;
        match strict::parse(text.strip_prefix('\u{feff}').unwrap_or(text)).map_err(Malformed::Json)? {
            Value::Object(fields) => Self::checked(fields),
            _ => Err(Malformed::NotAnObject),
        }
    }

    fn checked(fields: Map<String, Value>) -> Result<Self, Malformed> {
        let wrong = |field, expected| Malformed::Field { place: Place::TopLevel, field, expected };
        for field in ["agent", "progress", "decision"] {
            if fields.get(field).is_some_and(|value| !value.is_string()) {
                return Err(wrong(field, "a text"));
            }
        }
        let file = Self(fields);
        if file.0.contains_key("timestamp") && file.timestamp().is_none() {
            return Err(wrong("timestamp", "a time like 2026-11-15T19:00:00Z"));
        }
        let listed = |value: &Value| value.as_array().is_some_and(|files| files.iter().all(Value::is_string));
        if file.0.get("files").is_some_and(|files| !listed(files)) {
            return Err(wrong("files", "a list of texts"));
        }
        file.question()?;
        Ok(file)
    }

    /// Writes a question down for an agent that paused at some moment.
    pub fn of(question: &Question, agent: &str, at: Timestamp) -> Result<Written<Self>, CannotHold> {
        let (mut item, rest) = only_item(question)?;
        let words = std::mem::take(&mut item.question);
        let plain = item.options.iter().all(|choice| choice.description.is_none());
        let labels: Vec<String> = item.options.iter().map(|choice| choice.label.clone()).collect();
        let Value::Object(mut asked) = json!(item) else { return Err(CannotHold::SeveralItems(0)) };
        asked.retain(|_, value| *value != json!(false));
        asked.remove("question");
        asked.insert("text".to_owned(), json!(words));
        if plain && !labels.is_empty() {
            asked.insert("options".to_owned(), json!(labels));
        }
        let mut fields = Map::new();
        fields.insert("agent".to_owned(), json!(agent));
        fields.insert("timestamp".to_owned(), json!(at));
        fields.insert("decision".to_owned(), json!(words));
        fields.insert("question".to_owned(), Value::Object(asked));
        fields.extend(rest.context.map(|context| ("context".to_owned(), json!(context))));
        // Said even where there is none: else the whole file would be taken for it.
        fields.insert("partial_state".to_owned(), rest.partial_state);
        let form = Self(fields);
        readable(form.produce())?;
        Ok(Written { form, lost: Vec::new() })
    }

    /// Returns the file's content.
    pub fn produce(&self) -> String {
        format!("{:#}\n", Value::Object(self.0.clone()))
    }

    /// Returns the lines that tell whoever reads the output where the file is and what is asked. `None`: no line can name that file.
    pub fn marker(&self, file: &str) -> Option<String> {
        let quoted = match file {
            _ if file.is_empty()
                || file.chars().any(|character| character.is_control() || character == '"') =>
            {
                return None;
            }
            _ if file.contains(char::is_whitespace) || file.starts_with(['`', '\'']) => format!("\"{file}\""),
            _ => file.to_owned(),
        };
        let mut lines = format!("{MARK} {quoted}\n");
        if let Ok(Some(question)) = self.question()
            && let [item] = question.items()
        {
            lines.extend([format!("Question: {}\n", one_line(item.question()))]);
            for (letter, choice) in ('A'..='Z').zip(item.options()) {
                let implied = choice.description.as_deref().map(one_line).filter(|text| !text.is_empty());
                let implied = implied.map(|text| format!(" ({text})")).unwrap_or_default();
                lines.extend([format!("{letter}) {}{implied}\n", one_line(&choice.label))]);
            }
        }
        Some(lines)
    }

    pub fn agent(&self) -> Option<&str> {
        self.0.get("agent")?.as_str()
    }

    pub fn timestamp(&self) -> Option<Timestamp> {
        self.0.get("timestamp")?.as_str()?.parse().ok()
    }

    pub fn progress(&self) -> Option<&str> {
        self.0.get("progress")?.as_str()
    }

    pub fn decision(&self) -> Option<&str> {
        self.0.get("decision")?.as_str()
    }

    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.0.get("files").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// Returns the question, if the file holds it: it may stand in the output alone.
    pub fn question(&self) -> Result<Option<Question>, Malformed> {
        asked(self.0.clone()).map(sentinel::from_fields).transpose()
    }

    /// Returns a question's fields from a text that is a state file with a question.
    pub(super) fn fields(text: &str) -> Option<Map<String, Value>> {
        match strict::parse(text) {
            Ok(Value::Object(state)) => asked(state),
            _ => None,
        }
    }
}

/// Returns a question's fields: its words, and what is handed back to the agent. That is what the file says is the partial state,
/// else the whole of it.
fn asked(state: Map<String, Value>) -> Option<Map<String, Value>> {
    if !state.contains_key("question") && !state.contains_key("questions") {
        return None;
    }
    let kept = state.get("partial_state").cloned().unwrap_or_else(|| Value::Object(state.clone()));
    let mut fields = match state.get("question") {
        Some(Value::Object(inner)) => {
            let mut fields = unnested(inner.clone());
            if let Some(context) = state.get("context").filter(|context| context.is_string()) {
                fields.entry("context").or_insert_with(|| context.clone());
            }
            fields
        }
        _ => state,
    };
    fields.insert("partial_state".to_owned(), kept);
    Some(fields)
}

/// Reads a question that is an object of its own, with its words under `text`; as a list of one, where it has an id.
fn unnested(mut inner: Map<String, Value>) -> Map<String, Value> {
    if let Some(text) = inner.remove("text") {
        inner.entry("question").or_insert(text);
    }
    if !inner.contains_key("id") {
        return inner;
    }
    let context = inner.remove("context").map(|context| ("context".to_owned(), context));
    let listed = ("questions".to_owned(), json!([inner]));
    Map::from_iter([listed].into_iter().chain(context))
}
