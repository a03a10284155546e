//! A thread's whole story across its pauses, put together from the ledger: what was dispatched, asked, answered and done, what it
//! cost, how long people thought, and that nothing ran meanwhile.

use agora_core::answer::{Answerer, Replies};
use agora_core::entry::{Entry, Happening};
use agora_core::event::Event;
use agora_core::provider::ledger::ThreadView;
use agora_core::question::Question;
use agora_core::reason::Failure;
use agora_core::record::{Record, RouteOutcome};
use agora_core::route::{Party, Terms};
use agora_core::stale::Difference;
use agora_core::state::{AskedQuestion, QuestionState, ThreadState};
use agora_core::wire::manifest::Continuation;
use agora_core::wire::report::Usage;
use agora_core::{DispatchId, Name, QuestionId, ThreadId, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::carry::CarryError;
use crate::dispatch::result::{DispatchResult, QuestionDocument};
use crate::error::Error;
use crate::handle::Thread;

/// How many entries are read at once.
const PAGE: usize = 500;

/// Everything that happened to a thread.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ThreadStory {
    pub thread_id: ThreadId,
    /// `running`, `waiting`, `resuming`, `finished`, `failed` or `cancelled`.
    pub state: &'static str,
    /// Why the thread failed; also when its question was declined or expired.
    pub failure: Option<Failure>,
    pub began_at: Timestamp,
    /// When its books were closed. `None` while it may go on by itself or by an answer.
    pub ended_at: Option<Timestamp>,
    pub subagent: Option<Name>,
    pub labels: Vec<Name>,
    /// Whoever dispatched it. `None`: nobody said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Party>,
    /// The input's `task`, if it has one that is a text.
    pub task: Option<String>,
    /// Oldest first.
    pub dispatches: Vec<DispatchResult>,
    /// Oldest first.
    pub questions: Vec<QuestionStory>,
    /// How often its owner went on with it after an end, oldest first.
    pub continued: Vec<ContinuedStory>,
    /// When it was cancelled, if that is how it ended.
    pub cancelled_at: Option<Timestamp>,
    /// Who did, if they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<Answerer>,
    pub totals: Totals,
    /// All of it in order, for whoever tells it.
    #[serde(skip)]
    pub entries: Vec<Entry>,
}

/// A dispatch that goes on after an end, without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ContinuedStory {
    pub dispatch_id: DispatchId,
    pub at: Timestamp,
    /// What the owner said to it.
    pub message: Option<String>,
    /// Who said so. `None`: it went on by itself, or an older agora recorded it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Answerer>,
}

/// One question, from when it was asked to what became of it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct QuestionStory {
    pub question_id: QuestionId,
    /// The dispatch that asked.
    pub dispatch_id: DispatchId,
    /// `asked`, `open`, `answered`, `declined`, `expired` or `cancelled`.
    pub state: &'static str,
    /// The first item's words, and the others as in the inbox.
    pub question: String,
    pub options: Vec<String>,
    pub context: Option<String>,
    pub partial_state: Value,
    pub questions: Vec<Value>,
    /// The question itself, for who shows it.
    #[serde(skip)]
    pub asked: Question,
    pub asked_at: Timestamp,
    pub closed_at: Option<Timestamp>,
    /// How long it has been open, or was.
    pub waited_ms: u64,
    /// The answer that counts.
    pub answer: Option<StoryAnswer>,
    /// Who said that nobody will answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declined_by: Option<Answerer>,
    /// The dispatch that goes on with the answer.
    pub next_dispatch_id: Option<DispatchId>,
    /// What holds for it, decided when it opened: its route, who may answer, its timers.
    pub terms: Terms,
    /// Those it is shown to now, while it is open.
    pub shown_to: Vec<Party>,
    /// What the commands of its route came to.
    pub route: Vec<RoutedStep>,
    pub reminders: u32,
    /// When the next thing happens by itself, while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Timestamp>,
    /// How many answers to it were refused.
    pub refused: u32,
    /// What else was recorded of it, in order: routes, reminders, answers that did not count.
    pub passed: Vec<Passed>,
}

/// What a command of the route came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RoutedStep {
    pub step: u32,
    pub outcome: RouteOutcome,
}

/// An answer, who gave it, by which door, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoryAnswer {
    pub answers: Replies,
    pub by: Answerer,
    pub at: Timestamp,
    /// What the question rested on and was another by then, which the answerer was shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<Difference>,
}

/// A record, as it stands in the ledger.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Passed {
    pub at: Timestamp,
    pub kind: &'static str,
    pub data: Value,
}

