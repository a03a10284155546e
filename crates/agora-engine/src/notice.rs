//! Notices: that something happened to a question which somebody may want to hear of, also away from the terminal.

use std::fmt;
use std::time::Duration;

use agora_core::job::{Attendance, Job};
use agora_core::question::Question;
use agora_core::reason::Failure;
use agora_core::route::{Party, PartyKind};
use agora_core::state::AskedQuestion;
use agora_core::{DispatchId, Name, QuestionId, ThreadId, Timestamp};
use async_trait::async_trait;

use crate::carry::Engine;

/// Nobody waits longer until a notice is handed over.
const PATIENCE: Duration = Duration::from_secs(5);

/// What happened to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoticeKind {
    Opened,
    Reminded,
    /// Others are asked, too.
    Escalated,
    Expired,
    Answered,
    Declined,
}

/// Something that happened to a question.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Notice {
    pub kind: NoticeKind,
    pub at: Timestamp,
    pub thread_id: ThreadId,
    pub dispatch_id: DispatchId,
    pub question_id: QuestionId,
    pub subagent: Name,
    pub labels: Vec<Name>,
    pub question: Question,
    /// Those it is about, as the route names them.
    pub to: Vec<Party>,
    /// The same, with groups taken apart.
    pub people: Vec<Party>,
}

/// A thread that has come to its end by itself: it finished, or failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ended {
    pub at: Timestamp,
    pub thread_id: ThreadId,
    pub dispatch_id: DispatchId,
    pub subagent: Name,
    pub labels: Vec<Name>,
    /// `None`: it finished.
    pub failure: Option<Failure>,
    /// Whether somebody waited for it when it was dispatched.
    pub attendance: Attendance,
}

/// Tells people about questions.
#[async_trait]
pub trait Notifier: fmt::Debug + Send + Sync {
    /// Hands a notice over. Best effort: it fails silently, returns soon, and whatever takes longer goes on without the caller, who
    /// may be a command that ends right after. Each notice comes from the process that recorded it, at most once.
    async fn notify(&self, notice: &Notice);

    /// Hands over that a thread has ended. As best as can be, too.
    async fn ended(&self, _: &Ended) {}
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

#[async_trait]
impl Notifier for Quiet {
    async fn notify(&self, _: &Notice) {}
}

impl Engine {
    /// Tells people that a thread has ended. Not one that was cancelled: whoever did that knows.
    pub(crate) async fn tell_ended(&self, job: &Job, failure: Option<Failure>) {
        let now = self.world().clock.now();
        let ended = Ended {
            at: now,
            thread_id: job.thread_id.clone(),
            dispatch_id: job.dispatch_id.clone(),
            subagent: job.resolved.subagent.name.clone(),
            labels: job.labels.clone(),
            failure,
            attendance: job.attendance,
        };
        tokio::select! {
            biased;
            () = self.world().notifier.ended(&ended) => {}
            () = self.world().alarm.at(now.plus(PATIENCE)) => {}
        }
    }

    /// Tells people what was recorded of a question. The thread does not wait for one who takes long.
    pub(crate) async fn tell(&self, kind: NoticeKind, thread: &ThreadId, asker: &Job, asked: &AskedQuestion) {
        let (terms, now) = (&asked.terms, self.world().clock.now());
        let to = terms.shown_to(asked.progress.step);
        let members = |party: &Party| match party.kind() {
            PartyKind::Group => terms.members.get(party).cloned().unwrap_or_default(),
            PartyKind::User | PartyKind::Agent => vec![party.clone()],
        };
        let mut people: Vec<Party> = to.iter().flat_map(members).collect();
        people.sort();
        people.dedup();
        let notice = Notice {
            kind,
            at: now,
            thread_id: thread.clone(),
            dispatch_id: asker.dispatch_id.clone(),
            question_id: asked.id.clone(),
            subagent: asker.resolved.subagent.name.clone(),
            labels: asker.labels.clone(),
            question: asked.question.clone(),
            to,
            people,
        };
        tokio::select! {
            biased;
            () = self.world().notifier.notify(&notice) => {}
            () = self.world().alarm.at(now.plus(PATIENCE)) => {}
        }
    }
}
