//! A person takes a thread over: they go on with it themself, at a terminal, as its next dispatch.
//!
//! A terminal cannot be recorded. It is held here until the worker has it, by the process that the person sits in front of, and nobody
//! else can start that worker. So whoever takes over has the thread's lease first: another carrier that finds the dispatch without a
//! worker knows by having the lease that the terminal is gone, and ends it. The thread is then as it was before.

use std::time::Duration;

use agora_core::ThreadId;
use agora_core::answer::Answerer;
use agora_core::entry::Happening;
use agora_core::id::DispatchId;
use agora_core::job::{Attendance, Job, NextLogin};
use agora_core::provider::compute::Terminal;
use agora_core::provider::lease::Lease;
use agora_core::provider::ledger::{LedgerError, Paper, ThreadView};
use agora_core::reason::{Failure, FailureCode};
use agora_core::record::Record;
use agora_core::route::entitled;
use agora_core::state::{AskedQuestion, Illegal, QuestionState, Thread};
use agora_core::wire::manifest::Continuation;

use super::accept::{AcceptError, Accepted, Novelty, event};
use super::{CarryError, Engine};

/// How long somebody else may take to let go of a thread that rests: they only look at it, or are about to.
const LETTING_GO: Duration = Duration::from_secs(5);

impl Engine {
    /// Sees that a thread can be taken over now, and takes its lease.
    pub(crate) async fn lease_to_take_over(&self, thread: &ThreadId) -> Result<Box<dyn Lease>, AcceptError> {
        let view = self.view(thread).await.map_err(AcceptError::Carry)?;
        let job = self.taken_over_from(&view).await?;
        after(&view.thread, steps(&view.thread, None)).map_err(|why| not_now(thread, why))?;
        if self.target(&job.target).is_some_and(|target| !target.compute.has_terminals()) {
            return Err(AcceptError::NoTerminal(job.target));
        }
        let world = self.world();
        tokio::select! {
            biased;
            lease = world.leases.take(thread) => lease.map_err(|error| AcceptError::Carry(CarryError::Lease(error))),
            () = world.alarm.at(world.clock.now().plus(LETTING_GO)) => Err(AcceptError::Held(thread.clone())),
        }
    }

    /// Records that a person takes a thread over, and holds their terminal for its worker. A question that is open is theirs from now on:
    /// nobody answers it any more. All with one write, so that of an answer and a takeover one counts.
    pub(crate) async fn take_over(
        &self,
        thread: &ThreadId,
        by: &Answerer,
        terminal: Terminal,
        login: Option<&NextLogin>,
        _lease: &dyn Lease,
    ) -> Result<(Accepted, Option<AskedQuestion>), AcceptError> {
        loop {
            let view = self.view(thread).await.map_err(AcceptError::Carry)?;
            let mut what = steps(&view.thread, Some(by));
            after(&view.thread, what.clone()).map_err(|why| not_now(thread, why))?;
            self.see_entitled(&view, by)?;
            let before = self.taken_over_from(&view).await?;
            let dispatch_id = DispatchId::from_entropy(self.world().random());
            let continuation = Continuation::TakenOver { by: by.clone() };
            let job = before.next(dispatch_id.clone(), continuation, Attendance::Watched);
            let job = job.logging_in(login);
            what.push(event(&job));
            let claim = self.claim_for(&job);
            let papers = [Paper::Job(Box::new(job))].into_iter().chain(claim).collect();
            match self.append(&view, what, papers).await {
                Ok(()) => {
                    self.terminals().insert(dispatch_id.clone(), terminal);
                    let accepted = Accepted { dispatch_id, thread_id: thread.clone(), novelty: Novelty::New };
                    return Ok((accepted, open(&view.thread).cloned()));
                }
                // Somebody was faster: what is there now decides again.
                Err(LedgerError::Moved { .. }) => {}
                Err(LedgerError::Illegal(why)) => return Err(not_now(thread, why)),
                Err(error) => return Err(AcceptError::Carry(CarryError::Ledger(error))),
            }
        }
    }

    /// Sees that somebody may end the question that is open.
    fn see_entitled(&self, view: &ThreadView, by: &Answerer) -> Result<(), AcceptError> {
        let Some(asked) = open(&view.thread) else { return Ok(()) };
        let thread = (&view.thread_id, &view.thread);
        entitled(thread, (&asked.question, &asked.terms), by, self.world().agents).map_err(|why| {
            let (thread, by) = (view.thread_id.clone(), Box::new(by.clone()));
            AcceptError::NotEntitled { thread, by, why }
        })
    }

    async fn taken_over_from(&self, view: &ThreadView) -> Result<Job, AcceptError> {
        let Some((last, _)) = view.thread.dispatches().last() else {
            return Err(not_now(&view.thread_id, Illegal::NoThread));
        };
        Ok(self.papers(last).await.map_err(AcceptError::Carry)?.job)
    }

    /// Tells whether a thread left a conversation that can go on.
    pub(crate) async fn has_conversation(&self, thread: &ThreadId) -> Result<bool, CarryError> {
        let view = self.view(thread).await?;
        let Some((last, _)) = view.thread.dispatches().last() else { return Ok(false) };
        let job = self.papers(last).await?.job;
        Ok(self.prior(&view, &job).await?.session.is_some())
    }

    /// Tells whether a dispatch wants a terminal that is not here. Whoever has the thread's lease then knows that it is gone.
    pub(super) fn lacks_terminal(&self, job: &Job) -> bool {
        job.person().is_some() && !self.terminals().contains_key(&job.dispatch_id)
    }
}

/// Says that nobody sits at the terminal any more.
pub(super) fn terminal_gone(job: &Job) -> Failure {
    let detail = "a person took the thread over, and their terminal was gone before a worker had it";
    let thread = &job.thread_id;
    let hint =
        format!("`agora takeover {thread}` tries again, `agora continue {thread}` goes on without a person");
    Failure { hint: Some(hint), ..Failure::new(FailureCode::WorkerNotStarted, detail) }
}

/// Returns what happens to a thread that is taken over, before its next dispatch.
fn steps(thread: &Thread, by: Option<&Answerer>) -> Vec<Happening> {
    let closed = open(thread).map(|asked| {
        let (question_id, by) = (asked.id.clone(), by.cloned());
        Record::QuestionCancelled { question_id, by }.into()
    });
    closed.into_iter().chain([Record::ThreadContinued { by: by.cloned() }.into()]).collect()
}

fn open(thread: &Thread) -> Option<&AskedQuestion> {
    thread.questions().iter().find(|asked| asked.state == QuestionState::Open)
}

fn after(thread: &Thread, what: Vec<Happening>) -> Result<(), Illegal> {
    what.iter().try_fold(thread.clone(), |thread, what| thread.after(what)).map(drop)
}

fn not_now(thread: &ThreadId, why: Illegal) -> AcceptError {
    AcceptError::NotNow { thread: thread.clone(), why }
}