/// What it all came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    pub dispatches: usize,
    pub questions: usize,
    /// How long agents worked, from the start of each dispatch to its end.
    pub worked_ms: u64,
    /// How many of the dispatches somebody had taken over, and how long they were at them.
    pub taken_over: usize,
    pub taken_over_ms: u64,
    /// How long questions were open.
    pub waited_ms: u64,
    /// How many dispatches of the thread were live at some time while a question was open, by what the ledger holds.
    pub live_while_waiting: usize,
    pub turns: u64,
    pub tokens: u64,
    /// What is known of the cost. `None`: no runtime said anything.
    pub cost_usd: Option<f64>,
    /// How many dispatches ran of which nobody said what they cost.
    pub without_cost: usize,
}

impl Thread {
    /// Puts the thread's whole story together.
    pub async fn story(&self) -> Result<ThreadStory, Error> {
        let view = self.view().await?;
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let seen = entries.last().map_or(0, |entry| entry.seq);
            let page = self.engine.world().ledger.read(self.id(), seen, PAGE).await;
            let page = page.map_err(|error| Error::Carry(CarryError::Ledger(error)))?;
            if page.is_empty() {
                break;
            }
            entries.extend(page);
        }
        // What was recorded after the view belongs to another one.
        entries.retain(|entry| entry.seq <= view.seen);
        let (mut dispatches, mut continued) = (Vec::new(), Vec::new());
        let mut first = None;
        for (id, _) in view.thread.dispatches() {
            let result = self.agora.describe_dispatch(&self.engine, id).await?;
            let job = self.engine.papers(id).await.map_err(Error::Carry)?.job;
            if let Some(Continuation::Continued { message, .. }) = &job.continuation {
                let (dispatch_id, at, message) = (id.clone(), result.accepted_at, message.clone());
                let by = continuer(&entries, id);
                continued.push(ContinuedStory { dispatch_id, at, message, by });
            }
            dispatches.push(result);
            first.get_or_insert(job);
        }
        let now = self.engine.world().clock.now();
        let questions = questions(&view, &entries, now);
        let ended = |entry: &&Entry| matches!(entry.what, Happening::Record(Record::ThreadEnded { .. }));
        let cancels = |entry: &&Entry| {
            matches!(
                entry.what,
                Happening::Record(Record::ThreadCancelled { .. }) | Happening::Event(Event::Cancelled { .. })
            )
        };
        let is_cancelled = *view.thread.state() == ThreadState::Cancelled;
        let cancel = entries.iter().rfind(cancels).filter(|_| is_cancelled);
        let cancelled_at = cancel.map(|entry| entry.at);
        let cancelled_by = match cancel.map(|entry| &entry.what) {
            Some(Happening::Record(Record::ThreadCancelled { by })) => by.clone(),
            Some(Happening::Record(_) | Happening::Event(_)) | None => None,
        };
        Ok(ThreadStory {
            thread_id: view.thread_id.clone(),
            state: thread_state(view.thread.state()),
            failure: match view.thread.state() {
                ThreadState::Failed(failure) => Some(failure.clone()),
                _ => None,
            },
            began_at: view.began_at,
            ended_at: entries.iter().rfind(ended).filter(|_| view.thread.has_ended()).map(|entry| entry.at),
            subagent: first.as_ref().map(|job| job.resolved.subagent.name.clone()),
            labels: first.as_ref().map(|job| job.labels.clone()).unwrap_or_default(),
            owner: first.as_ref().and_then(|job| job.owner.clone()),
            task: first.as_ref().and_then(|job| job.input.0["task"].as_str().map(str::to_owned)),
            totals: totals(&dispatches, &questions, &entries, now),
            dispatches,
            questions,
            continued,
            cancelled_at,
            cancelled_by,
            entries,
        })
    }
}

/// Returns who let a dispatch go on after an end: that is recorded right before it is accepted.
fn continuer(entries: &[Entry], dispatch: &DispatchId) -> Option<Answerer> {
    let place = entries.iter().position(|entry| accepted(entry) == Some(dispatch))?;
    match &entries.get(place.checked_sub(1)?)?.what {
        Happening::Record(Record::ThreadContinued { by }) => by.clone(),
        Happening::Record(_) | Happening::Event(_) => None,
    }
}

/// Returns a thread's state as it stands in results.
pub fn thread_state(state: &ThreadState) -> &'static str {
    match state {
        ThreadState::Running => "running",
        ThreadState::Waiting => "waiting",
        ThreadState::Resuming => "resuming",
        ThreadState::Finished => "finished",
        ThreadState::Failed(_) => "failed",
        ThreadState::Cancelled => "cancelled",
    }
}

