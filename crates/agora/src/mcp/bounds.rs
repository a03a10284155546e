//! What one answer to a model has at most, and how it comes to that: long words are cut, long lists end early and say how much is
//! missing, an agent's data is whole or not there. What names something (an id, a hash, a reference) and what counts only as a whole (a
//! schema) is never cut. The rest is a resource, or the next page.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Trouble;

/// What one answer to a model has at most, all of it together, as it goes over the wire.
pub(crate) const MOST_BYTES: usize = 32 * 1024;
/// What a result may take of that. The rest is the protocol's frame.
const ROOM: usize = MOST_BYTES - 512;
/// What a list leaves to the words beside it: what to do next, and where the next page begins.
const BESIDE: usize = 3 * 1024;
/// How much is left of long words, step by step. Never less: whatever names something is shorter.
const WORDS: [usize; 5] = [8 * 1024, 4 * 1024, 2 * 1024, 1024, 512];
/// How much is left of long lists, after the words.
const ENTRIES: [usize; 5] = [64, 16, 4, 1, 0];
/// A map with fewer keys is one of ours, and stays whole.
const KEYS: usize = 64;
/// What of a name that was given is shown, in characters. An id of ours is shorter.
const NAMED: usize = 64;
/// What an agent made for programs: half of it would be believed.
const DATA: [&str; 2] = ["structured", "partialState"];
/// What counts only as a whole, and was looked at where it was put in.
const WHOLE: [&str; 1] = ["inputSchema"];

/// Makes a tool's result, in bounds.
pub(crate) fn done(reply: &impl Serialize) -> CallToolResult {
    CallToolResult::structured(fitted(&serde_json::to_value(reply).unwrap_or_default(), ROOM))
}

/// Makes a tool's result that says why it did nothing. Without structured content: that would have to fit the tool's output schema.
pub(crate) fn refused(trouble: &Trouble) -> CallToolResult {
    let words = fitted(&serde_json::to_value(trouble).unwrap_or_default(), ROOM);
    CallToolResult::error(vec![ContentBlock::text(json!({"error": words}).to_string())])
}

/// Returns entries that go into one answer, from the first on, and how many are left for the next. Of
/// entries that there are, one is always among them: pages come to an end.
pub(crate) fn page(entries: &[impl Serialize]) -> (Vec<Value>, usize) {
    let entries: Vec<Value> =
        entries.iter().map(|entry| serde_json::to_value(entry).unwrap_or_default()).collect();
    let room = ROOM - BESIDE;
    let mut told = Vec::new();
    for words in std::iter::once(usize::MAX).chain(WORDS) {
        told.clear();
        let mut left = room;
        for entry in &entries {
            let cut = Cut::new(words, usize::MAX).of(entry);
            // With a comma, which stands twice, too.
            let cut = if weight(&cut) + 2 > room { fitted(entry, room - 2) } else { cut };
            let Some(rest) = left.checked_sub(weight(&cut) + 2) else { break };
            left = rest;
            told.push(cut);
        }
        if told.len() == entries.len() {
            break;
        }
    }
    let left = entries.len() - told.len();
    (told, left)
}

/// Cuts a value until it takes no more of the wire than it may.
pub(crate) fn fitted(value: &Value, most: usize) -> Value {
    let words = WORDS.into_iter().map(|words| Cut::new(words, usize::MAX));
    let entries = ENTRIES.into_iter().map(|entries| Cut::new(WORDS[WORDS.len() - 1], entries));
    if weight(value) <= most {
        return value.clone();
    }
    let mut shortest = value.clone();
    for cut in words.chain(entries) {
        shortest = cut.of(value);
        if weight(&shortest) <= most {
            return shortest;
        }
    }
    emptied(shortest, most)
}

/// Empties the fields that hold most, whatever they hold, until the rest fits.
fn emptied(mut value: Value, most: usize) -> Value {
    while weight(&value) > most
        && let Value::Object(fields) = &mut value
        && let Some((_, largest)) = fields
            .iter_mut()
            .filter(|(key, field)| match field {
                _ if WHOLE.contains(&key.as_str()) => false,
                Value::Array(entries) => !entries.is_empty(),
                Value::Object(entries) => !entries.is_empty(),
                _ => false,
            })
            .max_by_key(|(_, field)| weight(field))
    {
        *largest = if largest.is_array() { json!([]) } else { json!({}) };
    }
    value
}

