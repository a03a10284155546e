//! Task metadata: an orchestrator's own record of a task, in which a pause is three keys, and an answer three more.
//!
//! ```text
//!  needs_input: true   question   question_context   question_options     the agent asks, and stops
//!  needs_input: false  user_answer   answered_at                          somebody answered
//! ```

use serde_json::{Map, Value, json};

use super::{CannotHold, Written, lost_of, only_item, readable};
use crate::answer::Reply;
use crate::limits::SENTINEL_BYTES;
use crate::question::{Question, QuestionError, RawItem, RawQuestion};
use crate::sentinel::{self, Malformed, Place};
use crate::strict;
use crate::time::Timestamp;

/// Our own keys within `question_context`, where it says more than a text.
const CONTEXT: &str = "context";
const STATE: &str = "partial_state";
const IMPLICATIONS: &str = "implications";

/// A task's metadata. What is not about the pause is kept as it was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskMetadata {
    pub agent_id: Option<String>,
    pub pause: Pause,
    others: Map<String, Value>,
}

/// Where a task stands with its question.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Pause {
    /// Nothing was asked.
    #[default]
    None,
    Waiting(Question),
    Answered {
        question: Question,
        answer: Reply,
        at: Timestamp,
    },
}

impl TaskMetadata {
    /// Reads a task's metadata from JSON.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let size = bytes.len() as u64;
        if size > SENTINEL_BYTES {
            return Err(Malformed::TooLarge(size));
        }
        let text = str::from_utf8(bytes).map_err(|_| Malformed::NotUtf8)?;
        match strict::parse(text.strip_prefix('\u{feff}').unwrap_or(text)).map_err(Malformed::Json)? {
            Value::Object(fields) => Self::from_fields(fields),
            _ => Err(Malformed::NotAnObject),
        }
    }

    /// Reads a task's metadata from an object, whichever way the object came.
    pub fn from_fields(mut fields: Map<String, Value>) -> Result<Self, Malformed> {
        let agent_id = match fields.remove("agent_id") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(id),
            Some(_) => return Err(wrong("agent_id", "a text")),
        };
        let waits = match fields.remove("needs_input") {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::Bool(true)) => true,
            Some(_) => return Err(wrong("needs_input", "true or false")),
        };
        let answer = fields.remove("user_answer").filter(|answer| !answer.is_null());
        let pause = match (waits, answer) {
            // An answer to an earlier question means nothing to this one.
            (true, _) => {
                fields.remove("answered_at");
                Pause::Waiting(take_question(&mut fields)?)
            }
            (false, Some(answer)) => {
                let expected = "a text or a list of texts";
                let answer = serde_json::from_value(answer).map_err(|_| wrong("user_answer", expected))?;
                let at = fields.remove("answered_at");
                let at = at.as_ref().and_then(Value::as_str).and_then(|at| at.parse().ok());
                let at = at.ok_or_else(|| wrong("answered_at", "a time like 2026-11-15T19:00:00Z"))?;
                Pause::Answered { question: take_question(&mut fields)?, answer, at }
            }
            (false, None) => Pause::None,
        };
        Ok(Self { agent_id, pause, others: fields })
    }

    /// Writes a question into the metadata that a task has. What was asked before is over.
    pub fn asking(self, question: &Question) -> Result<Written<Self>, CannotHold> {
        let (item, _) = only_item(question)?;
        let form = Self { pause: Pause::Waiting(held(question)?), ..self };
        readable(Value::Object(form.produce()).to_string())?;
        Ok(Written { form, lost: lost_of(&item) })
    }

    /// Writes the answer beside the question. A task that waits for nothing stays as it is.
    pub fn answered(self, answer: Reply, at: Timestamp) -> Self {
        match self.pause {
            Pause::Waiting(question) => Self { pause: Pause::Answered { question, answer, at }, ..self },
            Pause::None | Pause::Answered { .. } => self,
        }
    }

    /// Returns the question that waits for an answer.
    pub fn waiting(&self) -> Option<&Question> {
        match &self.pause {
            Pause::Waiting(question) => Some(question),
            Pause::None | Pause::Answered { .. } => None,
        }
    }

    /// Returns what the task's metadata is to be.
    pub fn produce(&self) -> Map<String, Value> {
        let mut fields = self.others.clone();
        fields.extend(self.agent_id.as_ref().map(|id| ("agent_id".to_owned(), json!(id))));
        let (question, answered) = match &self.pause {
            Pause::None => return fields,
            Pause::Waiting(question) => (question, None),
            Pause::Answered { question, answer, at } => (question, Some((answer, at))),
        };
        fields.insert("needs_input".to_owned(), json!(answered.is_none()));
        if let Some((answer, at)) = answered {
            fields.insert("user_answer".to_owned(), json!(answer));
            fields.insert("answered_at".to_owned(), json!(at));
        }
        if let Ok((item, rest)) = only_item(question) {
            let labels: Vec<_> = item.options.iter().map(|choice| json!(choice.label)).collect();
            fields.insert("question_context".to_owned(), context_of(&item, rest));
            fields.insert("question_options".to_owned(), json!(labels));
            fields.insert("question".to_owned(), json!(item.question));
        }
        fields.retain(|key, value| key != "question_context" || !value.is_null());
        fields
    }
}

