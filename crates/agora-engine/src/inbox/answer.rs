//! Answering: one submission counts, is signed, and makes the next dispatch, all with one write.

use agora_core::answer::{AnswerError, Answerer, Given, Replies};
use agora_core::canonical::{self, CanonicalError};
use agora_core::entry::{Entry, Happening};
use agora_core::job::{Attendance, Job, NextLogin};
use agora_core::login::{LoginSource, Vendor};
use agora_core::provider::lease::Lease;
use agora_core::provider::ledger::{DispatchView, LedgerError, Paper, ThreadView};
use agora_core::provider::secret::SecretError;
use agora_core::provider::shelf::Clearing;
use agora_core::question::Question;
use agora_core::record::Record;
use agora_core::route::{MOST_REFUSALS, NotEntitled, Party, entitled};
use agora_core::spent::{self, Decision};
use agora_core::stale::{Despite, Difference};
use agora_core::state::{AskedQuestion, Illegal, QuestionState};
use agora_core::wire::manifest::{Continuation, GivenAnswer, Verbatim};
use agora_core::wire::receipt::{Receipt, Statement};
use agora_core::{DispatchId, QuestionId, ThreadId, Timestamp};

use super::asked_by;
use super::rested::Submission;
use crate::carry::accept::event;
use crate::carry::{CarryError, Engine};
use crate::error::Error;
use crate::notice::NoticeKind;
use crate::sabotage::{self, Bug};

/// With what a thread goes on.
#[derive(Clone, Copy, Default)]
pub(crate) struct Onward<'a> {
    /// The thread's, where the caller has it.
    pub(crate) lease: Option<&'a dyn Lease>,
    /// What was chosen to log in with, or whose login there is none of. `None`: as before.
    pub(crate) login: Option<&'a Result<NextLogin, &'static Vendor>>,
}

impl Onward<'_> {
    fn log_in(&self, job: Job) -> Job {
        job.logging_in(self.login.and_then(|login| login.as_ref().ok()))
    }
}

/// An answer that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub question_id: QuestionId,
    pub thread_id: ThreadId,
    /// The dispatch that goes on with it. Where the answer ended the thread: the one that asked.
    pub dispatch_id: DispatchId,
    pub receipt: Receipt,
    /// What the question rested on and is another now.
    pub stale: Vec<Difference>,
    /// Where the login is from of the dispatch that goes on.
    pub auth_from: Option<LoginSource>,
    /// Whether a dispatch follows. Not when the answer to agora's own question was to stop.
    pub goes_on: bool,
}

/// Why an answer did not count. Being late, early or second is a defined outcome, and changes nothing.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("there is no question `{0}`")]
    Unknown(QuestionId),
    #[error("the question `{0}` is not open yet")]
    NotOpen(QuestionId),
    #[error("the question `{question_id}` was answered before, by `{}` through `{}` at {at}", by.principal, by.door)]
    AnsweredBefore { question_id: QuestionId, by: Box<Answerer>, at: Timestamp },
    #[error("the question `{question_id}` is not open any more{}", ended_by(by.as_deref()))]
    Closed {
        question_id: QuestionId,
        /// Who ended it, where somebody did and is known.
        by: Option<Box<Answerer>>,
        #[source]
        how: Illegal,
    },
    #[error("that does not answer the question `{question_id}`")]
    Unfit {
        question_id: QuestionId,
        question: Box<Question>,
        #[source]
        why: AnswerError,
    },
    /// A secret of the thread is not to be had: the answer would be spent on a dispatch that cannot start. The question stays open.
    #[error("the question `{question_id}` is not answered yet: what goes on with the answer could not start")]
    CannotStart {
        question_id: QuestionId,
        #[source]
        why: SecretError,
    },
    #[error("`{}` may not answer the question `{question_id}`", by.principal)]
    NotEntitled {
        question_id: QuestionId,
        by: Box<Answerer>,
        /// Those who may. Nobody: any person.
        may_answer: Vec<Party>,
        #[source]
        why: NotEntitled,
    },
    /// What the question rested on has changed, and its route wants that to be confirmed: answer again, despite the changes. The
    /// question stays open.
    #[error("what the question `{question_id}` rested on has changed since it was asked")]
    Changed { question_id: QuestionId, stale: Vec<Difference> },
    /// What the question rested on has changed, and its route says that it fails then. The thread has ended.
    #[error("what the question `{question_id}` rested on has changed since it was asked, and so it is over")]
    Stale { question_id: QuestionId, stale: Vec<Difference> },
    #[error("the answer has no canonical form")]
    Canonical(#[source] CanonicalError),
}

