//! The ledger's records: what happened to questions and threads beside the lifecycle events. Closed as well.

use serde::{Deserialize, Serialize};

use crate::answer::{Answerer, Replies};
use crate::hash::ContentHash;
use crate::id::QuestionId;
use crate::route::Terms;
use crate::stale::Difference;
use crate::time::Timestamp;
use crate::wire::receipt::Receipt;

/// How a step of a route ended. The three stay different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteOutcome {
    Answered,
    NoResponse,
    NoChannel,
}

/// What an expiry leads to. `wait` is not here: a question that waits does not expire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtExpiry {
    Fail,
    /// The default that the asker named.
    UseDefault(Replies),
    /// Not by time: what the question rested on has moved, and its route says that it fails then.
    Stale(Vec<Difference>),
}

/// What happened to a question or a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all_fields = "camelCase")]
pub enum Record {
    /// The question is durable and may be answered, on these terms. Without any: nobody is reminded, and it waits for ever.
    #[serde(rename = "question.opened")]
    QuestionOpened {
        question_id: QuestionId,
        question_hash: ContentHash,
        #[serde(default)]
        terms: Box<Terms>,
    },
    #[serde(rename = "question.routed")]
    QuestionRouted {
        question_id: QuestionId,
        step: u32,
        outcome: RouteOutcome,
        /// What the command said, where it had no answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        /// When the next step gives way to the one after it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        escalate_at: Option<Timestamp>,
    },
    #[serde(rename = "question.reminded")]
    QuestionReminded { question_id: QuestionId, next_at: Timestamp },
    #[serde(rename = "question.escalated")]
    QuestionEscalated {
        question_id: QuestionId,
        /// The step that it is at from now on.
        step: u32,
        /// When that one gives way to the next.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        escalate_at: Option<Timestamp>,
    },
    /// The one answer that counts.
    #[serde(rename = "question.answered")]
    QuestionAnswered {
        question_id: QuestionId,
        question_hash: ContentHash,
        answers: Replies,
        by: Answerer,
        /// What the question rested on and was another by then. The answerer was shown it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        stale: Vec<Difference>,
        /// Who answered what, signed. Also where no dispatch follows that would carry it. `None`: recorded by an older agora.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<Box<Receipt>>,
    },
    #[serde(rename = "question.declined")]
    QuestionDeclined { question_id: QuestionId, by: Answerer },
    #[serde(rename = "question.expired")]
    QuestionExpired { question_id: QuestionId, at_expiry: AtExpiry },
    #[serde(rename = "question.cancelled")]
    QuestionCancelled {
        question_id: QuestionId,
        /// `None`: nobody was named, or an older agora recorded it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Answerer>,
    },
    /// An answer that did not count, and why.
    #[serde(rename = "answer.refused")]
    AnswerRefused {
        question_id: QuestionId,
        by: Answerer,
        why: String,
        /// What was said, where it was an answer and only came too late for what it was about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answers: Option<Replies>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        stale: Vec<Difference>,
    },
    /// The owner goes on from a terminal state.
    #[serde(rename = "thread.continued")]
    ThreadContinued {
        /// `None`: it went on by itself, nobody was named, or an older agora recorded it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Answerer>,
    },
    #[serde(rename = "thread.cancelled")]
    ThreadCancelled {
        /// `None`: nobody was named, or an older agora recorded it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Answerer>,
    },
    /// Everything of the thread is over; its retention counts from here.
    #[serde(rename = "thread.ended")]
    ThreadEnded {},
}

impl Record {
    /// The kinds, as they stand on the wire.
    pub const KINDS: [&'static str; 12] = [
        "question.opened",
        "question.routed",
        "question.reminded",
        "question.escalated",
        "question.answered",
        "question.declined",
        "question.expired",
        "question.cancelled",
        "answer.refused",
        "thread.continued",
        "thread.cancelled",
        "thread.ended",
    ];

    pub fn kind(&self) -> &'static str {
        match self {
            Self::QuestionOpened { .. } => "question.opened",
            Self::QuestionRouted { .. } => "question.routed",
            Self::QuestionReminded { .. } => "question.reminded",
            Self::QuestionEscalated { .. } => "question.escalated",
            Self::QuestionAnswered { .. } => "question.answered",
            Self::QuestionDeclined { .. } => "question.declined",
            Self::QuestionExpired { .. } => "question.expired",
            Self::QuestionCancelled { .. } => "question.cancelled",
            Self::AnswerRefused { .. } => "answer.refused",
            Self::ThreadContinued { .. } => "thread.continued",
            Self::ThreadCancelled { .. } => "thread.cancelled",
            Self::ThreadEnded {} => "thread.ended",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_older_agora_recorded_names_nobody_and_is_written_as_it_was() {
        let old = [
            ("question.cancelled", json!({"questionId": "q_1"})),
            ("thread.cancelled", json!({})),
            ("thread.continued", json!({})),
        ];
        for (kind, data) in old {
            let old = json!({"kind": kind, "data": data});
            let read: Record = serde_json::from_value(old.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), old);
        }
        let ann = json!({"principal": "user:ann", "door": "cli"});
        let new = json!({"kind": "thread.cancelled", "data": {"by": ann}});
        let read: Record = serde_json::from_value(new.clone()).unwrap();
        assert_eq!(read, Record::ThreadCancelled { by: Some(Answerer::new("user:ann", "cli")) });
        assert_eq!(serde_json::to_value(&read).unwrap(), new);
    }
}