fn question_state(state: QuestionState) -> &'static str {
    match state {
        QuestionState::Asked => "asked",
        QuestionState::Open => "open",
        QuestionState::Answered => "answered",
        QuestionState::Declined => "declined",
        QuestionState::Expired | QuestionState::Stale => "expired",
        QuestionState::Cancelled => "cancelled",
    }
}

/// Milliseconds from one moment to another; none when it is the other way round.
fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_millis().saturating_sub(from.as_millis())).unwrap_or(0)
}

fn questions(view: &ThreadView, entries: &[Entry], now: Timestamp) -> Vec<QuestionStory> {
    let mut stories: Vec<QuestionStory> = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        match &entry.what {
            Happening::Event(Event::NeedsInput { dispatch_id, question_id, .. }) => {
                let asked = view.thread.questions().iter().find(|asked| asked.id == *question_id);
                stories.extend(asked.map(|asked| QuestionStory::begin(asked, dispatch_id, entry.at, now)));
            }
            Happening::Record(record) => {
                let of = question_of(record).cloned();
                let story = stories.iter_mut().find(|story| Some(&story.question_id) == of.as_ref());
                if let Some(story) = story {
                    story.take(entry, record, &entries[place + 1..]);
                }
            }
            Happening::Event(_) => {}
        }
    }
    stories
}

impl QuestionStory {
    /// Begins with where the question stands.
    fn begin(asked: &AskedQuestion, dispatch: &DispatchId, at: Timestamp, now: Timestamp) -> Self {
        let AskedQuestion { id, state, terms, progress, .. } = asked;
        let QuestionDocument { question, options, context, partial_state, questions, asked } =
            QuestionDocument::new(asked.question.clone());
        let open = *state == QuestionState::Open;
        let routed = progress.routed.iter();
        Self {
            question_id: id.clone(),
            state: question_state(*state),
            question,
            options,
            context,
            partial_state,
            questions,
            asked,
            asked_at: at,
            closed_at: None,
            waited_ms: between(at, now),
            answer: None,
            declined_by: None,
            next_dispatch_id: None,
            shown_to: if open { terms.shown_to(progress.step) } else { Vec::new() },
            route: routed.map(|(step, outcome)| RoutedStep { step: *step, outcome: *outcome }).collect(),
            reminders: progress.reminders,
            next_at: progress.due_at(terms).filter(|_| open),
            refused: progress.refusals,
            terms: terms.clone(),
            passed: Vec::new(),
            dispatch_id: dispatch.clone(),
        }
    }

    /// Works in what was recorded of the question.
    fn take(&mut self, entry: &Entry, record: &Record, after: &[Entry]) {
        let closes = match record {
            Record::QuestionAnswered { answers, by, stale, receipt, .. } => {
                let (answers, by, stale) = (answers.clone(), by.clone(), stale.clone());
                // The moment that was signed, where one was: the agent is told the same.
                let at = receipt.as_ref().map_or(entry.at, |receipt| receipt.statement.at);
                self.answer = Some(StoryAnswer { answers, by, at, stale });
                true
            }
            Record::QuestionDeclined { by, .. } => {
                self.declined_by = Some(by.clone());
                true
            }
            Record::QuestionExpired { .. } | Record::QuestionCancelled { .. } => true,
            Record::QuestionOpened { .. } => return,
            _ => false,
        };
        if closes {
            self.closed_at = Some(entry.at);
            self.waited_ms = between(self.asked_at, entry.at);
            self.next_dispatch_id = after.iter().find_map(accepted).cloned();
        }
        let answered = matches!(record, Record::QuestionAnswered { .. } | Record::QuestionDeclined { .. });
        if !answered {
            let data = serde_json::to_value(record).unwrap_or_default()["data"].take();
            self.passed.push(Passed { at: entry.at, kind: record.kind(), data });
        }
    }
}

fn accepted(entry: &Entry) -> Option<&DispatchId> {
    match &entry.what {
        Happening::Event(Event::Accepted { dispatch_id, .. }) => Some(dispatch_id),
        Happening::Event(_) | Happening::Record(_) => None,
    }
}

/// Returns the question that a record is about.
fn question_of(record: &Record) -> Option<&QuestionId> {
    match record {
        Record::QuestionOpened { question_id, .. }
        | Record::QuestionRouted { question_id, .. }
        | Record::QuestionReminded { question_id, .. }
        | Record::QuestionEscalated { question_id, .. }
        | Record::QuestionAnswered { question_id, .. }
        | Record::QuestionDeclined { question_id, .. }
        | Record::QuestionExpired { question_id, .. }
        | Record::QuestionCancelled { question_id, .. }
        | Record::AnswerRefused { question_id, .. } => Some(question_id),
        Record::ThreadContinued { .. } | Record::ThreadCancelled { .. } | Record::ThreadEnded { .. } => None,
    }
}

