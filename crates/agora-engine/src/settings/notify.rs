//! Tells a person by the ways that `notify` names: by the desktop, or by a program of theirs.

use std::path::PathBuf;

use agora_core::Name;
use agora_core::job::Attendance;
use agora_providers::Home;
use agora_providers::notify::{Message, Way, hand_over};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::notice::{Ended, Notice, NoticeKind, Notifier};

/// Hands each notice to an `agora tell` of its own, which takes the time that it takes.
#[derive(Debug)]
pub(super) struct HandsOver {
    pub(super) program: PathBuf,
    pub(super) home: Home,
    pub(super) ways: Vec<Way>,
    pub(super) unattended: bool,
}

impl HandsOver {
    async fn hand(&self, summary: String, document: Value) {
        let message = Message { ways: self.ways.clone(), summary, document };
        // Whether or not somebody was told, the question waits.
        let _ = hand_over(&self.program, self.home.root(), &message).await;
    }
}

#[async_trait]
impl Notifier for HandsOver {
    async fn notify(&self, notice: &Notice) {
        let Some((kind, words)) = words(notice.kind) else { return };
        let summary = summary(notice, words);
        let whole = serde_json::to_value(&notice.question).unwrap_or_default();
        let document = json!({
            "kind": kind,
            "at": notice.at,
            "questionId": notice.question_id,
            "threadId": notice.thread_id,
            "dispatchId": notice.dispatch_id,
            "subagent": notice.subagent,
            "labels": notice.labels,
            "question": notice.question.items().first().map(|item| item.question()),
            "questions": whole["questions"],
            "context": notice.question.context(),
            "to": notice.to,
            "summary": summary,
        });
        self.hand(summary, document).await;
    }

    async fn ended(&self, ended: &Ended) {
        if ended.attendance == Attendance::Watched && !self.unattended {
            return;
        }
        let how = match &ended.failure {
            None => "finished".to_owned(),
            Some(failure) => format!("failed ({})", failure.code),
        };
        let summary =
            format!("{} {how}: agora show {}", who(&ended.subagent, &ended.labels), ended.dispatch_id);
        let document = json!({
            "kind": "ended",
            "at": ended.at,
            "threadId": ended.thread_id,
            "dispatchId": ended.dispatch_id,
            "subagent": ended.subagent,
            "labels": ended.labels,
            "state": if ended.failure.is_some() { "failed" } else { "finished" },
            "failure": ended.failure,
            "summary": summary,
        });
        self.hand(summary, document).await;
    }
}

/// What of a question somebody is told, and in which words. Whoever answered or declined it knows.
fn words(kind: NoticeKind) -> Option<(&'static str, &'static str)> {
    match kind {
        NoticeKind::Opened => Some(("opened", "asks")),
        NoticeKind::Reminded => Some(("reminded", "still waits for an answer")),
        NoticeKind::Escalated => Some(("escalated", "asks you, too")),
        NoticeKind::Expired => Some(("expired", "got no answer in time")),
        NoticeKind::Answered | NoticeKind::Declined => None,
    }
}

/// One line without the question's own words, nor its items' names: it may be seen by everybody on the machine. It ends with what to
/// type, which is typed as it stands: without a word for the answer the id would be taken for one.
fn summary(notice: &Notice, words: &str) -> String {
    let id = &notice.question_id;
    let next = match (notice.kind, notice.question.items()) {
        (NoticeKind::Expired | NoticeKind::Answered | NoticeKind::Declined, _) => {
            format!("agora thread show {id}")
        }
        (NoticeKind::Opened | NoticeKind::Reminded | NoticeKind::Escalated, [_]) => {
            format!("agora answer {id} VALUE")
        }
        (NoticeKind::Opened | NoticeKind::Reminded | NoticeKind::Escalated, _) => "agora inbox".to_owned(),
    };
    format!("{} {words}: {next}", who(&notice.subagent, &notice.labels))
}

fn who(subagent: &Name, labels: &[Name]) -> String {
    let labels: Vec<&str> = labels.iter().map(Name::as_str).collect();
    if labels.is_empty() { subagent.to_string() } else { format!("{subagent} ({})", labels.join(", ")) }
}
