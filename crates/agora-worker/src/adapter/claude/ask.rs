//! `AskUserQuestion`, both ways: from the call to a question, and from the answer to the call's result.

use agora_core::answer::Reply;
use agora_core::question::Question;
use agora_core::sentinel::{self, Malformed};
use serde_json::{Map, Value, json};

use super::hooks::Answer;
use crate::needs_input::resume::Answered;

/// The tool's name.
pub(super) const TOOL: &str = "AskUserQuestion";

/// Reads the question out of the tool's input. Its own screen always offers something else, so that may be said here too.
pub(super) fn question(input: &Value) -> Result<Question, Malformed> {
    let mut questions = input.get("questions").cloned().unwrap_or_default();
    for item in questions.as_array_mut().into_iter().flatten() {
        if let Value::Object(fields) = item
            && fields.get("options").and_then(Value::as_array).is_some_and(|options| !options.is_empty())
        {
            fields.insert("allowOther".to_owned(), json!(true));
        }
    }
    let mut fields = Map::new();
    fields.insert("questions".to_owned(), questions);
    sentinel::from_fields(fields)
}

/// Makes the answer to the call that waits, or nothing when it does not fit.
pub(super) fn answer(deferred: &Value, answered: &Answered) -> Option<Answer> {
    let call = deferred.get("id")?.as_str()?;
    let harmless =
        !call.is_empty() && call.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if !harmless {
        return None;
    }
    let mut input = deferred.get("input")?.as_object()?.clone();
    let mut answers = Map::new();
    for item in answered.question.items() {
        let reply = answered.replies.get(item.id())?;
        answers.insert(item.question().to_owned(), json!(text(reply)));
    }
    input.insert("answers".to_owned(), Value::Object(answers));
    Some(Answer { call: call.to_owned(), input: Value::Object(input) })
}

/// The tool gives several choices as one text.
fn text(reply: &Reply) -> String {
    match reply {
        Reply::One(text) => text.clone(),
        Reply::Many(texts) => texts.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use agora_core::answer::Answerer;
    use agora_core::time::Timestamp;

    use super::*;

    fn input() -> Value {
        json!({"questions": [
            {"question": "Which database?", "header": "Database", "multiSelect": false,
             "options": [{"label": "sqlite", "description": "embedded"}, {"label": "postgres", "description": "server"}]},
            {"question": "Which tests?", "multiSelect": true, "options": [{"label": "unit"}, {"label": "e2e"}]}
        ]})
    }

    #[test]
    fn every_field_of_the_call_is_in_the_question() {
        let question = question(&input()).unwrap();
        let item = &question.items()[0];
        assert_eq!((item.question(), item.header()), ("Which database?", Some("Database")));
        assert_eq!(item.options()[1].description.as_deref(), Some("server"));
        assert!(item.accepts(&Reply::One("something else".into())));
        assert!(question.items()[1].accepts(&Reply::Many(vec!["unit".into(), "e2e".into()])));
        assert!(super::question(&json!({})).is_err());
        assert!(super::question(&json!({"questions": [{"question": 5}]})).is_err());
    }

    #[test]
    fn the_answer_goes_to_that_call_by_the_questions_words() {
        let answered = Answered {
            question_id: "q_1".parse().unwrap(),
            question: question(&input()).unwrap(),
            replies: serde_json::from_value(json!({"q1": "postgres", "q2": ["unit", "e2e"]})).unwrap(),
            by: Answerer::new("user:ann", "cli"),
            at: Timestamp::from_millis(0),
        };
        let made = answer(&json!({"id": "toolu_1-x", "input": input()}), &answered).unwrap();
        assert_eq!(made.call, "toolu_1-x");
        assert_eq!(
            made.input["answers"],
            json!({"Which database?": "postgres", "Which tests?": "unit, e2e"})
        );
        assert_eq!(made.input["questions"], input()["questions"]);
        for hostile in ["", "a'; rm -rf /", "\"", "*"] {
            assert_eq!(answer(&json!({"id": hostile, "input": input()}), &answered), None, "{hostile}");
        }
    }
}