fn totals(
    dispatches: &[DispatchResult],
    questions: &[QuestionStory],
    entries: &[Entry],
    now: Timestamp,
) -> Totals {
    let used = dispatches.iter().filter_map(|result| result.usage.as_ref());
    let all = used.fold(Usage::default(), |sum, more| sum.plus(more));
    let costs = dispatches.iter().filter_map(|result| result.usage.as_ref()?.cost_usd);
    let ran = |result: &&DispatchResult| result.started_at.is_some() && result.ended_at.is_some();
    let silent = |result: &&DispatchResult| result.usage.as_ref().and_then(|usage| usage.cost_usd).is_none();
    let worked = |result: &DispatchResult| match (result.started_at, result.ended_at) {
        (Some(from), None) => between(from, now),
        _ => result.duration_ms,
    };
    let by_agents = |result: &&DispatchResult| result.person.is_none();
    let all_worked = dispatches.iter().map(worked).fold(0, u64::saturating_add);
    let worked_ms = dispatches.iter().filter(by_agents).map(worked).fold(0, u64::saturating_add);
    Totals {
        dispatches: dispatches.len(),
        questions: questions.len(),
        worked_ms,
        taken_over: dispatches.len() - dispatches.iter().filter(by_agents).count(),
        taken_over_ms: all_worked - worked_ms,
        waited_ms: questions.iter().map(|question| question.waited_ms).fold(0, u64::saturating_add),
        live_while_waiting: live_while_waiting(entries),
        turns: all.turns,
        tokens: all.tokens(),
        cost_usd: costs.clone().next().map(|_| costs.sum()),
        without_cost: dispatches.iter().filter(ran).filter(silent).count(),
    }
}

/// Counts the dispatches that were live while a question was open. The end of a dispatch is recorded when no process of it is left,
/// and the next is accepted with the answer: so there are none, and this looks whether the ledger says so too.
fn live_while_waiting(entries: &[Entry]) -> usize {
    let (mut live, mut open) = (Vec::<&DispatchId>::new(), 0_usize);
    let mut seen: Vec<&DispatchId> = Vec::new();
    for entry in entries {
        match &entry.what {
            Happening::Event(event) => {
                live.retain(|id| *id != event.dispatch_id());
                if !event.is_terminal() {
                    live.push(event.dispatch_id());
                }
            }
            Happening::Record(Record::QuestionOpened { .. }) => open += 1,
            Happening::Record(
                Record::QuestionAnswered { .. }
                | Record::QuestionDeclined { .. }
                | Record::QuestionExpired { .. }
                | Record::QuestionCancelled { .. },
            ) => open = open.saturating_sub(1),
            Happening::Record(_) => {}
        }
        if open > 0 {
            seen.extend(live.iter().filter(|id| !seen.contains(id)).copied().collect::<Vec<_>>());
        }
    }
    seen.len()
}

#[cfg(test)]
mod tests {
    use agora_core::Namespace;
    use serde_json::json;

    use super::*;

    fn entry(seq: u64, kind: &str, data: Value) -> Entry {
        let whole = json!({"version": 1, "seq": seq, "at": Timestamp::from_millis(i64::try_from(seq * 1000).unwrap()),
            "namespace": Namespace::default(), "threadId": "t_1", "kind": kind, "data": data});
        Entry::decode(whole.to_string().as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn a_dispatch_that_lived_during_a_pause_would_be_seen() {
        let hash = agora_core::ContentHash::of(b"");
        let started = |seq, id: &str| entry(seq, "dispatch.started", json!({"dispatchId": id}));
        let finished =
            |seq, id: &str| entry(seq, "dispatch.finished", json!({"dispatchId": id, "durationMs": 1}));
        let opened = |seq| entry(seq, "question.opened", json!({"questionId": "q_1", "questionHash": hash}));
        let answered = |seq| {
            let by = json!({"principal": "user:ann", "door": "cli"});
            let data = json!({"questionId": "q_1", "questionHash": hash, "answers": {}, "by": by});
            entry(seq, "question.answered", data)
        };
        let told = |entries: &[Entry]| live_while_waiting(entries);
        assert_eq!(
            told(&[started(1, "d_1"), finished(2, "d_1"), opened(3), answered(4), started(5, "d_2")]),
            0
        );
        assert_eq!(told(&[started(1, "d_1"), opened(2), finished(3, "d_1"), answered(4)]), 1);
        assert_eq!(told(&[opened(1), started(2, "d_2"), finished(3, "d_2"), answered(4)]), 1);
    }
}