/// Returns a question as this form holds it.
fn held(question: &Question) -> Result<Question, CannotHold> {
    let (item, mut rest) = only_item(question)?;
    rest.questions = vec![RawItem { question: item.question, options: item.options, ..RawItem::default() }];
    Question::new(rest).map_err(|_: QuestionError| CannotHold::SeveralItems(0))
}

/// Writes why it is asked: a text where that is all, else an object with our keys.
fn context_of(item: &RawItem, rest: RawQuestion) -> Value {
    let described = item.options.iter().filter_map(|choice| Some((choice, choice.description.as_ref()?)));
    let implied: Map<String, Value> =
        described.map(|(choice, text)| (choice.label.clone(), json!(text))).collect();
    match (rest.context, rest.partial_state, implied.is_empty()) {
        (None, Value::Null, true) => Value::Null,
        (Some(context), Value::Null, true) => json!(context),
        (context, state, _) => {
            let mut fields = Map::new();
            fields.extend(context.map(|context| (CONTEXT.to_owned(), json!(context))));
            // Always there: it is what tells our object from anybody's.
            fields.insert(STATE.to_owned(), state);
            if !implied.is_empty() {
                fields.insert(IMPLICATIONS.to_owned(), Value::Object(implied));
            }
            Value::Object(fields)
        }
    }
}

/// Takes the question out of the metadata.
fn take_question(fields: &mut Map<String, Value>) -> Result<Question, Malformed> {
    let words = fields.remove("question").ok_or(Malformed::NoQuestion)?;
    let options = match fields.remove("question_options") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(options)) => options,
        Some(_) => return Err(wrong("question_options", "a list of texts")),
    };
    let mut why = why(fields.remove("question_context").unwrap_or_default());
    let implied = |option| match option {
        Value::String(label) => match why.implications.remove(&label) {
            Some(text) => json!({"label": label, "description": text}),
            None => json!(label),
        },
        other => other,
    };
    let options: Vec<Value> = options.into_iter().map(implied).collect();
    let mut asked = Map::new();
    asked.insert("question".to_owned(), words);
    asked.insert("options".to_owned(), json!(options));
    asked.extend(why.context.map(|context| ("context".to_owned(), json!(context))));
    asked.insert("partial_state".to_owned(), why.state);
    sentinel::from_fields(asked)
}

/// What a `question_context` says.
struct Why {
    context: Option<String>,
    state: Value,
    implications: Map<String, Value>,
}

/// Reads a `question_context`. An object of somebody else's is what the agent had worked out, and whoever answers reads it, too.
fn why(value: Value) -> Why {
    let none = Map::new;
    match value {
        Value::Null => Why { context: None, state: Value::Null, implications: none() },
        Value::String(text) => Why { context: Some(text), state: Value::Null, implications: none() },
        Value::Object(mut fields) if is_ours(&fields) => Why {
            context: fields.remove(CONTEXT).and_then(|text| text.as_str().map(str::to_owned)),
            implications: match fields.remove(IMPLICATIONS) {
                Some(Value::Object(implications)) => implications,
                _ => none(),
            },
            state: fields.remove(STATE).unwrap_or_default(),
        },
        other => Why { context: Some(told(&other)), state: other, implications: none() },
    }
}

fn is_ours(fields: &Map<String, Value>) -> bool {
    let is_known = |(key, value): (&String, &Value)| match key.as_str() {
        CONTEXT => value.is_string(),
        IMPLICATIONS => value.as_object().is_some_and(|map| map.values().all(Value::is_string)),
        STATE => true,
        _ => false,
    };
    fields.contains_key(STATE) && fields.iter().all(is_known)
}

/// Tells a value line by line.
fn told(value: &Value) -> String {
    let words = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| format!("{key}: {}", words(value)))
            .collect::<Vec<_>>()
            .join("\n"),
        other => words(other),
    }
}

fn wrong(field: &'static str, expected: &'static str) -> Malformed {
    Malformed::Field { place: Place::TopLevel, field, expected }
}
