//! Sweeping: what nobody may want any more is taken away. Never anything of a thread that is open.

use std::time::Duration;

use agora_core::provider::ledger::{DispatchView, LedgerError};
use agora_core::provider::shelf::Clearing;
use agora_core::state::DispatchState;
use agora_core::{DispatchId, ThreadId};

use super::{CarryError, Engine, end};
use crate::sabotage::{self, Bug};

/// How many threads are forgotten in one go: a sweep that is interrupted has done something.
const AT_ONCE: usize = 256;

/// Whether things are taken away, or only named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    Really,
    /// Says what would be done.
    DryRun,
}

/// What was taken away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Ended threads whose retention is over, with everything of theirs.
    pub threads: Vec<ThreadId>,
    /// Directories of dispatches that no ledger knows.
    pub strays: Vec<DispatchId>,
    /// Ended dispatches whose sealed workspace and conversation went, to make room. They can be continued without.
    pub snapshots: Vec<DispatchId>,
    /// Dispatches that have ended, or that no ledger knows, and of which something was left where workers run.
    pub leftovers: Vec<DispatchId>,
    /// Cached copies that no thread stands on, and that are not the newest of what they were made from.
    pub bases: u64,
    /// What the places of all dispatches, and what they work on, took before, in bytes.
    pub bytes_before: u64,
    pub bytes_after: u64,
}

impl Engine {
    /// Sweeps, so that all places together take at most so much where that can be.
    pub async fn sweep(&self, mode: Sweep, most_bytes: Option<u64>) -> Result<Swept, CarryError> {
        let mut swept = Swept::default();
        self.forget_expired(mode, &mut swept).await?;
        // With how much of it is snapshots.
        let mut ended: Vec<(DispatchView, u64)> = Vec::new();
        for id in self.world().shelf.list().await.map_err(CarryError::Shelf)? {
            let size = self.size(&id, Clearing::Everything).await?;
            swept.bytes_before += size;
            match self.world().ledger.dispatch(&id).await {
                Err(error) => {
                    leave_alone(error)?;
                    swept.bytes_after += size;
                }
                Ok(None) => {
                    self.clear(mode, &id, Clearing::Everything).await?;
                    swept.strays.push(id);
                }
                Ok(Some(view)) if swept.threads.contains(&view.job.thread_id) => {}
                Ok(Some(view)) => {
                    swept.bytes_after += size;
                    if view.state.is_live() {
                        continue;
                    }
                    let passing = self.size(&id, Clearing::Workspace).await?;
                    let snapshots = self.size(&id, Clearing::Snapshots).await?.saturating_sub(passing);
                    let closed = self.is_closed(&view.job.thread_id).await?;
                    if closed || self.was_cleared(&view) {
                        // Whoever recorded its end did this, unless one who came too late staged it again.
                        self.clear(mode, &id, Clearing::Workspace).await?;
                        swept.bytes_after = swept.bytes_after.saturating_sub(passing);
                    }
                    if closed {
                        ended.push((view, snapshots));
                    }
                }
            }
        }
        self.sweep_grounds(mode, &mut swept).await?;
        self.make_room(mode, most_bytes.unwrap_or(u64::MAX), ended, &mut swept).await?;
        self.stop_leftovers(mode, &mut swept).await?;
        Ok(swept)
    }

    /// Stops what is left of dispatches that nobody carries any more: an engine died between its end and its container's.
    async fn stop_leftovers(&self, mode: Sweep, swept: &mut Swept) -> Result<(), CarryError> {
        for target in self.world().targets.values() {
            // One that cannot be asked now is swept another time; what is here has nothing to do with it.
            for id in target.compute.leftovers().await.unwrap_or_default() {
                let may_run = match self.world().ledger.dispatch(&id).await {
                    Ok(known) => known.is_some_and(|view| view.state.is_live()),
                    Err(error) => leave_alone(error).map(|()| true)?,
                };
                if may_run || swept.leftovers.contains(&id) {
                    continue;
                }
                if mode == Sweep::Really {
                    target.compute.stop(&id, Duration::ZERO).await.map_err(CarryError::Compute)?;
                }
                swept.leftovers.push(id);
            }
        }
        Ok(())
    }

    /// Takes away what threads worked on that nobody knows any more, and cached copies that no thread needs.
    async fn sweep_grounds(&self, mode: Sweep, swept: &mut Swept) -> Result<(), CarryError> {
        let grounds = &self.world().grounds;
        let mut unknown = Vec::new();
        for thread in grounds.list().await.map_err(CarryError::Shelf)? {
            match self.world().ledger.thread(&thread).await {
                Ok(None) => unknown.push(thread),
                Ok(Some(_)) => {}
                Err(error) => leave_alone(error)?,
            }
        }
        let done = grounds.sweep(&unknown, mode == Sweep::Really).await.map_err(CarryError::Shelf)?;
        swept.bases = done.bases;
        swept.bytes_before += done.bytes_before;
        swept.bytes_after += done.bytes_after;
        Ok(())
    }

