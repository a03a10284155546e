//! The beginning of a dispatch: accepted means recorded, and from then on it is not lost.

use agora_core::answer::Answerer;
use agora_core::entry::Happening;
use agora_core::event::Event;
use agora_core::id::DispatchId;
use agora_core::job::{Attendance, Job, NextLogin, retry_at};
use agora_core::provider::lease::Lease;
use agora_core::provider::ledger::{Append, Beyond, LedgerError, Paper};
use agora_core::record::Record;
use agora_core::route::NotEntitled;
use agora_core::state::{DispatchState, Illegal};
use agora_core::wire::manifest::{Continuation, GivenAnswer};
use agora_core::{ContentHash, Name, ThreadId};

use super::{CarryError, Engine};
use crate::sabotage::{self, Bug};

/// A dispatch that is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub dispatch_id: DispatchId,
    pub thread_id: ThreadId,
    pub novelty: Novelty,
}

/// Whether a request made a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Novelty {
    New,
    /// The same request was accepted before, under the same key.
    Known,
}

/// The caller's own name for a request, and what the request was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey {
    pub key: String,
    pub request: ContentHash,
}

/// Why a dispatch was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    #[error("the idempotency key was used for another request, which made the dispatch `{0}`")]
    KeyReused(DispatchId),
    #[error("there is a dispatch `{0}` already")]
    DispatchTaken(DispatchId),
    /// The request's own allowance does not have it.
    #[error("{}", match .0 {
        Beyond::Live(live) => format!("{live} dispatches with its label are under way, and no more may be"),
        Beyond::All(all) => format!("{all} dispatches with its label were accepted, and no more may be"),
    })]
    NotAllowed(Beyond),
    #[error("the thread `{thread}` cannot be continued now")]
    NotNow {
        thread: ThreadId,
        #[source]
        why: Illegal,
    },
    #[error("another process looks after the thread `{0}`")]
    Held(ThreadId),
    #[error("a takeover needs a local target: an agent at `{0}` cannot be given this terminal")]
    NoTerminal(Name),
    /// Whoever may not answer the question that is open may not end it by taking the thread over either.
    #[error("`{}` may not take the thread `{thread}` over while its question is open", by.principal)]
    NotEntitled {
        thread: ThreadId,
        by: Box<Answerer>,
        #[source]
        why: NotEntitled,
    },
    #[error(transparent)]
    Carry(CarryError),
}

impl Engine {
    /// Records the first dispatch of a thread. The same request under the same key is recorded once.
    pub async fn accept(&self, job: Job, key: Option<RequestKey>) -> Result<Accepted, AcceptError> {
        self.accept_with(job, key, []).await
    }

    /// Records the first dispatch of a thread whose lease the caller has, and takes room for it with the same write if there is
    /// some: [`Engine::carry_accepted`] goes on from there.
    pub async fn accept_with_room(
        &self,
        job: Job,
        key: Option<RequestKey>,
        _lease: &dyn Lease,
    ) -> Result<Accepted, AcceptError> {
        let claim = self.claim_for(&job);
        self.accept_with(job, key, claim).await
    }

    /// Returns what takes room for a dispatch with the write that accepts it.
    pub(crate) fn claim_for(&self, job: &Job) -> Option<Paper> {
        self.target(&job.target).map(|target| Paper::Claim {
            dispatch_id: job.dispatch_id.clone(),
            mark: self.world().mark(),
            most: target.max_concurrent,
        })
    }

    /// Records the first dispatch of a thread, with papers beside its own.
    pub(crate) async fn accept_with(
        &self,
        job: Job,
        key: Option<RequestKey>,
        beside: impl IntoIterator<Item = Paper>,
    ) -> Result<Accepted, AcceptError> {
        let accepted = Accepted {
            dispatch_id: job.dispatch_id.clone(),
            thread_id: job.thread_id.clone(),
            novelty: Novelty::New,
        };
        let mut papers = Vec::new();
        if let Some(RequestKey { key, request }) = key.as_ref().filter(|_| !sabotage::is(Bug::ForgetsKey)) {
            let (key, request, dispatch_id) = (key.clone(), *request, job.dispatch_id.clone());
            papers.push(Paper::Key { key, request, dispatch_id });
        }
        let append = Append {
            namespace: job.namespace.clone(),
            thread_id: job.thread_id.clone(),
            seen: 0,
            what: vec![event(&job)],
            papers: papers.into_iter().chain([Paper::Job(Box::new(job))]).chain(beside).collect(),
        };
        match self.world().ledger.append(append).await {
            Ok(_) => Ok(accepted),
            Err(LedgerError::KeyTaken { dispatch_id, request }) => {
                self.accepted_before(dispatch_id, key.is_some_and(|key| key.request == request)).await
            }
            Err(LedgerError::DispatchTaken(id)) => Err(AcceptError::DispatchTaken(id)),
            Err(LedgerError::NotAllowed(beyond)) => Err(AcceptError::NotAllowed(beyond)),
            Err(error) => Err(AcceptError::Carry(CarryError::Ledger(error))),
        }
    }

