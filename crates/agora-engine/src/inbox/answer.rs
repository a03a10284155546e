//! Answering: one submission counts, is signed, and makes the next dispatch, all with one write.

use agora_core::answer::{AnswerError, Answerer, Given, Replies};
use agora_core::canonical::{self, CanonicalError};
use agora_core::entry::{Entry, Happening};
use agora_core::job::{Attendance, Job};
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
use agora_core::wire::manifest::{Continuation, Verbatim};
use agora_core::wire::receipt::{Receipt, Statement};
use agora_core::{DispatchId, QuestionId, ThreadId, Timestamp};

use super::asked_by;
use super::rested::Submission;
use crate::carry::accept::event;
use crate::carry::{CarryError, Engine};
use crate::error::Error;
use crate::notice::NoticeKind;

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
    #[error("the question `{question_id}` is not open any more")]
    Closed {
        question_id: QuestionId,
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
            let papers = self.last_papers(&view).await?;
            let submission = Submission { answers: &answers, by, despite };
            // Whoever stops needs nothing of what it rested on.
            let stale = match decision {
                Some(Decision::Stop) => Some(Vec::new()),
                _ => self.weigh(&view, asked, &papers, &submission).await?,
            };
            let Some(stale) = stale else { continue };
            let before = papers.job;
            let receipt = self.sign(&view, asked, &before, &answers, by)?;
            let asker = before.dispatch_id.clone();
            let next = match decision {
                Some(Decision::Stop) => None,
                Some(Decision::Raise(more)) => {
                    let job = self.next_job(before, asked, receipt.clone());
                    Some(self.with_more(&view, job, asked, more).await?)
                }
                None => Some(self.next_job(before, asked, receipt.clone())),
            };
            let answered = Answered {
                question_id: question.clone(),
                thread_id: thread.clone(),
                dispatch_id: next.as_ref().map_or(asker, |job| job.dispatch_id.clone()),
                receipt,
                stale: stale.clone(),
                goes_on: next.is_some(),
            };
            let (question_id, question_hash, by) = (question.clone(), asked.hash, by.clone());
            let record = Record::QuestionAnswered { question_id, question_hash, answers, by, stale };
            let last = next.as_ref().map_or_else(|| Record::ThreadEnded {}.into(), event);
            let claim = next.as_ref().filter(|_| lease.is_some()).and_then(|job| self.claim_for(job));
            let papers = next.map(|job| Paper::Job(Box::new(job))).into_iter().chain(claim).collect();
            match self.append(&view, vec![record.into(), last], papers).await {
                Ok(()) => {
                    if !answered.goes_on {
                        self.clear_ended(&view).await.map_err(Error::Carry)?;
                    }
                    self.tell_of(NoticeKind::Answered, &view, asked).await;
                    return Ok(answered);
                }
                // Something happened first: what is there now decides again.
                Err(LedgerError::Moved { .. }) => {}
                Err(error) => return Err(Error::Carry(CarryError::Ledger(error))),
            }
        }
    }

    fn sign(
        &self,
        view: &ThreadView,
        asked: &AskedQuestion,
        before: &Job,
        answers: &Replies,
        by: &Answerer,
    ) -> Result<Receipt, Error> {
        let unsigned = |error| Error::Answer(Refusal::Canonical(error));
        let statement = Statement {
            namespace: view.namespace.clone(),
            thread_id: view.thread_id.clone(),
            question_id: asked.id.clone(),
            question_hash: asked.hash,
            bundles_hash: canonical::hash(&before.resolved).map_err(unsigned)?,
            answers: answers.clone(),
            by: by.clone(),
            at: self.world().clock.now(),
        };
        self.world().keys.receipt_signer().sign(statement).map_err(unsigned)
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
            // Whoever dies before the rest is taken away leaves it behind, and is found by it.
            let lease = self.world().leases.try_take(thread).await;
            let _lease = lease.map_err(|error| Error::Carry(CarryError::Lease(error)))?;
            let declined = Record::QuestionDeclined { question_id: question.clone(), by: by.clone() };
            match self.append(&view, vec![declined.into(), Record::ThreadEnded {}.into()], Vec::new()).await {
                Ok(()) => {
                    self.clear_ended(&view).await.map_err(Error::Carry)?;
                    self.tell_of(NoticeKind::Declined, &view, asked).await;
                    return self.view(thread).await.map_err(Error::Carry);
                }
                Err(LedgerError::Moved { .. }) => {}
                Err(error) => return Err(Error::Carry(CarryError::Ledger(error))),
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
        let thread = (&view.thread_id, &view.thread);
        let why = match entitled(thread, (&asked.question, &asked.terms), by, self.world().agents) {
            Ok(()) => return Ok(Some(())),
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

    async fn open_question<'v>(
        &self,
        view: &'v ThreadView,
        question: &QuestionId,
    ) -> Result<&'v AskedQuestion, Error> {
        let asked = view.thread.questions().iter().find(|asked| asked.id == *question);
        let asked = asked.ok_or_else(|| Error::Answer(Refusal::Unknown(question.clone())))?;
        let closed = |how| Refusal::Closed { question_id: question.clone(), how };
        Err(Error::Answer(match asked.state {
            QuestionState::Open => return Ok(asked),
            QuestionState::Asked => Refusal::NotOpen(question.clone()),
            QuestionState::Answered => self.answered_before(view, question).await?,
            QuestionState::Declined => closed(Illegal::DeclinedAlready),
            QuestionState::Expired => closed(Illegal::ExpiredAlready),
            QuestionState::Cancelled => closed(Illegal::CancelledAlready),
        }))
    }

    /// Says who was first.
    async fn answered_before(&self, view: &ThreadView, question: &QuestionId) -> Result<Refusal, Error> {
        let most = usize::try_from(view.seen).unwrap_or(usize::MAX);
        let entries = self.world().ledger.read(&view.thread_id, 0, most).await;
        let entries = entries.map_err(|error| Error::Carry(CarryError::Ledger(error)))?;
        let question_id = question.clone();
        let how = Illegal::AnsweredAlready;
        Ok(match entries.iter().find_map(|entry| answer_to(question, entry)) {
            Some((by, at)) => Refusal::AnsweredBefore { question_id, by: Box::new(by.clone()), at },
            None => Refusal::Closed { question_id, how },
        })
    }

    async fn last_papers(&self, view: &ThreadView) -> Result<DispatchView, Error> {
        let last = view.thread.dispatches().last();
        let unknown = || Error::Carry(CarryError::UnknownThread(view.thread_id.clone()));
        let (last, _) = last.ok_or_else(unknown)?;
        self.papers(last).await.map_err(Error::Carry)
    }

    /// Raises the limit that is used up, for all dispatches of the thread from the next one on.
    async fn with_more(
        &self,
        view: &ThreadView,
        job: Job,
        asked: &AskedQuestion,
        more: Option<f64>,
    ) -> Result<Job, Error> {
        let used = self.prior(view, &job).await.map_err(Error::Carry)?.usage;
        let mut job = job;
        if let (Some(budget), Some(part)) = (&job.limits.budget, asked.question.spent()) {
            job.limits.budget = Some(spent::raised(budget, part, more, &used));
        }
        Ok(job)
    }

    fn next_job(&self, before: Job, asked: &AskedQuestion, receipt: Receipt) -> Job {
        let continuation = Continuation::Answered {
            question_id: asked.id.clone(),
            question: Verbatim(serde_json::to_value(&asked.question).unwrap_or_default()),
            receipt: Box::new(receipt),
        };
        // Whoever waited before may wait again, and who did not may not: it stays as it was.
        let attendance = match before.attendance {
            Attendance::Watched => Attendance::Watched,
            Attendance::Detached | Attendance::Retried => Attendance::Detached,
        };
        before.next(DispatchId::from_entropy(self.world().random()), continuation, attendance)
    }
}

fn answer_to<'e>(question: &QuestionId, entry: &'e Entry) -> Option<(&'e Answerer, Timestamp)> {
    match &entry.what {
        Happening::Record(Record::QuestionAnswered { question_id, by, .. }) if question_id == question => {
            Some((by, entry.at))
        }
        Happening::Event(_) | Happening::Record(_) => None,
    }
}
