//! From what an agent wrote to the question it asks.
//!
//! The file is the agent's, so nothing in it is trusted: it is capped before it is read, and whatever is wrong with it is
//! said by place and field, never by quoting it.

use serde_json::{Map, Value};

use crate::answer::Reply;
use crate::limits::{ITEM_OPTIONS, QUESTION_ITEMS, SENTINEL_BYTES};
use crate::question::{Choice, ItemId, Question, QuestionError, RawItem, RawQuestion};
use crate::strict::{self, StrictError};

/// Where the agent writes it, from the workspace's root.
pub const PATH: &str = ".agora/needs_input.json";

/// Says why bytes are not a question. Each is a real bug of the agent's that its owner needs to see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("it has {0} bytes, the most is {SENTINEL_BYTES} (1 MiB)")]
    TooLarge(u64),
    #[error("it is not UTF-8")]
    NotUtf8,
    #[error(transparent)]
    Json(StrictError),
    #[error("it is not a JSON object")]
    NotAnObject,
    #[error("it has neither `question` nor `questions`")]
    NoQuestion,
    #[error("it has both `question` and `questions`")]
    Both,
    #[error("{place}: `{field}` is not {expected}")]
    Field { place: Place, field: &'static str, expected: &'static str },
    #[error("it has {0} items, the most is {QUESTION_ITEMS}")]
    TooManyItems(usize),
    #[error("{place} has {count} options, the most is {ITEM_OPTIONS}")]
    TooManyOptions { place: Place, count: usize },
    #[error(transparent)]
    Question(QuestionError),
}

/// Where in the file something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    TopLevel,
    /// Counted from 1.
    Item(usize),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TopLevel => f.write_str("the object"),
            Self::Item(number) => write!(f, "item {number}"),
        }
    }
}

/// Reads a question. Keys that are not known are passed over: an agent may say more than we ask.
pub fn parse(bytes: &[u8]) -> Result<Question, Malformed> {
    let size = bytes.len() as u64;
    if size > SENTINEL_BYTES {
        return Err(Malformed::TooLarge(size));
    }
    let text = str::from_utf8(bytes).map_err(|_| Malformed::NotUtf8)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match strict::parse(text).map_err(Malformed::Json)? {
        Value::Object(fields) => from_fields(fields),
        _ => Err(Malformed::NotAnObject),
    }
}

/// Reads a question from an object, whichever way the object came.
pub fn from_fields(mut fields: Map<String, Value>) -> Result<Question, Malformed> {
    let mut top = Fields { place: Place::TopLevel, fields: &mut fields };
    let (context, partial_state) =
        (top.text("context")?, top.fields.remove("partial_state").unwrap_or_default());
    let questions = match (fields.contains_key("question"), fields.remove("questions")) {
        (true, None) => vec![item(Place::TopLevel, fields)?],
        (true, Some(_)) => return Err(Malformed::Both),
        (false, None) => return Err(Malformed::NoQuestion),
        // Here and not in the question itself: what was recorded under another limit stays readable.
        (false, Some(Value::Array(values))) if values.len() > QUESTION_ITEMS => {
            return Err(Malformed::TooManyItems(values.len()));
        }
        (false, Some(Value::Array(values))) => {
            (1..).zip(values).map(|(number, value)| listed(number, value)).collect::<Result<_, _>>()?
        }
        (false, Some(_)) => return Err(wrong(Place::TopLevel, "questions", "a list")),
    };
    // What only agora asks is never in it, whatever the fields say.
    Question::new(RawQuestion { questions, context, partial_state, spent: None }).map_err(Malformed::Question)
}

fn listed(number: usize, value: Value) -> Result<RawItem, Malformed> {
    match value {
        Value::Object(fields) => item(Place::Item(number), fields),
        _ => Err(wrong(Place::TopLevel, "questions", "a list of objects")),
    }
}

fn item(place: Place, mut fields: Map<String, Value>) -> Result<RawItem, Malformed> {
    let mut fields = Fields { place, fields: &mut fields };
    let id = match place {
        Place::TopLevel => None,
        Place::Item(_) => fields.text("id")?,
    };
    let id =
        id.map(|id| id.parse::<ItemId>().map_err(|_| wrong(place, "id", "a text of 1 to 128 characters")));
    Ok(RawItem {
        id: id.transpose()?,
        question: fields.text("question")?.ok_or_else(|| wrong(place, "question", "there"))?,
        header: fields.text("header")?,
        options: fields.options()?,
        multi_select: fields.flag("multiSelect")?,
        allow_other: fields.flag("allowOther")?,
        default: fields.reply("default")?,
        human: fields.flag("human")?,
    })
}

/// The fields of one object, taken out one by one. `null` is the same as leaving a field out.
struct Fields<'a> {
    place: Place,
    fields: &'a mut Map<String, Value>,
}

impl Fields<'_> {
    fn take(&mut self, field: &str) -> Option<Value> {
        self.fields.remove(field).filter(|value| !value.is_null())
    }

    fn text(&mut self, field: &'static str) -> Result<Option<String>, Malformed> {
        match self.fields.get(field) {
            // A question that is `null` was meant to be asked.
            Some(Value::Null) if field == "question" => Err(wrong(self.place, field, "a text")),
            _ => match self.take(field) {
                None => Ok(None),
                Some(Value::String(text)) => Ok(Some(text)),
                Some(_) => Err(wrong(self.place, field, "a text")),
            },
        }
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, Malformed> {
        match self.take(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(wrong(self.place, field, "true or false")),
        }
    }

    fn reply(&mut self, field: &'static str) -> Result<Option<Reply>, Malformed> {
        let expected = "a text or a list of texts";
        self.take(field)
            .map(|value| serde_json::from_value(value).map_err(|_| wrong(self.place, field, expected)))
            .transpose()
    }

    fn options(&mut self) -> Result<Vec<Choice>, Malformed> {
        let expected = "a list of texts, or of objects with `label` and `description`";
        let wrong = || wrong(self.place, "options", expected);
        let choice = |value| match value {
            Value::String(label) => Some(Choice { label, description: None }),
            Value::Object(mut fields) => match (fields.remove("label"), fields.remove("description")) {
                (Some(Value::String(label)), None | Some(Value::Null)) => {
                    Some(Choice { label, description: None })
                }
                (Some(Value::String(label)), Some(Value::String(text))) => {
                    Some(Choice { label, description: Some(text) })
                }
                _ => None,
            },
            _ => None,
        };
        match self.fields.remove("options").filter(|value| !value.is_null()) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) if values.len() > ITEM_OPTIONS => {
                Err(Malformed::TooManyOptions { place: self.place, count: values.len() })
            }
            Some(Value::Array(values)) => {
                values.into_iter().map(choice).collect::<Option<_>>().ok_or_else(wrong)
            }
            Some(_) => Err(wrong()),
        }
    }
}

fn wrong(place: Place, field: &'static str, expected: &'static str) -> Malformed {
    Malformed::Field { place, field, expected }
}

#[cfg(test)]
#[path = "sentinel_tests.rs"]
mod tests;