impl Engine {
    /// Answers a question. Of all who answer, the first counts; when this returns the answer is durable and the next dispatch is
    /// accepted, and has room if there is some and the caller has the thread's lease.
    pub async fn answer(
        &self,
        thread: &ThreadId,
        question: &QuestionId,
        given: &Given,
        by: &Answerer,
        lease: Option<&dyn Lease>,
    ) -> Result<Answered, Error> {
        self.answer_despite(Despite::Nothing, thread, question, given, by, lease).await
    }

    /// As [`Engine::answer`], by somebody who knows that what the question rested on has changed.
    pub async fn answer_despite(
        &self,
        despite: Despite,
        thread: &ThreadId,
        question: &QuestionId,
        given: &Given,
        by: &Answerer,
        lease: Option<&dyn Lease>,
    ) -> Result<Answered, Error> {
        self.answer_as(despite, thread, question, (given, by), Onward { lease, login: None }).await
    }

    /// As [`Engine::answer_despite`], with a login that was chosen again.
    pub(crate) async fn answer_as(
        &self,
        despite: Despite,
        thread: &ThreadId,
        question: &QuestionId,
        (given, by): (&Given, &Answerer),
        onward: Onward<'_>,
    ) -> Result<Answered, Error> {
        loop {
            let view = self.view(thread).await.map_err(Error::Carry)?;
            let asked = self.open_question(&view, question).await?;
            let Some(()) = self.admit(&view, asked, by).await? else { continue };
            let unfit = |why| {
                let (question_id, question) = (question.clone(), Box::new(asked.question.clone()));
                Error::Answer(Refusal::Unfit { question_id, question, why })
            };
            let answers = given.understood(&asked.question).map_err(unfit)?;
            let decision = spent::decision(&asked.question, &answers).map_err(unfit)?;
            // Whoever stops needs nothing of what it rested on.
            let stale = match decision {
                Some(Decision::Stop) => Some(Vec::new()),
                Some(Decision::Raise(_)) | None => {
                    if let Some(Err(vendor)) = onward.login {
                        return Err(Error::NoLogin { vendor });
                    }
                    let mut asker = self.last_papers(&view).await.map_err(Error::Carry)?;
                    asker.job = onward.log_in(asker.job);
                    self.weigh(&view, asked, &asker, &Submission { answers: &answers, by, despite }).await?
                }
            };
            let Some(stale) = stale else { continue };
            let record = Record::QuestionAnswered {
                question_id: question.clone(),
                question_hash: asked.hash,
                answers: answers.clone(),
                by: by.clone(),
                stale: stale.clone(),
                receipt: None,
            };
            match self.go_on_with(&view, asked, &answers, by, vec![record.into()], onward).await {
                Ok(Some(answered)) => {
                    let answered = Answered { stale, ..answered };
                    self.tell_of(NoticeKind::Answered, &view, asked).await;
                    return Ok(answered);
                }
                // Something happened first: what is there now decides again.
                Ok(None) => {}
                Err(CarryError::Unsigned(error)) => return Err(Error::Answer(Refusal::Canonical(error))),
                Err(error) => return Err(Error::Carry(error)),
            }
        }
    }

    /// Signs replies, and records what led to them, with the receipt, together with the dispatch that goes on with them. `None`:
    /// something happened first, and nothing was recorded.
    pub(crate) async fn go_on_with(
        &self,
        view: &ThreadView,
        asked: &AskedQuestion,
        replies: &Replies,
        by: &Answerer,
        mut what: Vec<Happening>,
        onward: Onward<'_>,
    ) -> Result<Option<Answered>, CarryError> {
        let before = self.last_job(view).await?;
        let receipt = self.world().keys.receipt_signer().sign(Statement {
            namespace: view.namespace.clone(),
            thread_id: view.thread_id.clone(),
            question_id: asked.id.clone(),
            question_hash: asked.hash,
            bundles_hash: canonical::hash(&before.resolved).map_err(CarryError::Unsigned)?,
            answers: replies.clone(),
            by: by.clone(),
            at: self.world().clock.now(),
        });
        let receipt = receipt.map_err(CarryError::Unsigned)?;
        for what in &mut what {
            if let Happening::Record(Record::QuestionAnswered { receipt: kept, .. }) = what {
                *kept = Some(Box::new(receipt.clone()));
            }
        }
        let asker = before.dispatch_id.clone();
        let job = onward.log_in(self.next_job(before, asked, receipt.clone()));
        // What is asked by agora itself was understood before it counted.
        let next = match spent::decision(&asked.question, replies).ok().flatten() {
            Some(Decision::Stop) => None,
            Some(Decision::Raise(more)) => Some(self.with_more(view, job, asked, more).await?),
            None => Some(job),
        };
        let answered = Answered {
            question_id: asked.id.clone(),
            thread_id: view.thread_id.clone(),
            dispatch_id: next.as_ref().map_or(asker, |job| job.dispatch_id.clone()),
            receipt,
            stale: Vec::new(),
            auth_from: next.as_ref().and_then(|job| job.login),
            goes_on: next.is_some(),
        };
        let mut papers = Vec::new();
        if let Some(job) = next.filter(|_| !sabotage::is(Bug::AnswerLeadsNowhere)) {
            what.push(event(&job));
            papers.extend(onward.lease.and_then(|_| self.claim_for(&job)));
            papers.insert(0, Paper::Job(Box::new(job)));
        }
        match self.append(view, what, papers).await {
            Ok(()) if !answered.goes_on => self.close(&view.thread_id).await.map(|()| Some(answered)),
            Ok(()) => Ok(Some(answered)),
            Err(LedgerError::Moved { .. }) if sabotage::is(Bug::BelievesItWon) => Ok(Some(answered)),
            Err(LedgerError::Moved { .. }) => Ok(None),
            Err(error) => Err(CarryError::Ledger(error)),
        }
    }

