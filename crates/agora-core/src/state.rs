//! The one transition function: from a thread's state and the next thing that happened to the state after it.
//!
//! Live running and recovery both fold with [`Thread::after`], so that they cannot disagree. What it refuses never
//! reaches the ledger: that is how one terminal event wins every race, and how an answer counts once.

use crate::answer;
use crate::entry::Happening;
use crate::event::Event;
use crate::hash::ContentHash;
use crate::id::{DispatchId, QuestionId};
use crate::question::Question;
use crate::reason::{Failure, FailureCode};
use crate::record::{AtExpiry, Record};
use crate::route::{AtEnd, CommandStep, IfStale, MOST_REFUSALS, Progress, Terms};
use crate::spent::{self, Decision};
use crate::time::Timestamp;

/// Where a dispatch stands.
#[derive(Clone, Debug, PartialEq)]
pub enum DispatchState {
    Accepted,
    Running,
    Finished,
    NeedsInput,
    Failed(Failure),
    Cancelled,
}

impl DispatchState {
    /// Tells whether a worker of it may be alive.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Accepted | Self::Running)
    }
}

/// Where a question stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionState {
    /// In the event that carried it, but not yet recorded as open.
    Asked,
    Open,
    Answered,
    Declined,
    Expired,
    /// Not by time: what it rested on had changed, and its route says that it fails then. Recorded as an expiry, and shown as one
    /// where the list of states is closed.
    Stale,
    Cancelled,
}

/// Where a thread stands.
#[derive(Clone, Debug, PartialEq)]
pub enum ThreadState {
    Running,
    /// A question is open; nothing runs.
    Waiting,
    /// An answer or its owner moved it on; the next dispatch is not accepted yet.
    Resuming,
    Finished,
    Failed(Failure),
    Cancelled,
}

/// A question within its thread.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedQuestion {
    pub id: QuestionId,
    pub hash: ContentHash,
    pub question: Question,
    pub state: QuestionState,
    /// What holds for it, from when it opened.
    pub terms: Terms,
    /// Where it stands on its route.
    pub progress: Progress,
}

/// All that can be known of a thread from what happened to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    state: ThreadState,
    dispatches: Vec<(DispatchId, DispatchState)>,
    questions: Vec<AskedQuestion>,
    /// Whether `thread.ended` is recorded for the terminal state it is in.
    ended: bool,
}

/// Says why something cannot happen to a thread in its state. Each is a defined outcome of a race or a late message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    #[error("a thread begins with `dispatch.accepted`")]
    NoThread,
    #[error("a dispatch of the thread is live already")]
    Busy,
    #[error("the thread has a dispatch of that id already")]
    DispatchTwice,
    #[error("the thread does not wait for a next dispatch")]
    NotResuming,
    #[error("the thread has no such dispatch")]
    UnknownDispatch,
    #[error("the dispatch has ended")]
    DispatchEnded,
    #[error("the dispatch has started already")]
    StartedTwice,
    #[error("the dispatch has not started")]
    NotStarted,
    #[error("the thread has no such question")]
    UnknownQuestion,
    #[error("the thread has a question of that id already")]
    QuestionTwice,
    #[error("the question is not open yet")]
    NotOpen,
    #[error("the question was opened already")]
    OpenedTwice,
    #[error("the question was answered already")]
    AnsweredAlready,
    #[error("the question was declined")]
    DeclinedAlready,
    #[error("the question has expired")]
    ExpiredAlready,
    #[error("the question was ended because what it rested on had changed")]
    StaleAlready,
    #[error("the question was cancelled")]
    CancelledAlready,
    #[error("the answer was given for another question")]
    OtherQuestion,
    #[error("the answer does not fit the question")]
    UnfitAnswer,
    #[error("the thread has not come to an end")]
    NotOver,
    #[error("a question of the thread is open; it goes on by an answer")]
    QuestionOpen,
    #[error("the thread has ended")]
    Over,
    #[error("the question has no canonical form")]
    Unhashable,
    #[error("the terms of the question do not say so")]
    NotDeclared,
    #[error("the question is at another step of its route")]
    OtherStep,
    #[error("enough answers to it were refused and recorded")]
    RefusedOften,
}

