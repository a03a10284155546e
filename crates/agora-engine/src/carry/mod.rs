//! Carrying: whoever has a thread's lease moves it on until it rests.
//!
//! ```text
//!  accepted ─▶ queue: room? ─▶ claim ─▶ launch: manifest, secrets, worker ─▶ follow: lines, life, wishes
//!                                                                              │
//!             rest: finished, failed, cancelled, a question open ◀─ record ◀─ end: the stored outcome, or ours
//! ```
//!
//! There is no other path for recovery: a carrier looks at what is recorded and at what is there, does the next thing, and looks
//! again. So it makes no difference whether it is the first to carry a thread or takes over after a crash.

pub(crate) mod accept;
mod cancel;
mod discard;
mod end;
mod follow;
pub(crate) mod launch;
pub(crate) mod queue;
pub(crate) mod recover;
pub(crate) mod sweep;
mod takeover;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agora_core::canonical::CanonicalError;
use agora_core::provider::Unavailable;
use agora_core::provider::compute::{ComputeError, Terminal};
use agora_core::provider::lease::Lease;
use agora_core::provider::ledger::{Claim, DispatchView, LedgerError, ThreadView};
use agora_core::provider::secret::SecretError;
use agora_core::reason::{Failure, FailureCode};
use agora_core::state::Thread;
use agora_core::{DispatchId, Name, ThreadId};

use crate::sabotage::{self, Bug};
use crate::world::{Target, World};