/// Tells whether what counts only as a whole goes into an entry, beside what else an entry says.
pub(crate) fn goes_in_whole(value: &impl Serialize) -> bool {
    weight(value) <= ROOM - 2 * BESIDE
}

/// Returns what a value takes of the wire in a tool's result. It stands there twice: as data, and as text for who reads no data.
fn weight(value: &impl Serialize) -> usize {
    let text = serde_json::to_string(value).unwrap_or_default();
    text.len() + on_wire(&text)
}

/// Returns what a text takes of the wire, as a string.
pub(crate) fn on_wire(text: &str) -> usize {
    text.bytes().map(|byte| if byte.is_ascii() { wire_bytes(char::from(byte)) } else { 1 }).sum()
}

/// Returns what a character takes of the wire, within a string.
pub(crate) fn wire_bytes(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        character if character < ' ' => 6,
        character => character.len_utf8(),
    }
}

/// How far a value is cut.
struct Cut {
    words: usize,
    entries: usize,
}

impl Cut {
    fn new(words: usize, entries: usize) -> Self {
        Self { words, entries }
    }

    /// Cuts a value, and notes in it which lists have ended early, and by how much.
    fn of(&self, value: &Value) -> Value {
        let mut omitted = Map::new();
        let mut cut = self.value(value, None, "", &mut omitted);
        if let Value::Object(fields) = &mut cut
            && !omitted.is_empty()
        {
            fields.insert("omitted".to_owned(), Value::Object(omitted));
        }
        cut
    }

    fn value(
        &self,
        value: &Value,
        resource: Option<&str>,
        path: &str,
        omitted: &mut Map<String, Value>,
    ) -> Value {
        match value {
            Value::String(text) => Value::String(clipped(text, self.words, resource)),
            Value::Array(entries) => {
                let kept = entries.iter().take(self.entries).zip(0..);
                let kept = kept
                    .map(|(entry, place)| {
                        self.value(entry, resource, &below(path, &place.to_string()), omitted)
                    })
                    .collect();
                note(omitted, path, entries.len().saturating_sub(self.entries));
                kept
            }
            Value::Object(fields) => {
                let resource = fields.get("resource").and_then(Value::as_str).or(resource);
                let most = self.entries.max(KEYS);
                let kept = fields.iter().take(most);
                let kept = kept
                    .map(|(key, field)| {
                        (key.clone(), self.field(key, field, resource, &below(path, key), omitted))
                    })
                    .collect();
                note(omitted, path, fields.len().saturating_sub(most));
                kept
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn field(
        &self,
        key: &str,
        value: &Value,
        resource: Option<&str>,
        path: &str,
        omitted: &mut Map<String, Value>,
    ) -> Value {
        if WHOLE.contains(&key) || DATA.contains(&key) && weight(value) <= self.words {
            return value.clone();
        }
        if DATA.contains(&key) {
            return json!(format!("[{} bytes{}]", value.to_string().len(), to_be_had(resource)));
        }
        self.value(value, resource, path, omitted)
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn note(omitted: &mut Map<String, Value>, path: &str, missing: usize) {
    if missing > 0 {
        omitted.insert(path.to_owned(), json!(missing));
    }
}

/// Cuts a text to what it may take of the wire, and says how much is missing and where all of it is.
pub(crate) fn clipped(text: &str, most: usize, resource: Option<&str>) -> String {
    if text.len() <= most / 6 || on_wire(text) <= most {
        return text.to_owned();
    }
    let mut left = most;
    let fitting = text.chars().take_while(|character| {
        let rest = left.checked_sub(wire_bytes(*character));
        left = rest.unwrap_or_default();
        rest.is_some()
    });
    let end: usize = fitting.map(char::len_utf8).sum();
    format!("{}… [{} more bytes{}]", &text[..end], text.len() - end, to_be_had(resource))
}

/// Returns a name that somebody gave, as an error shows it: they know it, and it may be of any length.
pub(crate) fn named(text: &str) -> String {
    match text.char_indices().nth(NAMED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn to_be_had(resource: Option<&str>) -> String {
    resource.map(|uri| format!(": read {uri}")).unwrap_or_default()
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;