impl Thread {
    /// Folds the first thing that happened.
    pub fn begin(what: &Happening) -> Result<Self, Illegal> {
        match what {
            Happening::Event(Event::Accepted { dispatch_id, .. }) => Ok(Self {
                state: ThreadState::Running,
                dispatches: vec![(dispatch_id.clone(), DispatchState::Accepted)],
                questions: Vec::new(),
                ended: false,
            }),
            Happening::Event(_) | Happening::Record(_) => Err(Illegal::NoThread),
        }
    }

    /// Folds the next thing that happened, or says why it cannot have.
    pub fn after(mut self, what: &Happening) -> Result<Self, Illegal> {
        match what {
            Happening::Event(event) => self.take_event(event)?,
            Happening::Record(record) => self.take_record(record)?,
        }
        Ok(self)
    }

    pub fn state(&self) -> &ThreadState {
        &self.state
    }

    /// Returns the dispatches, oldest first.
    pub fn dispatches(&self) -> &[(DispatchId, DispatchState)] {
        &self.dispatches
    }

    /// Returns the questions, oldest first.
    pub fn questions(&self) -> &[AskedQuestion] {
        &self.questions
    }

    /// Returns the question that is open: a thread has at most one.
    pub fn open(&self) -> Option<&AskedQuestion> {
        self.questions.iter().rev().find(|asked| asked.state == QuestionState::Open)
    }

    /// Returns the moment when something is to be done about the open question, if it moves by time.
    pub fn question_due_at(&self) -> Option<Timestamp> {
        self.open().and_then(|asked| asked.progress.due_at(&asked.terms))
    }

    /// Returns the command that is to be asked now, with the question it is asked.
    pub fn command_to_ask(&self) -> Option<(&AskedQuestion, &CommandStep)> {
        let asked = self.open()?;
        Some((asked, asked.progress.command(&asked.terms)?))
    }

    /// Tells whether it came to its end with its question, and what it would have gone on with is to be taken away before the books are
    /// closed.
    pub fn is_to_be_closed(&self) -> bool {
        let paused = self.dispatches.last().is_some_and(|(_, state)| *state == DispatchState::NeedsInput);
        paused && !self.ended && self.require_terminal().is_ok()
    }

    /// Tells whether somebody has to carry it: a dispatch is live, or is to follow, a command of its route is to be asked, or its books
    /// are to be closed.
    pub fn wants_carrier(&self) -> bool {
        let live = self.dispatches.iter().any(|(_, state)| state.is_live());
        live || self.state == ThreadState::Resuming
            || self.command_to_ask().is_some()
            || self.is_to_be_closed()
    }

