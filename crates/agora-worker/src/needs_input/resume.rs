//! What a dispatch that goes on is given: by the prompt, and in `.agora/resume.json`.

use agora_core::answer::{Answerer, Replies, Reply};
use agora_core::id::{QuestionId, ThreadId};
use agora_core::question::{Item, Question};
use agora_core::template::Resumption;
use agora_core::time::Timestamp;
use agora_core::wire::manifest::DispatchManifest;
use serde_json::{Map, Value, json};

/// Why this dispatch runs.
#[derive(Clone, Debug)]
pub(crate) enum Occasion {
    First,
    Answered(Box<Answered>),
    Continued {
        message: Option<String>,
        /// What was answered before, and is told again.
        answered: Option<Box<Answered>>,
    },
    /// A person sits at it.
    TakenOver,
}

/// An answer whose receipt was checked.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) question_id: QuestionId,
    pub(crate) question: Question,
    pub(crate) replies: Replies,
    pub(crate) by: Answerer,
    pub(crate) at: Timestamp,
}

impl Occasion {
    pub(crate) fn answered(&self) -> Option<&Answered> {
        match self {
            Self::Answered(answered) => Some(answered),
            Self::Continued { answered, .. } => answered.as_deref(),
            Self::First | Self::TakenOver => None,
        }
    }

    /// Returns what the owner of a thread said when they continued it.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Self::Continued { message, .. } => message.as_deref(),
            Self::First | Self::Answered(_) | Self::TakenOver => None,
        }
    }

    /// Returns what was worked out before: what the agent left with the question that was answered, else what the dispatch was handed.
    pub(crate) fn partial_state<'a>(&'a self, manifest: &'a DispatchManifest) -> &'a Value {
        match self.answered() {
            Some(answered) => answered.question.partial_state(),
            None => &manifest.partial_state.0,
        }
    }

    /// Writes `.agora/resume.json`, if there is something to go on from. Where nothing was answered it has no word of a question or an
    /// answer: nobody is to take silence for one.
    pub(crate) fn file(&self, manifest: &DispatchManifest) -> Option<Value> {
        let (thread, state) = (&manifest.thread_id, self.partial_state(manifest));
        match self.answered() {
            Some(answered) => Some(answered.file(thread)),
            None if state.is_null() => None,
            None => Some(json!({"threadId": thread, "partial_state": state})),
        }
    }
}

impl Answered {
    fn answers(&self) -> Map<String, Value> {
        self.replies.iter().map(|(id, reply)| (id.to_string(), value(reply))).collect()
    }

    /// Returns the answer where one thing was asked, else nothing.
    fn answer(&self) -> Value {
        match (self.question.items(), self.replies.values().next()) {
            ([_], Some(reply)) => value(reply),
            _ => json!(""),
        }
    }

    pub(crate) fn resumption(&self) -> Resumption {
        Resumption {
            answer: self.answer(),
            answers: self.answers(),
            partial_state: self.question.partial_state().clone(),
        }
    }

    /// Writes what is in `.agora/resume.json` of an answer: the same words for the same things as everywhere a question is shown.
    pub(crate) fn file(&self, thread: &ThreadId) -> Value {
        let items = self.question.items();
        json!({
            "threadId": thread,
            "questionId": self.question_id,
            "question": items.first().map(Item::question),
            "questions": items,
            "context": self.question.context(),
            "answer": self.answer(),
            "answers": self.answers(),
            "partial_state": self.question.partial_state(),
            "answeredBy": self.by.principal,
            "answeredAt": self.at,
        })
    }
}

fn value(reply: &Reply) -> Value {
    match reply {
        Reply::One(text) => json!(text),
        Reply::Many(texts) => json!(texts),
    }
}
