//! What was recorded, kept beside the ledger and checked at the very moment: an end that holds only afterwards is none.

use std::collections::{BTreeMap, BTreeSet};

use agora_core::entry::{Entry, Happening};
use agora_core::event::Event;
use agora_core::job::{Attendance, Job, retry_at};
use agora_core::provider::ledger::Paper;
use agora_core::question::Question;
use agora_core::reason::FailureCode;
use agora_core::record::{AtExpiry, Record, RouteOutcome};
use agora_core::state::Thread;
use agora_core::wire::line::{Line, Said};
use agora_core::wire::manifest::{Continuation, GivenAnswer};
use agora_core::wire::receipt::About;
use agora_core::{DispatchId, QuestionId, ThreadId, Timestamp};
use agora_engine::Answered;

use crate::machine::Machine;
use crate::people::TOLERANCE;

/// Everything that any ledger said it recorded, also to those who did not live to hear it.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    threads: BTreeMap<ThreadId, Vec<Entry>>,
    jobs: BTreeMap<DispatchId, Job>,
    keys: BTreeMap<String, DispatchId>,
    /// Dispatches with their terminal events.
    ends: BTreeMap<DispatchId, Event>,
    forgotten: BTreeSet<ThreadId>,
    /// What closed each question.
    closed: BTreeMap<QuestionId, Record>,
}

/// Tells whether something leads to a next dispatch: an answer, or the default that the asker named.
pub(crate) fn is_reply(what: &Happening) -> bool {
    matches!(
        what,
        Happening::Record(
            Record::QuestionAnswered { .. }
                | Record::QuestionExpired { at_expiry: AtExpiry::UseDefault(_), .. }
        )
    )
}

impl Journal {
    pub(crate) fn has_ended(&self, id: &DispatchId) -> bool {
        self.ends.contains_key(id)
    }

    pub(crate) fn is_forgotten(&self, dispatch: &DispatchId) -> bool {
        self.jobs.get(dispatch).is_some_and(|job| self.forgotten.contains(&job.thread_id))
    }

    pub(crate) fn threads(&self) -> impl Iterator<Item = (&ThreadId, &[Entry])> {
        self.threads.iter().map(|(id, entries)| (id, entries.as_slice()))
    }

    /// Returns a thread that was recorded and not forgotten.
    pub(crate) fn thread(&self, id: &ThreadId) -> Option<Thread> {
        if self.forgotten.contains(id) {
            return None;
        }
        let mut entries = self.threads.get(id)?.iter();
        let first = Thread::begin(&entries.next()?.what).unwrap();
        Some(entries.fold(first, |thread, entry| thread.after(&entry.what).unwrap()))
    }

    pub(crate) fn thread_id_of(&self, dispatch: &DispatchId) -> Option<&ThreadId> {
        self.jobs.get(dispatch).map(|job| &job.thread_id)
    }

    pub(crate) fn thread_of(&self, dispatch: &DispatchId) -> Option<Thread> {
        self.thread(&self.jobs.get(dispatch)?.thread_id)
    }

    /// Returns how often a thread went on by itself.
    pub(crate) fn by_itself(&self, thread: &Thread) -> usize {
        let retried = |id: &DispatchId| self.jobs[id].attendance == Attendance::Retried;
        thread.dispatches().iter().filter(|(id, _)| retried(id)).count()
    }

    /// Returns when some thread will be something else, though nobody does anything: reminders do not count.
    pub(crate) fn next_move(&self) -> Option<Timestamp> {
        self.threads.keys().filter_map(|id| self.move_of(id)).min()
    }

    fn move_of(&self, id: &ThreadId) -> Option<Timestamp> {
        let thread = self.thread(id)?;
        if let Some(asked) = thread.open() {
            let expires_at = asked.terms.expiry.map(|expiry| expiry.at);
            return [expires_at, asked.progress.escalate_at].into_iter().flatten().min();
        }
        let (last, _) = thread.dispatches().last()?;
        retry_at(&thread, self.jobs.get(last)?)
    }

    /// Only what is over is forgotten.
    pub(crate) fn forget(&mut self, id: &ThreadId) {
        let thread = self.thread(id).expect("what is forgotten was recorded");
        assert!(thread.has_ended(), "{id} is open, and was forgotten");
        let Self { keys, jobs, .. } = self;
        keys.retain(|_, dispatch| jobs.get(dispatch).is_none_or(|job| job.thread_id != *id));
        self.forgotten.insert(id.clone());
    }

