//! What is said to a command of a route, and what it says.

use agora_core::answer::{Given, Replies};
use agora_core::job::Job;
use agora_core::question::Question;
use agora_core::state::AskedQuestion;
use agora_core::strict;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Heard;
use crate::dispatch::result::NeedsInput;

/// What of a command's reason is recorded.
const DETAIL: usize = 500;

/// What a command came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Answer(Replies),
    NoResponse(String),
    NoChannel(String),
}

/// Writes the question as a command gets it: one JSON object, a line.
pub(crate) fn question(job: &Job, asked: &AskedQuestion, step: u32) -> String {
    let needs_input = NeedsInput::new(asked);
    let mut document = serde_json::to_value(needs_input).unwrap_or_default();
    if let Value::Object(fields) = &mut document {
        fields.insert("threadId".to_owned(), json!(job.thread_id));
        fields.insert("dispatchId".to_owned(), json!(job.dispatch_id));
        fields.insert("subagent".to_owned(), json!(job.resolved.subagent.name));
        fields.insert("labels".to_owned(), json!(job.labels));
        fields.insert("step".to_owned(), json!(step));
        fields.insert("expiresAt".to_owned(), json!(asked.terms.expiry.map(|expiry| expiry.at)));
    }
    format!("{document}\n")
}

/// What a command may print. One of the three.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Printed {
    answers: Option<Map<String, Value>>,
    answer: Option<Value>,
    no_answer: Option<String>,
}

/// Understands what a command printed. What does not answer the question is no answer to it.
pub(crate) fn understand(question: &Question, heard: Heard) -> Told {
    let bytes = match heard {
        Heard::Said(bytes) => bytes,
        Heard::NoResponse(why) => return Told::NoResponse(short(&why)),
        Heard::NoChannel(why) => return Told::NoChannel(short(&why)),
    };
    let printed = match printed(&bytes) {
        Ok(printed) => printed,
        Err(why) => return Told::NoResponse(short(&format!("what it printed is not an answer: {why}"))),
    };
    let given = match printed {
        Printed { answers: Some(values), answer: None, no_answer: None } => Given::ByItem(values),
        Printed { answers: None, answer: Some(value), no_answer: None } => alone(question, value),
        Printed { answers: None, answer: None, no_answer: Some(why) } => {
            return Told::NoResponse(short(&why));
        }
        Printed { .. } => {
            let why = "what it printed has not exactly one of `answers`, `answer` and `noAnswer`";
            return Told::NoResponse(why.to_owned());
        }
    };
    match given.understood(question) {
        Ok(replies) => Told::Answer(replies),
        Err(error) => Told::NoResponse(short(&format!("its answer does not fit: {error}"))),
    }
}

/// Understands `answer`: for a question of one item, whatever `answers` may have for it.
fn alone(question: &Question, value: Value) -> Given {
    match (value, question.items()) {
        (Value::String(text), _) => Given::Text(text),
        (value, [item]) => Given::ByItem(Map::from_iter([(item.id().to_string(), value)])),
        // It answers none of several, whatever it is.
        (value, _) => Given::Text(value.to_string()),
    }
}

/// Reads what a command printed. A key that is there twice means two things, so it means none.
fn printed(bytes: &[u8]) -> Result<Printed, String> {
    let text = str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let value = strict::parse(text).map_err(|error| error.to_string())?;
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn short(text: &str) -> String {
    text.trim().chars().filter(|letter| !letter.is_control()).take(DETAIL).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(printed: &str) -> Told {
        told_of(json!([which(false)]), printed)
    }

    fn told_of(items: Value, printed: &str) -> Told {
        let question = serde_json::from_value(json!({"questions": items})).unwrap();
        understand(&question, Heard::Said(printed.as_bytes().to_vec()))
    }

    fn which(several: bool) -> Value {
        json!({"question": "Which?", "options": [{"label": "A"}, {"label": "B"}], "multiSelect": several})
    }

    #[test]
    fn an_answer_to_one_item_is_whatever_an_answer_by_its_id_may_be() {
        let answer = |reply: Value| Told::Answer(serde_json::from_value(json!({"q1": reply})).unwrap());
        assert_eq!(told("{\"answer\": 2}"), answer(json!("B")));
        assert_eq!(told_of(json!([which(true)]), "{\"answer\": [\"A\", 2]}"), answer(json!(["A", "B"])));
        let two = told_of(json!([which(true), which(true)]), "{\"answer\": [\"A\"]}");
        assert!(matches!(&two, Told::NoResponse(why) if why.contains("several items")), "{two:?}");
    }

    #[test]
    fn an_answer_is_one_of_two_forms_and_fits_the_question() {
        let a = Told::Answer(serde_json::from_value(json!({"q1": "A"})).unwrap());
        assert_eq!(told("{\"answers\": {\"q1\": \"A\"}}\n"), a);
        assert_eq!(told("{\"answer\": \"a\"}"), a);
        assert_eq!(told("{\"noAnswer\": \"not in the table\"}"), Told::NoResponse("not in the table".into()));
        for wrong in [
            "",
            "A",
            "{}",
            "[]",
            "{\"answer\": \"C\"}",
            "{\"answer\": 3}",
            "{\"answer\": [\"A\"]}",
            "{\"answer\": true}",
            "{\"answer\": null}",
            "{\"answer\": \"A\", \"noAnswer\": \"x\"}",
            "{\"answer\": \"A\", \"sure\": true}",
            "{\"answer\": \"A\", \"answer\": \"B\"}",
            "{\"answers\": {\"q1\": \"A\", \"q1\": \"B\"}}",
            "{\"answers\": {\"q2\": \"A\"}}",
            "{\"answer\": \"A\"} {\"answer\": \"B\"}",
        ] {
            assert!(matches!(told(wrong), Told::NoResponse(_)), "{wrong}");
        }
    }
}