    /// Tells whether `thread.ended` closed the books.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    fn take_event(&mut self, event: &Event) -> Result<(), Illegal> {
        if let Event::Accepted { dispatch_id, .. } = event {
            return self.accept(dispatch_id);
        }
        let (_, dispatch) = self
            .dispatches
            .iter_mut()
            .find(|(id, _)| id == event.dispatch_id())
            .ok_or(Illegal::UnknownDispatch)?;
        if !dispatch.is_live() {
            return Err(Illegal::DispatchEnded);
        }
        let running = *dispatch == DispatchState::Running;
        match event {
            Event::Accepted { .. } => return Err(Illegal::DispatchTwice),
            Event::Started { .. } if running => return Err(Illegal::StartedTwice),
            Event::Started { .. } => *dispatch = DispatchState::Running,
            Event::Finished { .. } | Event::NeedsInput { .. } if !running => return Err(Illegal::NotStarted),
            Event::Finished { .. } => {
                *dispatch = DispatchState::Finished;
                self.state = ThreadState::Finished;
            }
            Event::NeedsInput { question_id, question, .. } => {
                if self.questions.iter().any(|asked| asked.id == *question_id) {
                    return Err(Illegal::QuestionTwice);
                }
                let hash = question.hash().map_err(|_| Illegal::Unhashable)?;
                *dispatch = DispatchState::NeedsInput;
                self.state = ThreadState::Waiting;
                let (id, question) = (question_id.clone(), question.clone());
                self.questions.push(AskedQuestion {
                    id,
                    hash,
                    question,
                    state: QuestionState::Asked,
                    terms: Terms::default(),
                    progress: Progress::default(),
                });
            }
            Event::Failed { failure, .. } => {
                *dispatch = DispatchState::Failed(failure.clone());
                self.state = ThreadState::Failed(failure.clone());
            }
            Event::Cancelled { .. } => {
                *dispatch = DispatchState::Cancelled;
                self.state = ThreadState::Cancelled;
            }
        }
        Ok(())
    }

    fn accept(&mut self, dispatch: &DispatchId) -> Result<(), Illegal> {
        if self.dispatches.iter().any(|(_, state)| state.is_live()) {
            return Err(Illegal::Busy);
        }
        if self.dispatches.iter().any(|(id, _)| id == dispatch) {
            return Err(Illegal::DispatchTwice);
        }
        if self.state != ThreadState::Resuming {
            return Err(Illegal::NotResuming);
        }
        self.dispatches.push((dispatch.clone(), DispatchState::Accepted));
        self.state = ThreadState::Running;
        Ok(())
    }

    fn take_record(&mut self, record: &Record) -> Result<(), Illegal> {
        match record {
            Record::QuestionOpened { question_id, question_hash, terms } => {
                let asked = self.question(question_id)?;
                match asked.state {
                    QuestionState::Asked if asked.hash == *question_hash => {
                        asked.state = QuestionState::Open;
                        asked.progress = Progress::begin(terms);
                        asked.terms = (**terms).clone();
                    }
                    QuestionState::Asked => return Err(Illegal::OtherQuestion),
                    QuestionState::Open => return Err(Illegal::OpenedTwice),
                    _ => return Err(asked.closed()),
                }
            }
            Record::QuestionRouted { question_id, .. }
            | Record::QuestionReminded { question_id, .. }
            | Record::QuestionEscalated { question_id, .. } => {
                let asked = self.open_question(question_id)?;
                asked.progress.take(&asked.terms, record)?;
            }
            Record::QuestionAnswered { question_id, question_hash, answers, .. } => {
                let asked = self.open_question(question_id)?;
                if asked.hash != *question_hash {
                    return Err(Illegal::OtherQuestion);
                }
                answer::check(&asked.question, answers).map_err(|_| Illegal::UnfitAnswer)?;
                let next = match spent::decision(&asked.question, answers) {
                    Ok(None | Some(Decision::Raise(_))) => ThreadState::Resuming,
                    Ok(Some(Decision::Stop)) => {
                        let detail = "the budget was used up, and the answer was to stop there";
                        ThreadState::Failed(Failure::new(FailureCode::Budget, detail))
                    }
                    Err(_) => return Err(Illegal::UnfitAnswer),
                };
                asked.state = QuestionState::Answered;
                self.state = next;
            }
            Record::QuestionDeclined { question_id, .. } => {
                self.open_question(question_id)?.state = QuestionState::Declined;
                let detail = "the question was declined";
                self.state = ThreadState::Failed(Failure::new(FailureCode::QuestionDeclined, detail));
            }
            Record::QuestionExpired { question_id, at_expiry } => {
                let asked = self.open_question(question_id)?;
                let declared = asked.terms.expiry.map(|expiry| expiry.then);
                let next = match at_expiry {
                    AtExpiry::Fail if declared == Some(AtEnd::Fail) => {
                        let detail = "nobody answered the question in time";
                        ThreadState::Failed(Failure::new(FailureCode::QuestionExpired, detail))
                    }
                    AtExpiry::UseDefault(replies) if declared == Some(AtEnd::UseDefault) => {
                        if !asked.defaults_are(replies) {
                            return Err(Illegal::UnfitAnswer);
                        }
                        ThreadState::Resuming
                    }
                    AtExpiry::Stale(_) if asked.terms.if_stale == IfStale::Fail => {
                        let detail = "what the question rested on has changed since it was asked";
                        ThreadState::Failed(Failure::new(FailureCode::QuestionStale, detail))
                    }
                    // Silence is never consent, and never an end that nobody declared.
                    AtExpiry::Fail | AtExpiry::UseDefault(_) | AtExpiry::Stale(_) => {
                        return Err(Illegal::NotDeclared);
                    }
                };
                asked.state = match at_expiry {
                    AtExpiry::Fail | AtExpiry::UseDefault(_) => QuestionState::Expired,
                    AtExpiry::Stale(_) => QuestionState::Stale,
                };
                self.state = next;
            }
            Record::QuestionCancelled { question_id, .. } => {
                self.open_question(question_id)?.state = QuestionState::Cancelled;
                self.state = ThreadState::Cancelled;
            }
            Record::AnswerRefused { question_id, .. } => {
                let progress = &mut self.question(question_id)?.progress;
                if progress.refusals >= MOST_REFUSALS {
                    return Err(Illegal::RefusedOften);
                }
                progress.refusals += 1;
            }
            Record::ThreadContinued { .. } => {
                self.require_terminal()?;
                self.state = ThreadState::Resuming;
                self.ended = false;
            }
            Record::ThreadCancelled { .. } => match self.state {
                ThreadState::Resuming | ThreadState::Cancelled if !self.ended => {
                    self.state = ThreadState::Cancelled;
                }
                ThreadState::Running => return Err(Illegal::Busy),
                ThreadState::Waiting => return Err(Illegal::QuestionOpen),
                _ => return Err(Illegal::Over),
            },
            Record::ThreadEnded {} => {
                self.require_terminal()?;
                if self.ended {
                    return Err(Illegal::Over);
                }
                self.ended = true;
            }
        }
        Ok(())
    }

    fn require_terminal(&self) -> Result<(), Illegal> {
        match self.state {
            ThreadState::Finished | ThreadState::Failed(_) | ThreadState::Cancelled => Ok(()),
            ThreadState::Waiting => Err(Illegal::QuestionOpen),
            ThreadState::Running | ThreadState::Resuming => Err(Illegal::NotOver),
        }
    }

    fn question(&mut self, id: &QuestionId) -> Result<&mut AskedQuestion, Illegal> {
        self.questions.iter_mut().find(|asked| asked.id == *id).ok_or(Illegal::UnknownQuestion)
    }

    fn open_question(&mut self, id: &QuestionId) -> Result<&mut AskedQuestion, Illegal> {
        let asked = self.question(id)?;
        if asked.state == QuestionState::Open { Ok(asked) } else { Err(asked.closed()) }
    }
}

impl AskedQuestion {
    /// Says why the question, which is not open, takes no answer.
    fn closed(&self) -> Illegal {
        match self.state {
            QuestionState::Asked => Illegal::NotOpen,
            QuestionState::Open => Illegal::OpenedTwice,
            QuestionState::Answered => Illegal::AnsweredAlready,
            QuestionState::Declined => Illegal::DeclinedAlready,
            QuestionState::Expired => Illegal::ExpiredAlready,
            QuestionState::Stale => Illegal::StaleAlready,
            QuestionState::Cancelled => Illegal::CancelledAlready,
        }
    }

    /// Tells whether these replies are exactly the defaults that the asker named.
    fn defaults_are(&self, replies: &answer::Replies) -> bool {
        let items = self.question.items();
        items.len() == replies.len()
            && items
                .iter()
                .all(|item| item.default_reply().is_some_and(|reply| replies.get(item.id()) == Some(reply)))
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
