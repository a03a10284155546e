//! An open question as a model reads it: what is asked, who may bring the answer, and how.

use agora_core::question::{Item, Question};
use agora_core::{QuestionId, ThreadId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::resources::thread_uri;
use super::secrets;
use crate::answer_line::line;

/// Items whose ids are written out in a line: with more of them nobody types it.
const WRITTEN_OUT: usize = 8;

/// A question that waits for a person.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AskedReply {
    pub(crate) question_id: String,
    pub(crate) thread_id: String,
    pub(crate) subagent: String,
    /// The words of its first item.
    pub(crate) question: String,
    /// The labels of its first item's options.
    pub(crate) options: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<String>,
    /// Every item with all that it says.
    pub(crate) questions: Vec<Value>,
    /// How it is answered.
    pub(crate) how_to_answer: String,
    /// The line that your user can run instead, with their answer in it.
    pub(crate) for_your_user: String,
    /// Where all of it can be read.
    pub(crate) resource: String,
    /// Where a list ends early, by its path: how many entries are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) omitted: Option<Map<String, Value>>,
}

/// How an answer may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The model passes on what its user says.
    Relayed,
    /// A person answers by a door of their own.
    InPerson,
    /// Not at all: it asks for a secret, which reaches an agent by an env bundle.
    NotAtAll,
}

impl AskedReply {
    pub(crate) fn new(
        id: &QuestionId,
        thread: &ThreadId,
        subagent: &str,
        question: &Question,
        way: Way,
    ) -> Self {
        let items = question.items();
        let first = items.first();
        Self {
            question_id: id.to_string(),
            thread_id: thread.to_string(),
            subagent: subagent.to_owned(),
            question: first.map(|item| item.question().to_owned()).unwrap_or_default(),
            options: first.map(labels).unwrap_or_default(),
            context: question.context().map(str::to_owned),
            questions: items.iter().map(|item| json!(item)).collect(),
            how_to_answer: how_to_answer(id, items, way),
            for_your_user: line_for_user(id, items, way),
            resource: thread_uri(thread),
            omitted: None,
        }
    }
}

fn labels(item: &Item) -> Vec<String> {
    item.options().iter().map(|choice| choice.label.clone()).collect()
}

fn how_to_answer(id: &QuestionId, items: &[Item], way: Way) -> String {
    let show = "Show it to your user with all its options";
    match (way, items) {
        (Way::NotAtAll, _) => {
            "It asks for a secret, which must not go through you. Ask your user to store it in an env bundle with the line in `forYourUser`, \
             cancel this thread with agora_dispatch_cancel, and dispatch it again with that bundle in `env`."
                .to_owned()
        }
        (Way::InPerson, _) => format!(
            "Only a person may answer it, and not through you: agora_answer would be refused. {show}, and with the line in `forYourUser`, which \
             they run in a terminal. Then call agora_wait."
        ),
        (Way::Relayed, [_]) => format!(
            "{show}, and wait for their words. Then call agora_answer with {{\"questionId\": \"{id}\", \"answer\": \"…\"}}."
        ),
        (Way::Relayed, _) => format!(
            "{show}, and wait for their words. Then call agora_answer with {{\"questionId\": \"{id}\", \"answers\": {{{}}}}}, all of them in \
             one call.",
            written_out(items, |item| format!("\"{}\": \"…\"", item.id()))
        ),
    }
}

/// Returns what a person types to answer. What they will say is for them to fill in: nobody has chosen yet.
fn line_for_user(id: &QuestionId, items: &[Item], way: Way) -> String {
    match way {
        Way::NotAtAll => secrets::LINE.to_owned(),
        Way::Relayed | Way::InPerson if items.len() > WRITTEN_OUT => "agora inbox".to_owned(),
        Way::Relayed | Way::InPerson => line(id, items),
    }
}

fn written_out(items: &[Item], one: impl Fn(&Item) -> String) -> String {
    let mut words: Vec<String> = items.iter().take(WRITTEN_OUT).map(one).collect();
    if items.len() > WRITTEN_OUT {
        words.push("… one for each item's id".to_owned());
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(value: Value, way: Way) -> AskedReply {
        let question: Question = serde_json::from_value(value).unwrap();
        AskedReply::new(&"q_1".parse().unwrap(), &"t_1".parse().unwrap(), "planner", &question, way)
    }

    #[test]
    fn no_line_answers_for_the_person_who_is_to_run_it() {
        let delete = json!({"questions": [{"question": "Delete it all?", "options": [{"label": "yes"}, {"label": "no"}]}]});
        assert_eq!(asked(delete, Way::Relayed).for_your_user, "agora answer q_1 VALUE");
        let two = json!({"questions": [{"id": "a", "question": "A?", "options": [{"label": "yes"}]}, {"id": "b", "question": "B?"}]});
        let line = asked(two, Way::Relayed).for_your_user;
        assert_eq!(line, r#"agora answer q_1 --answers '{"a":"…","b":"…"}'"#);
        let many: Vec<Value> = (0..9).map(|at| json!({"question": format!("{at}?")})).collect();
        assert_eq!(asked(json!({"questions": many}), Way::Relayed).for_your_user, "agora inbox");
    }

    #[test]
    fn who_may_not_answer_is_not_told_to() {
        let one = json!({"questions": [{"question": "Which?"}]});
        assert!(asked(one.clone(), Way::Relayed).how_to_answer.contains("call agora_answer with"));
        let in_person = asked(one.clone(), Way::InPerson).how_to_answer;
        assert!(in_person.contains("would be refused") && in_person.contains("forYourUser"), "{in_person}");
        let secret = asked(one, Way::NotAtAll);
        assert!(secret.how_to_answer.contains("must not go through you"));
        assert_eq!(secret.for_your_user, secrets::LINE);
    }
}