    /// Tells whether what only the run needed went with the end of a dispatch, also if its thread has gone on since.
    fn was_cleared(&self, ended: &DispatchView) -> bool {
        let (id, job) = (&ended.job.dispatch_id, &ended.job);
        let report = ended.report.as_ref().and_then(|text| self.read_report(id, text));
        let closed = match &ended.state {
            DispatchState::Finished | DispatchState::Cancelled => true,
            DispatchState::Failed(failure) => end::rests(failure, job),
            DispatchState::NeedsInput | DispatchState::Accepted | DispatchState::Running => false,
        };
        closed || report.is_some_and(|report| report.workspace_saved)
    }

    async fn is_closed(&self, thread: &ThreadId) -> Result<bool, CarryError> {
        let view = self.world().ledger.thread(thread).await.map_err(CarryError::Ledger)?;
        Ok(view.is_some_and(|view| view.thread.has_ended()) || sabotage::is(Bug::SweepsOpen))
    }

    async fn forget_expired(&self, mode: Sweep, swept: &mut Swept) -> Result<(), CarryError> {
        let (ledger, now) = (&self.world().ledger, self.world().clock.now());
        loop {
            let most = if mode == Sweep::DryRun { usize::MAX } else { AT_ONCE };
            let expired = ledger.expired(now, most).await.map_err(CarryError::Ledger)?;
            let done = expired.len() < AT_ONCE || mode == Sweep::DryRun;
            for thread in expired {
                if mode == Sweep::DryRun || self.forget(&thread, swept).await? {
                    swept.threads.push(thread);
                }
            }
            if done {
                return Ok(());
            }
        }
    }

    /// Forgets a thread, unless somebody went on with it meanwhile. The ledger first: it alone knows. What an interrupted sweep
    /// leaves of the places is nobody's, and found as that.
    async fn forget(&self, thread: &ThreadId, swept: &mut Swept) -> Result<bool, CarryError> {
        let ledger = &self.world().ledger;
        let view = match ledger.thread(thread).await {
            Err(LedgerError::ThreadDamaged { .. }) => return self.discard(thread).await,
            view => view.map_err(CarryError::Ledger)?,
        };
        let mut jobs = Vec::new();
        for (id, _) in view.iter().flat_map(|view| view.thread.dispatches()) {
            jobs.extend(ledger.dispatch(id).await.map_err(CarryError::Ledger)?.map(|papers| papers.job));
        }
        if !ledger.forget(thread).await.map_err(CarryError::Ledger)? {
            return Ok(false);
        }
        for job in &jobs {
            swept.bytes_before += self.size(&job.dispatch_id, Clearing::Everything).await?;
        }
        self.clear_all(thread, &jobs).await?;
        Ok(true)
    }

    /// Takes the snapshots of ended threads away, those that ended first, until there is room.
    async fn make_room(
        &self,
        mode: Sweep,
        most: u64,
        mut ended: Vec<(DispatchView, u64)>,
        swept: &mut Swept,
    ) -> Result<(), CarryError> {
        ended.sort_by_key(|(view, _)| view.ended_at);
        for (view, snapshots) in ended.into_iter().filter(|(_, snapshots)| *snapshots > 0) {
            if swept.bytes_after <= most {
                return Ok(());
            }
            let lease = self.world().leases.try_take(&view.job.thread_id).await.map_err(CarryError::Lease)?;
            // Whoever goes on with the thread from here on cannot start before this is done.
            if lease.is_none() || !self.is_closed(&view.job.thread_id).await? {
                continue;
            }
            let id = view.job.dispatch_id;
            self.clear(mode, &id, Clearing::Snapshots).await?;
            swept.bytes_after = swept.bytes_after.saturating_sub(snapshots);
            swept.snapshots.push(id);
        }
        Ok(())
    }

    async fn size(&self, dispatch: &DispatchId, what: Clearing) -> Result<u64, CarryError> {
        self.world().shelf.size(dispatch, what).await.map_err(CarryError::Shelf)
    }

    async fn clear(&self, mode: Sweep, dispatch: &DispatchId, what: Clearing) -> Result<(), CarryError> {
        match mode {
            Sweep::Really => self.world().shelf.clear(dispatch, what).await.map_err(CarryError::Shelf),
            Sweep::DryRun => Ok(()),
        }
    }
}

/// Lets a sweep go past a thread that cannot be read: nobody can tell whether it is open, until its owner gives it up.
fn leave_alone(error: LedgerError) -> Result<(), CarryError> {
    match error {
        LedgerError::ThreadDamaged { .. } => Ok(()),
        error => Err(CarryError::Ledger(error)),
    }
}