    /// Declines a question: its thread has failed, and that is not an answer.
    pub async fn decline(
        &self,
        thread: &ThreadId,
        question: &QuestionId,
        by: &Answerer,
    ) -> Result<ThreadView, Error> {
        loop {
            let view = self.view(thread).await.map_err(Error::Carry)?;
            let asked = self.open_question(&view, question).await?;
            let Some(()) = self.admit(&view, asked, by).await? else { continue };
            let declined = Record::QuestionDeclined { question_id: question.clone(), by: by.clone() };
            match self.append(&view, vec![declined.into()], Vec::new()).await {
                Ok(()) => {
                    self.close(thread).await.map_err(Error::Carry)?;
                    self.tell_of(NoticeKind::Declined, &view, asked).await;
                    return self.view(thread).await.map_err(Error::Carry);
                }
                Err(LedgerError::Moved { .. }) => {}
                Err(error) => return Err(Error::Carry(CarryError::Ledger(error))),
            }
        }
    }

    /// Closes the books of a thread that came to its end with its question. Whoever dies before that is done leaves it to whoever
    /// recovers: until then the thread wants a carrier.
    pub(crate) async fn close(&self, thread: &ThreadId) -> Result<(), CarryError> {
        loop {
            let view = self.view(thread).await?;
            if !view.thread.is_to_be_closed() {
                return Ok(());
            }
            self.clear_ended(&view).await?;
            match self.append(&view, vec![Record::ThreadEnded {}.into()], Vec::new()).await {
                Ok(()) | Err(LedgerError::Moved { .. }) => {}
                Err(error) => return Err(CarryError::Ledger(error)),
            }
        }
    }

    /// Lets those in who may answer, and records that somebody else tried. `None`: something happened meanwhile; look again.
    async fn admit(
        &self,
        view: &ThreadView,
        asked: &AskedQuestion,
        by: &Answerer,
    ) -> Result<Option<()>, Error> {
        if self.is_over(asked) {
            // Late, whether or not anybody has looked at the clock: it is recorded now, and the next look tells.
            return self.expire(view, asked, None).await.map(|()| None).map_err(Error::Carry);
        }
        let thread = (&view.thread_id, &view.thread);
        let why = match entitled(thread, (&asked.question, &asked.terms), by, self.world().agents) {
            Ok(()) => return Ok(Some(())),
            Err(_) if sabotage::is(Bug::AnybodyAnswers) => return Ok(Some(())),
            Err(why) => why,
        };
        let question_id = asked.id.clone();
        if asked.progress.refusals < MOST_REFUSALS {
            let (question_id, by, why) = (question_id.clone(), by.clone(), why.to_string());
            let (answers, stale) = (None, Vec::new());
            let refused = Record::AnswerRefused { question_id, by, why, answers, stale };
            match self.append(view, vec![refused.into()], Vec::new()).await {
                Ok(()) => {}
                Err(LedgerError::Moved { .. }) => return Ok(None),
                Err(error) => return Err(Error::Carry(CarryError::Ledger(error))),
            }
        }
        let may_answer = asked.terms.may_answer.clone();
        Err(Error::Answer(Refusal::NotEntitled { question_id, by: Box::new(by.clone()), may_answer, why }))
    }

    /// Tells people what happened to a question, if its asker's papers can be read.
    pub(crate) async fn tell_of(&self, kind: NoticeKind, view: &ThreadView, asked: &AskedQuestion) {
        let asker = asked_by(&asked.id);
        let papers = match &asker {
            Some(asker) => self.world().ledger.dispatch(asker).await.ok().flatten(),
            None => None,
        };
        if let Some(papers) = papers {
            self.tell(kind, &view.thread_id, &papers.job, asked).await;
        }
    }