/// Why a thread could not be moved on. Nothing is lost: it stands where it stood, for the next carrier.
#[derive(Debug, thiserror::Error)]
pub enum CarryError {
    #[error(transparent)]
    Ledger(LedgerError),
    #[error(transparent)]
    Compute(ComputeError),
    #[error("the files of the dispatch cannot be used")]
    Shelf(#[source] Unavailable),
    #[error("the thread's lease cannot be taken")]
    Lease(#[source] Unavailable),
    #[error("a secret that was staged for the thread cannot be taken away")]
    Secret(#[source] SecretError),
    #[error("there is no thread `{0}`")]
    UnknownThread(ThreadId),
    #[error("the papers of the dispatch `{0}` are not in the ledger")]
    NoPapers(DispatchId),
    #[error("the answer has no canonical form")]
    Unsigned(#[source] CanonicalError),
}

/// Moves threads on.
#[derive(Clone, Debug)]
pub struct Engine {
    world: Arc<World>,
    /// The threads that are being carried by this very engine.
    carrying: Arc<Mutex<BTreeSet<ThreadId>>>,
    /// Terminals of people who took a thread over, until their workers have them.
    terminals: Arc<Mutex<BTreeMap<DispatchId, Terminal>>>,
}

/// A thread that is being carried, until this is dropped.
struct Carrying<'a>(&'a Engine, &'a ThreadId);

impl Drop for Carrying<'_> {
    fn drop(&mut self) {
        self.0.carrying().remove(self.1);
    }
}

impl Engine {
    pub fn new(world: World) -> Self {
        Self { world: Arc::new(world), carrying: Arc::default(), terminals: Arc::default() }
    }

    fn terminals(&self) -> MutexGuard<'_, BTreeMap<DispatchId, Terminal>> {
        self.terminals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carrying(&self) -> MutexGuard<'_, BTreeSet<ThreadId>> {
        self.carrying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_carrying(&self, thread: &ThreadId) -> bool {
        self.carrying().contains(thread)
    }

    pub fn world(&self) -> &World {
        &self.world
    }

    /// Moves a thread on until it rests. Whoever has its lease may call it.
    pub async fn carry(&self, thread: &ThreadId, lease: &dyn Lease) -> Result<ThreadView, CarryError> {
        self.carry_from(thread, lease, Tries::Left).await
    }

    /// Moves a thread on whose first dispatch was accepted with [`Engine::accept_with_room`], with the same lease.
    pub async fn carry_accepted(
        &self,
        thread: &ThreadId,
        lease: &dyn Lease,
    ) -> Result<ThreadView, CarryError> {
        self.carry_from(thread, lease, Tries::Claimed).await
    }

    async fn carry_from(
        &self,
        thread: &ThreadId,
        lease: &dyn Lease,
        mut tries: Tries,
    ) -> Result<ThreadView, CarryError> {
        self.carrying().insert(thread.clone());
        let _carrying = Carrying(self, thread);
        loop {
            let view = self.view(thread).await?;
            let Some(live) = live_dispatch(&view.thread) else {
                if view.thread.command_to_ask().is_none() {
                    return Ok(view);
                }
                self.ask_command(&view, lease).await?;
                tries = Tries::Left;
                continue;
            };
            let dispatch = self.papers(live).await?;
            if dispatch.claim.is_none() {
                self.wait_for_room(&view, &dispatch, &mut tries).await?;
            } else {
                self.attend(&view, &dispatch, &mut tries).await?;
            }
        }
    }

    /// Carries a thread beside what the caller does, unless somebody carries it already.
    pub fn carry_aside<'a>(&'a self, thread: &'a ThreadId) -> CarryingAside<'a> {
        // Boxed, because a carrier that waits may start another: else the type of one would hold the other's.
        Box::pin(async move {
            let lease = self.world.leases.try_take(thread).await.map_err(CarryError::Lease)?;
            let lease = match lease {
                Some(lease) => lease,
                None if sabotage::is(Bug::NoLeaseCheck) => Box::new(sabotage::NoLease),
                None => return Ok(Carried::ByAnother),
            };
            let (engine, thread) = (self.clone(), thread.clone());
            self.world.tasks.start(Box::pin(async move {
                // What went wrong is found again by whoever looks at the thread next; here nobody is there to be told.
                let _ = engine.carry(&thread, &*lease).await;
            }));
            Ok(Carried::ByUs)
        })
    }

    pub(crate) async fn view(&self, thread: &ThreadId) -> Result<ThreadView, CarryError> {
        let view = self.world.ledger.thread(thread).await.map_err(CarryError::Ledger)?;
        view.ok_or_else(|| CarryError::UnknownThread(thread.clone()))
    }

    pub(crate) async fn papers(&self, dispatch: &DispatchId) -> Result<DispatchView, CarryError> {
        let papers = self.world.ledger.dispatch(dispatch).await.map_err(CarryError::Ledger)?;
        papers.ok_or_else(|| CarryError::NoPapers(dispatch.clone()))
    }

    /// Waits until the dispatch may start, or need not any more. Cancel and time limit hold while it waits.
    async fn wait_for_room(
        &self,
        view: &ThreadView,
        dispatch: &DispatchView,
        tries: &mut Tries,
    ) -> Result<(), CarryError> {
        let job = &dispatch.job;
        if view.cancel_wish.is_some() && !sabotage::is(Bug::LosesWish) {
            return self.end_cancelled(view, dispatch).await;
        }
        if self.lacks_terminal(job) {
            return self.fail(view, dispatch, takeover::terminal_gone(job)).await;
        }
        let seconds = job.limits.timeout_seconds;
        let deadline = dispatch.accepted_at.plus(std::time::Duration::from_secs(u64::from(seconds)));
        if self.world.clock.now() >= deadline {
            let detail =
                format!("it waited {seconds} seconds for room at `{}`, and never started", job.target);
            return self.fail(view, dispatch, Failure::new(FailureCode::TimeLimit, detail)).await;
        }
        let Some(target) = self.world.targets.get(&job.target) else {
            return self.fail(view, dispatch, no_target(&job.target)).await;
        };
        let most = if sabotage::is(Bug::NoRoomCheck) { u32::MAX } else { target.max_concurrent };
        let claim = self.world.ledger.claim(&job.dispatch_id, self.world.mark(), most);
        match claim.await.map_err(CarryError::Ledger)? {
            Claim::Granted => self.launch(view, dispatch, target, tries).await,
            Claim::Waits { .. } => queue::wait(self, target, job, deadline).await,
            Claim::Earlier(_) | Claim::Over => Ok(()),
        }
    }

    pub(crate) fn target(&self, name: &Name) -> Option<&Target> {
        self.world.targets.get(name)
    }
}

/// Whether a carrier has started a worker for the thread's dispatch. One that never came to run is not started again by the same:
/// what kept it would keep it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tries {
    Left,
    /// And the claim, if there is one, was made by the same carrier: nobody can have started anything.
    Claimed,
    Used,
}

/// Finds out who carries a thread.
pub type CarryingAside<'a> = Pin<Box<dyn Future<Output = Result<Carried, CarryError>> + Send + 'a>>;

/// Who carries a thread that somebody should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    ByUs,
    ByAnother,
}

/// Returns the dispatch that may have a worker: a thread has at most one.
pub(crate) fn live_dispatch(thread: &Thread) -> Option<&DispatchId> {
    thread.dispatches().iter().find(|(_, state)| state.is_live()).map(|(id, _)| id)
}

fn no_target(name: &Name) -> Failure {
    let failure = Failure::new(
        FailureCode::ComputeUnreachable,
        format!("there is no target `{name}` in the configuration any more"),
    );
    Failure { hint: Some(format!("define `[target.{name}]` in `agora.toml` again")), ..failure }
}