    /// A job is filed: the one before it has ended, and a thread that moves on by itself had a reason to.
    fn file(&mut self, job: &Job) {
        if let Some(before) = &job.after {
            let last = self.threads.get(&job.thread_id).into_iter().flatten().rev();
            let mut ends = last.filter_map(|entry| match &entry.what {
                Happening::Event(event) if event.is_terminal() => Some(event),
                Happening::Event(_) | Happening::Record(_) => None,
            });
            let last = ends.next().expect("a thread goes on after something");
            assert_eq!(last.dispatch_id(), before, "{} goes on where it was left", job.thread_id);
            if job.attendance == Attendance::Retried {
                let thread = self.thread(&job.thread_id).expect("it goes on");
                let due = retry_at(&thread, &self.jobs[before]);
                assert!(due.is_some(), "{} goes on by itself after {last:?}", job.thread_id);
            }
        }
        self.jobs.insert(job.dispatch_id.clone(), job.clone());
    }
}

/// Returns the question that a record closes.
fn closes(record: &Record) -> Option<&QuestionId> {
    match record {
        Record::QuestionAnswered { question_id, .. }
        | Record::QuestionDeclined { question_id, .. }
        | Record::QuestionExpired { question_id, .. }
        | Record::QuestionCancelled { question_id, .. } => Some(question_id),
        _ => None,
    }
}

impl Machine {
    /// Takes note of what was recorded, and checks what must hold at that moment.
    pub(crate) fn journalise(&self, new: &[Entry], papers: &[Paper]) {
        {
            let mut journal = self.journal();
            for paper in papers {
                match paper {
                    Paper::Job(job) => journal.file(job),
                    Paper::Key { key, dispatch_id, .. } => {
                        let other = journal.keys.insert(key.clone(), dispatch_id.clone());
                        assert_eq!(other, None, "the key `{key}` made two dispatches");
                    }
                    Paper::Allowance(_)
                    | Paper::Claim { .. }
                    | Paper::Report { .. }
                    | Paper::Outgoing { .. } => {}
                }
            }
            for entry in new {
                journal.threads.entry(entry.thread_id.clone()).or_default().push(entry.clone());
            }
        }
        for paper in papers {
            if let Paper::Job(job) = paper {
                self.check_receipt(job);
            }
        }
        // Invariant 3: what was replied and the dispatch that goes on with it are one write.
        let replies = new.iter().filter(|entry| is_reply(&entry.what)).count();
        let accepted =
            new.iter().filter(|entry| matches!(entry.what, Happening::Event(Event::Accepted { .. }))).count();
        assert!(replies == 0 || (replies, accepted) == (1, 1), "invariant 3: an answer led to nothing");
        for entry in new {
            if let Happening::Record(record) = &entry.what {
                self.check_question(entry, record);
            }
            match &entry.what {
                Happening::Event(event) if event.is_terminal() => self.check_end(event),
                Happening::Record(Record::ThreadEnded {}) => {
                    let secrets = &self.state().secrets;
                    assert!(
                        !secrets.contains(&entry.thread_id),
                        "invariant 9: {}: its secrets are left",
                        entry.thread_id
                    );
                }
                Happening::Event(_) | Happening::Record(_) => {}
            }
        }
    }

    /// Checks what was recorded of a question, at that moment.
    fn check_question(&self, entry: &Entry, record: &Record) {
        self.note(match record {
            Record::QuestionReminded { .. } => "reminded",
            Record::QuestionEscalated { .. } => "escalated",
            Record::QuestionExpired { at_expiry: AtExpiry::Fail, .. } => "expired: fail",
            Record::QuestionExpired { .. } => "expired: the default",
            Record::QuestionRouted { outcome: RouteOutcome::Answered, .. } => "routed: answered",
            Record::QuestionRouted { outcome: RouteOutcome::NoResponse, .. } => "routed: no-response",
            Record::QuestionRouted { outcome: RouteOutcome::NoChannel, .. } => "routed: no-channel",
            _ => "another record",
        });
        let Some(id) = closes(record) else { return };
        let before = self.journal().closed.insert(id.clone(), record.clone());
        assert_eq!(before, None, "invariants 1 and 8: {id} has two ends");
        let thread = self.journal().thread(&entry.thread_id).expect("it was recorded");
        let asked = thread.questions().iter().find(|asked| asked.id == *id).expect("it was asked");
        let over = asked.terms.expiry.map(|expiry| expiry.at.as_millis());
        let (now, steady) = (entry.at.as_millis(), self.faults().jump == 0);
        match record {
            Record::QuestionAnswered { question_hash, by, .. } => {
                assert_eq!(
                    *question_hash, asked.hash,
                    "invariant 6: {id} has the answer to another question"
                );
                let tried = self.state().tries.contains(&(id.clone(), by.principal.clone()));
                assert!(tried, "invariant 4: nobody gave the answer to {id} that counts: {by:?}");
                let late = over.is_some_and(|over| now > over + TOLERANCE);
                assert!(!late || !steady, "invariant 4: {id} is answered long after its end");
            }
            Record::QuestionDeclined { by, .. } => {
                let tried = self.state().tries.contains(&(id.clone(), by.principal.clone()));
                assert!(tried, "invariant 4: nobody declined {id}");
            }
            Record::QuestionExpired { .. } => {
                let over = over.expect("invariant 4: it expired, and nobody declared that");
                assert!(!steady || now > over - TOLERANCE, "invariant 4: {id} expired before its time");
            }
            _ => {}
        }
    }