    /// Takes away what a thread that has ended would have gone on with.
    pub(crate) async fn clear_ended(&self, view: &ThreadView) -> Result<(), CarryError> {
        for (dispatch, _) in view.thread.dispatches() {
            let cleared = self.world().shelf.clear(dispatch, Clearing::Workspace).await;
            cleared.map_err(CarryError::Shelf)?;
            let job = self.papers(dispatch).await?.job;
            self.world().vault.forget(&job).await.map_err(CarryError::Secret)?;
        }
        Ok(())
    }

    /// Finds a question that can be answered, or says why an answer to it does not count.
    pub(super) async fn open_question<'v>(
        &self,
        view: &'v ThreadView,
        question: &QuestionId,
    ) -> Result<&'v AskedQuestion, Error> {
        let asked = view.thread.questions().iter().find(|asked| asked.id == *question);
        let asked = asked.ok_or_else(|| Error::Answer(Refusal::Unknown(question.clone())))?;
        let how = match asked.state {
            QuestionState::Open => return Ok(asked),
            QuestionState::Asked => return Err(Error::Answer(Refusal::NotOpen(question.clone()))),
            QuestionState::Answered => Illegal::AnsweredAlready,
            QuestionState::Declined => Illegal::DeclinedAlready,
            QuestionState::Expired => Illegal::ExpiredAlready,
            QuestionState::Stale => Illegal::StaleAlready,
            QuestionState::Cancelled => Illegal::CancelledAlready,
        };
        let closed = self.closed_by(view, question).await?.map(|(by, at)| (Box::new(by), at));
        let question_id = question.clone();
        Err(Error::Answer(match closed {
            Some((by, at)) if how == Illegal::AnsweredAlready => {
                Refusal::AnsweredBefore { question_id, by, at }
            }
            closed => Refusal::Closed { question_id, by: closed.map(|(by, _)| by), how },
        }))
    }

    /// Says who closed a question, and when. `None`: its time was over, or nobody was named.
    async fn closed_by(
        &self,
        view: &ThreadView,
        question: &QuestionId,
    ) -> Result<Option<(Answerer, Timestamp)>, Error> {
        let most = usize::try_from(view.seen).unwrap_or(usize::MAX);
        let entries = self.world().ledger.read(&view.thread_id, 0, most).await;
        let entries = entries.map_err(|error| Error::Carry(CarryError::Ledger(error)))?;
        Ok(entries.iter().find_map(|entry| Some((closer(question, entry)?.clone(), entry.at))))
    }

    pub(crate) async fn last_papers(&self, view: &ThreadView) -> Result<DispatchView, CarryError> {
        let last = view.thread.dispatches().last();
        let (last, _) = last.ok_or_else(|| CarryError::UnknownThread(view.thread_id.clone()))?;
        self.papers(last).await
    }

    pub(crate) async fn last_job(&self, view: &ThreadView) -> Result<Job, CarryError> {
        Ok(self.last_papers(view).await?.job)
    }

    /// Raises the limit that is used up, for all dispatches of the thread from the next one on.
    async fn with_more(
        &self,
        view: &ThreadView,
        mut job: Job,
        asked: &AskedQuestion,
        more: Option<f64>,
    ) -> Result<Job, CarryError> {
        let used = self.prior(view, &job).await?.usage;
        if let (Some(budget), Some(part)) = (&job.limits.budget, asked.question.spent()) {
            job.limits.budget = Some(spent::raised(budget, part, more, &used));
        }
        Ok(job)
    }

    fn next_job(&self, before: Job, asked: &AskedQuestion, receipt: Receipt) -> Job {
        let continuation = Continuation::Answered(GivenAnswer {
            question_id: asked.id.clone(),
            question: Verbatim(serde_json::to_value(&asked.question).unwrap_or_default()),
            receipt: Box::new(receipt),
        });
        // Whoever waited before may wait again, and who did not may not: it stays as it was.
        let attendance = match before.attendance {
            Attendance::Watched => Attendance::Watched,
            Attendance::Detached | Attendance::Retried => Attendance::Detached,
        };
        before.next(DispatchId::from_entropy(self.world().random()), continuation, attendance)
    }
}

/// Returns who closed a question with an entry.
fn closer<'e>(question: &QuestionId, entry: &'e Entry) -> Option<&'e Answerer> {
    match &entry.what {
        Happening::Record(
            Record::QuestionAnswered { question_id, by, .. }
            | Record::QuestionDeclined { question_id, by }
            | Record::QuestionCancelled { question_id, by: Some(by) },
        ) if question_id == question => Some(by),
        Happening::Event(_) | Happening::Record(_) => None,
    }
}

fn ended_by(by: Option<&Answerer>) -> String {
    by.map(|by| format!(": it was ended by `{}` through `{}`", by.principal, by.door)).unwrap_or_default()
}