    async fn accepted_before(&self, id: DispatchId, same: bool) -> Result<Accepted, AcceptError> {
        if !same {
            return Err(AcceptError::KeyReused(id));
        }
        let papers = self.papers(&id).await.map_err(AcceptError::Carry)?;
        Ok(Accepted { dispatch_id: id, thread_id: papers.job.thread_id, novelty: Novelty::Known })
    }

    /// Sees that a thread came to an end, so that it can be continued.
    pub(crate) async fn see_rests(&self, thread: &ThreadId) -> Result<(), AcceptError> {
        let view = self.view(thread).await.map_err(AcceptError::Carry)?;
        let continued = Happening::from(Record::ThreadContinued { by: None });
        let after = view.thread.after(&continued);
        after.map(drop).map_err(|why| AcceptError::NotNow { thread: thread.clone(), why })
    }

    /// Goes on with a thread that came to an end, with the same bundles, from where its last dispatch left off. `by` is for the record.
    pub async fn go_on(
        &self,
        thread: &ThreadId,
        by: Option<&Answerer>,
        message: Option<String>,
        attendance: Attendance,
    ) -> Result<Accepted, AcceptError> {
        self.go_on_as(thread, by, message, attendance, None).await
    }

    /// As [`Engine::go_on`], with a login that was chosen again.
    pub(crate) async fn go_on_as(
        &self,
        thread: &ThreadId,
        by: Option<&Answerer>,
        message: Option<String>,
        attendance: Attendance,
        login: Option<&NextLogin>,
    ) -> Result<Accepted, AcceptError> {
        loop {
            let view = self.view(thread).await.map_err(AcceptError::Carry)?;
            let not_now = |why| AcceptError::NotNow { thread: thread.clone(), why };
            let continued = Happening::from(Record::ThreadContinued { by: by.cloned() });
            view.thread.clone().after(&continued).map_err(not_now)?;
            let Some((last, last_state)) = view.thread.dispatches().last() else {
                return Err(not_now(Illegal::NoThread));
            };
            let before = self.papers(last).await.map_err(AcceptError::Carry)?.job;
            // Its owner may have ended it, or gone on with it, since somebody saw that it was due.
            let by_itself = attendance == Attendance::Retried && !sabotage::is(Bug::DoubleResume);
            if by_itself && retry_at(&view.thread, &before).is_none() {
                return Err(not_now(Illegal::Over));
            }
            let id = DispatchId::from_entropy(self.world().random());
            let (message, answer) = (message.clone(), unspent(&before, last_state));
            let job =
                before.next(id, Continuation::Continued { message, answer }, attendance).logging_in(login);
            let accepted = Accepted {
                dispatch_id: job.dispatch_id.clone(),
                thread_id: thread.clone(),
                novelty: Novelty::New,
            };
            let what = vec![continued, event(&job)];
            match self.append(&view, what, vec![Paper::Job(Box::new(job))]).await {
                Ok(()) => return Ok(accepted),
                // Somebody was faster: what is there now decides again.
                Err(LedgerError::Moved { .. }) => {}
                Err(LedgerError::Illegal(why)) => return Err(not_now(why)),
                Err(error) => return Err(AcceptError::Carry(CarryError::Ledger(error))),
            }
        }
    }
}

/// Returns the answer that a dispatch was given, unless it finished with it. One that failed or was cancelled may have lost it, with its
/// worker or because its runtime keeps no conversation, and nobody is to be asked for it again.
fn unspent(job: &Job, state: &DispatchState) -> Option<Box<GivenAnswer>> {
    match state {
        DispatchState::Failed(_) | DispatchState::Cancelled if !sabotage::is(Bug::ForgetsAnswer) => {
            job.continuation.as_ref()?.answer().cloned().map(Box::new)
        }
        DispatchState::Accepted
        | DispatchState::Running
        | DispatchState::Finished
        | DispatchState::NeedsInput
        | DispatchState::Failed(_)
        | DispatchState::Cancelled => None,
    }
}

pub(crate) fn event(job: &Job) -> Happening {
    Event::Accepted { dispatch_id: job.dispatch_id.clone(), resolved: job.resolved.clone() }.into()
}
