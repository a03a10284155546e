//! A dispatch that was claimed: what its worker does, what it says, and what somebody wishes meanwhile.

use std::pin::pin;
use std::time::Duration;

use agora_core::DispatchId;
use agora_core::event::Event;
use agora_core::provider::compute::{ComputeError, WorkerLife};
use agora_core::provider::ledger::{Append, DispatchView, LedgerError, ThreadView};
use agora_core::provider::{Outage, Unavailable};
use agora_core::reason::{Failure, FailureCode};
use agora_core::state::DispatchState;
use agora_core::wire::line::{Line, Said};

use super::takeover::terminal_gone;
use super::{CarryError, Engine, Tries, no_target};
use crate::world::Target;

/// What a worker gets to end an agent (10 s), and to put its work away, before it is killed.
const GRACE: Duration = Duration::from_secs(120);
/// How much of a worker's complaint is read.
const WORDS: u64 = 4096;

impl Engine {
    /// Looks at what is there of a dispatch that was claimed, and does the next thing.
    pub(super) async fn attend(
        &self,
        view: &ThreadView,
        dispatch: &DispatchView,
        tries: &mut Tries,
    ) -> Result<(), CarryError> {
        let job = &dispatch.job;
        if let Some(text) = self.stored(dispatch).await? {
            return self.take_in(view, dispatch, &text).await;
        }
        let Some(target) = self.target(&job.target) else {
            return self.fail(view, dispatch, no_target(&job.target)).await;
        };
        match look(target, &job.dispatch_id).await? {
            WorkerLife::Never => self.start_again(view, dispatch, target, tries).await,
            WorkerLife::Running => self.follow(view, dispatch, target).await,
            life @ (WorkerLife::Ended | WorkerLife::OutOfMemory) => {
                // It may have been stored between the two looks.
                match self.stored(dispatch).await? {
                    Some(text) => self.take_in(view, dispatch, &text).await,
                    None if view.cancel_wish.is_some() => self.end_cancelled(view, dispatch).await,
                    None => self.fail(view, dispatch, died(life)).await,
                }
            }
        }
    }

    async fn stored(&self, dispatch: &DispatchView) -> Result<Option<String>, CarryError> {
        self.world.shelf.outcome(&dispatch.job.dispatch_id).await.map_err(CarryError::Shelf)
    }

    /// Somebody claimed the dispatch and died before there was a worker. Nothing has happened yet.
    async fn start_again(
        &self,
        view: &ThreadView,
        dispatch: &DispatchView,
        target: &Target,
        tries: &mut Tries,
    ) -> Result<(), CarryError> {
        let (job, Some(seen)) = (&dispatch.job, &dispatch.claim) else { return Ok(()) };
        if view.cancel_wish.is_some() {
            return self.end_cancelled(view, dispatch).await;
        }
        if *tries != Tries::Used && self.lacks_terminal(job) {
            return self.fail(view, dispatch, terminal_gone(job)).await;
        }
        if *tries == Tries::Used {
            return self.fail(view, dispatch, self.refused(dispatch).await?).await;
        }
        let ours = match tries {
            Tries::Claimed => Ok(true),
            Tries::Left | Tries::Used => {
                self.world.ledger.reclaim(&job.dispatch_id, seen, self.world.mark()).await
            }
        };
        if ours.map_err(CarryError::Ledger)? {
            self.launch(view, dispatch, target, tries).await
        } else {
            Ok(())
        }
    }

    /// Says why a worker ended before it began, in its own words.
    async fn refused(&self, dispatch: &DispatchView) -> Result<Failure, CarryError> {
        let read = self.world.shelf.read(&dispatch.job.dispatch_id, "worker.stderr", 0, WORDS).await;
        let words = read.map_err(CarryError::Shelf)?.unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        let last = words.lines().last().unwrap_or("it said nothing");
        Ok(Failure::new(FailureCode::WorkerNotStarted, format!("its worker ended before it began: {last}")))
    }