    /// An answer that was told to count is the one that is recorded.
    pub(crate) fn check_counted(&self, question: &QuestionId, answered: &Answered) {
        let journal = self.journal();
        let recorded = journal.closed.get(question);
        let is_answer = matches!(recorded, Some(Record::QuestionAnswered { .. }));
        let job = journal.jobs.get(&answered.dispatch_id).filter(|_| is_answer);
        assert!(job.is_some(), "invariant 1: an answer to {question} counts, and is not recorded");
    }

    /// A dispatch that goes on with an answer has a receipt for exactly the question that was asked last. One that goes on after another
    /// which came to no good end has the answer that this was given.
    fn check_receipt(&self, job: &Job) {
        let answer = job.continuation.as_ref().and_then(Continuation::answer);
        let Some(GivenAnswer { question_id, receipt, .. }) = answer else {
            assert!(!self.had_answer(job), "{} goes on without the answer that was given", job.dispatch_id);
            return;
        };
        let question: Question = answer.unwrap().question().unwrap();
        let about = About {
            namespace: &job.namespace,
            thread_id: &job.thread_id,
            question_id,
            question: &question,
            resolved: &job.resolved,
        };
        let genuine = receipt.check(&self.keys.receipt_signer().public_key(), about);
        assert!(genuine.is_ok(), "invariant 6: {} goes on with another answer: {genuine:?}", job.dispatch_id);
        let thread = self.journal().thread(&job.thread_id).expect("it goes on");
        let last = thread.questions().last().map(|asked| &asked.id);
        assert_eq!(last, Some(question_id), "invariant 6: {} goes on with another question", job.dispatch_id);
    }

    /// Tells whether a dispatch continues one that was given an answer, and failed or was cancelled.
    fn had_answer(&self, job: &Job) -> bool {
        let journal = self.journal();
        let (Some(Continuation::Continued { .. }), Some(before)) = (&job.continuation, &job.after) else {
            return false;
        };
        let given = journal.jobs.get(before).and_then(|before| before.continuation.as_ref()?.answer());
        let end = journal.ends.get(before);
        given.is_some() && matches!(end, Some(Event::Failed { .. } | Event::Cancelled { .. }))
    }

    /// One end each; nothing of it is left; and what is recorded is what is stored, whoever stored it.
    fn check_end(&self, recorded: &Event) {
        let id = recorded.dispatch_id();
        let before = self.journal().ends.insert(id.clone(), recorded.clone());
        assert_eq!(before, None, "invariant 10: {id} ended twice");
        let state = self.state();
        let alive = state.workers.get(id).is_some_and(|worker| worker.alive);
        assert!(!alive, "invariant 9: {id}: its worker is alive at its end");
        // One who believes in a lease may stage again before hearing of the end, and takes it away then.
        let workspace = state.places.get(id).is_some_and(|place| place.workspace);
        assert!(
            !workspace || self.faults().double_lease > 0,
            "invariant 9: {id}: its workspace is left at its end"
        );
        let stored = state.outcomes.get(id).expect("an end goes by a stored outcome");
        let line = Line::parse(stored, &self.keys.event_key(id)).unwrap();
        assert_eq!(line.said, Said::Event(recorded.clone()), "{id}: what is recorded is not what is stored");
        self.note(match recorded {
            Event::Accepted { .. } | Event::Started { .. } => "no end",
            Event::Finished { .. } => "finished",
            Event::NeedsInput { .. } => "needs_input",
            Event::Failed { failure, .. } => match failure.code {
                FailureCode::AgentExit => "failed: agent",
                FailureCode::RateLimited => "failed: rate limit",
                FailureCode::TimeLimit => "failed: time limit",
                FailureCode::WorkerLost => "failed: worker lost",
                FailureCode::WorkerNotStarted => "failed: worker not started",
                _ => "failed: otherwise",
            },
            Event::Cancelled { .. } => "cancelled",
        });
    }
}
