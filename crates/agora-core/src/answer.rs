//! Answers: what somebody entitled replied, and who that was.

mod given;

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::question::{Item, ItemId, Question, Unfit};

pub use given::Given;

/// The reply to one item: a text, or several where several may be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    One(String),
    Many(Vec<String>),
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::One(text) => text.serialize(serializer),
            Self::Many(texts) => texts.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Reply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || serde::de::Error::custom("a reply is a text or a list of texts");
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::One(text)),
            Value::Array(values) => {
                let text = |value| if let Value::String(text) = value { Some(text) } else { None };
                values.into_iter().map(text).collect::<Option<_>>().map(Self::Many).ok_or_else(wrong)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Err(wrong()),
        }
    }
}

/// The replies to all items of one question, in one submission.
pub type Replies = BTreeMap<ItemId, Reply>;

/// Who answered, and by which door.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answerer {
    /// Such as `user:ann`.
    pub principal: String,
    /// Such as `cli`, `mcp`, `http`.
    pub door: String,
    /// The agent that passed on what the principal said, such as `agent:claude-code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relayed_by: Option<String>,
}

impl Answerer {
    /// Names who answers, such as `user:ann`, and by which door, such as `cli`.
    pub fn new(principal: impl Into<String>, door: impl Into<String>) -> Self {
        Self { principal: principal.into(), door: door.into(), relayed_by: None }
    }

    /// Says which agent passed it on.
    #[must_use]
    pub fn relayed_by(self, agent: impl Into<String>) -> Self {
        Self { relayed_by: Some(agent.into()), ..self }
    }
}

/// Says why replies do not answer a question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("the item `{0}` has no reply; all items are answered in one submission")]
    Missing(ItemId),
    #[error("no item of the question is named `{0}`")]
    Unasked(ItemId),
    #[error("the reply to `{0}` is not among its options")]
    NotAccepted(ItemId),
    #[error("the reply to `{0}` is blank")]
    Blank(ItemId),
    #[error("the reply to `{0}` has one thing twice")]
    Twice(ItemId),
    #[error("the reply to `{0}` is a list, and one thing is asked for")]
    NotOne(ItemId),
    #[error("the reply to `{0}` is neither a text nor a list of texts")]
    NotText(ItemId),
    #[error("the question has several items: {}", .0.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", "))]
    Several(Vec<ItemId>),
    #[error("a key of the answers is no item's id")]
    Unnamed,
}

impl AnswerError {
    /// Says of an item why a reply does not answer it.
    fn of(item: &ItemId, unfit: Unfit) -> Self {
        let item = item.clone();
        match unfit {
            Unfit::Blank => Self::Blank(item),
            Unfit::NotAnOption => Self::NotAccepted(item),
            Unfit::Twice => Self::Twice(item),
            Unfit::NotOne => Self::NotOne(item),
        }
    }
}

/// Checks replies against the question, before they count.
pub fn check(question: &Question, replies: &Replies) -> Result<(), AnswerError> {
    for item in question.items() {
        let reply = replies.get(item.id()).ok_or_else(|| AnswerError::Missing(item.id().clone()))?;
        item.check(reply).map_err(|unfit| AnswerError::of(item.id(), unfit))?;
    }
    let asked: HashSet<&ItemId> = question.items().iter().map(Item::id).collect();
    match replies.keys().find(|id| !asked.contains(id)) {
        Some(unasked) => Err(AnswerError::Unasked(unasked.clone())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_items_are_answered_and_nothing_else() {
        let question: Question = serde_json::from_value(json!({"questions": [
            {"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]},
            {"question": "Why?"}
        ]}))
        .unwrap();
        let checked = |replies: Value| check(&question, &serde_json::from_value(replies).unwrap());
        let id = |text: &str| text.parse::<ItemId>().unwrap();
        assert_eq!(checked(json!({"q1": "A", "q2": "because"})), Ok(()));
        assert_eq!(checked(json!({"q1": "A"})), Err(AnswerError::Missing(id("q2"))));
        assert_eq!(checked(json!({"q1": "C", "q2": "x"})), Err(AnswerError::NotAccepted(id("q1"))));
        assert_eq!(checked(json!({"q1": "A", "q2": "x", "q3": "y"})), Err(AnswerError::Unasked(id("q3"))));
        assert_eq!(checked(json!({"q1": "A", "q2": " "})), Err(AnswerError::Blank(id("q2"))));
        assert_eq!(checked(json!({"q1": ["A"], "q2": "x"})), Err(AnswerError::NotOne(id("q1"))));
    }

    #[test]
    fn each_fault_of_a_reply_has_its_own_words() {
        let item = json!({"question": "?", "options": [{"label": "x"}, {"label": "y"}], "multiSelect": true});
        let question: Question = serde_json::from_value(json!({"questions": [item]})).unwrap();
        let said = |reply: Value| {
            let replies = serde_json::from_value(json!({"q1": reply})).unwrap();
            check(&question, &replies).unwrap_err().to_string()
        };
        assert_eq!(said(json!(["x", "x"])), "the reply to `q1` has one thing twice");
        assert_eq!(said(json!([])), "the reply to `q1` is blank");
        assert_eq!(said(json!(["x", ""])), "the reply to `q1` is blank");
        assert_eq!(said(json!("z")), "the reply to `q1` is not among its options");
    }

    #[test]
    fn who_answered_reads_back_and_keeps_the_form_it_had_before_there_were_relays() {
        let ann = Answerer::new("user:ann", "cli");
        assert_eq!(serde_json::to_value(&ann).unwrap(), json!({"principal": "user:ann", "door": "cli"}));
        let relayed = ann.clone().relayed_by("agent:claude-code");
        let written = json!({"principal": "user:ann", "door": "cli", "relayedBy": "agent:claude-code"});
        assert_eq!(serde_json::to_value(&relayed).unwrap(), written);
        assert_eq!(serde_json::from_value::<Answerer>(written).unwrap(), relayed);
        assert_eq!(
            serde_json::from_value::<Answerer>(json!({"principal": "user:ann", "door": "cli"})).unwrap(),
            ann
        );
    }

    #[test]
    fn a_reply_is_text() {
        for wrong in [json!(1), json!(null), json!(["a", 1]), json!({"a": "b"}), json!([["a"]])] {
            assert!(serde_json::from_value::<Reply>(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