    /// Follows a worker that runs: to its end, to a cancel, or to the moment when it should long have ended.
    async fn follow(
        &self,
        view: &ThreadView,
        dispatch: &DispatchView,
        target: &Target,
    ) -> Result<(), CarryError> {
        let (job, world) = (&dispatch.job, self.world());
        let mut watch = world.ledger.watch().map_err(CarryError::Ledger)?;
        let mut ended = pin!(target.compute.wait(&job.dispatch_id));
        let limit = u64::from(job.seconds()) + u64::from(job.overtime_seconds);
        let since = dispatch.claim.as_ref().map_or(dispatch.accepted_at, |claim| claim.at);
        let hangs_at = since.plus(Duration::from_secs(limit));
        let mut heard = Heard { started: dispatch.state == DispatchState::Running, bytes: 0 };
        loop {
            if world.ledger.wished().await.map_err(CarryError::Ledger)?.contains(&job.thread_id) {
                return target.compute.stop(&job.dispatch_id, GRACE).await.map_err(CarryError::Compute);
            }
            if world.clock.now() >= hangs_at {
                target.compute.stop(&job.dispatch_id, GRACE).await.map_err(CarryError::Compute)?;
                let detail = format!("its worker did not end within {limit} seconds");
                return self.fail(view, dispatch, Failure::new(FailureCode::TimeLimit, detail)).await;
            }
            if !heard.started {
                self.hear(view, dispatch, &mut heard).await?;
            }
            tokio::select! {
                biased;
                life = &mut ended => return life.map(drop).map_err(CarryError::Compute),
                more = world.shelf.more_lines(&job.dispatch_id, heard.bytes), if !heard.started => {
                    more.map_err(CarryError::Shelf)?;
                }
                changed = watch.next() => changed.map_err(CarryError::Ledger)?,
                () = world.alarm.at(hangs_at) => {}
            }
        }
    }

    /// Hears the worker say that it started, and records it.
    async fn hear(
        &self,
        view: &ThreadView,
        dispatch: &DispatchView,
        heard: &mut Heard,
    ) -> Result<(), CarryError> {
        let id = &dispatch.job.dispatch_id;
        let lines = self.world.shelf.lines(id, heard.bytes).await.map_err(CarryError::Shelf)?;
        heard.bytes += lines.len() as u64;
        let key = self.world.keys.event_key(id);
        let started = Said::Event(Event::Started { dispatch_id: id.clone() });
        let says_so = |line: &str| Line::parse(line, &key).is_ok_and(|line| line.said == started);
        if !lines.lines().any(says_so) {
            return Ok(());
        }
        heard.started = true;
        let append = Append {
            namespace: view.namespace.clone(),
            thread_id: view.thread_id.clone(),
            seen: view.seen,
            what: vec![Event::Started { dispatch_id: id.clone() }.into()],
            papers: Vec::new(),
        };
        match self.world.ledger.append(append).await {
            // Somebody else recorded it, or the end: the next look tells.
            Ok(_) | Err(LedgerError::Moved { .. } | LedgerError::Illegal(_)) => Ok(()),
            // It may be the agent that fills the disk. Whoever does is ended by its worker, which puts the work away; then there is
            // room for the end, and the start is recorded with it.
            Err(LedgerError::Unavailable(Unavailable { outage: Outage::Full, .. })) => Ok(()),
            Err(error) => Err(CarryError::Ledger(error)),
        }
    }
}

/// Looks at a worker, also when the place where it runs is away for a moment.
pub(super) async fn look(target: &Target, dispatch: &DispatchId) -> Result<WorkerLife, CarryError> {
    let looked = match target.compute.look(dispatch).await {
        Err(ComputeError::Unreachable(_)) => {
            target.compute.reach().await.map_err(CarryError::Compute)?;
            target.compute.look(dispatch).await
        }
        looked => looked,
    };
    looked.map_err(CarryError::Compute)
}

/// How much of a worker's lines were read.
struct Heard {
    started: bool,
    bytes: u64,
}

/// What became of a dispatch whose worker is dead and stored no outcome.
fn died(life: WorkerLife) -> Failure {
    match life {
        WorkerLife::OutOfMemory => {
            Failure::new(FailureCode::OutOfMemory, "the machine ended the worker for its memory")
        }
        WorkerLife::Never | WorkerLife::Running | WorkerLife::Ended => {
            Failure::new(FailureCode::WorkerLost, "its worker ended without saying how it went")
        }
    }
}
