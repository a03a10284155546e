//! What every command does first: take in what has ended, turn timers that are due, and see what nobody carries.

use std::collections::BTreeSet;

use agora_core::ThreadId;
use agora_core::job::{Attendance, retry_at};
use agora_core::provider::compute::WorkerLife;
use agora_core::provider::lease::Lease;
use agora_core::provider::ledger::{DispatchView, ThreadView};

use super::accept::AcceptError;
use super::{CarryError, Engine, live_dispatch};
use crate::error::chain;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Threads whose carrier had died, and which were brought to rest.
    pub settled: Vec<ThreadId>,
    /// Threads that nobody carries, and somebody should: they wait for room, or their worker runs.
    pub orphans: Vec<ThreadId>,
    /// Threads that could not be looked after, and why. They keep nobody from the others.
    pub stuck: Vec<(ThreadId, String)>,
}

/// What a look at one thread found.
enum Found {
    /// Somebody carries it, or it rests.
    InOrder,
    Settled,
    Orphan,
}

impl Engine {
    /// Brings ledger and world into agreement as far as that takes no waiting, and names what needs a carrier.
    pub async fn recover(&self) -> Result<Recovered, CarryError> {
        let mut found = Recovered::default();
        let ledger = &self.world().ledger;
        let mut threads: BTreeSet<ThreadId> =
            ledger.carried().await.map_err(CarryError::Ledger)?.into_iter().collect();
        // Also of those whose end is recorded, or whose beginning never was: a lease that nobody has is given back.
        threads.extend(self.world().leases.list().await.map_err(CarryError::Lease)?);
        for thread in threads {
            match self.look_after(&thread).await {
                Ok(Found::InOrder) => {}
                Ok(Found::Settled) => found.settled.push(thread),
                Ok(Found::Orphan) => found.orphans.push(thread),
                Err(error @ CarryError::Ledger(_)) => return Err(error),
                Err(error) => found.stuck.push((thread, chain(&error))),
            }
        }
        for thread in ledger.due(self.world().clock.now()).await.map_err(CarryError::Ledger)? {
            match self.go_on(&thread, None, Attendance::Retried).await {
                Ok(_) => found.orphans.push(thread),
                // Somebody else turned the timer, or its owner was faster.
                Err(AcceptError::NotNow { .. }) => {}
                Err(AcceptError::Carry(error)) => return Err(error),
                Err(
                    AcceptError::KeyReused(_)
                    | AcceptError::DispatchTaken(_)
                    | AcceptError::Held(_)
                    | AcceptError::NoTerminal(_),
                ) => {}
            }
        }
        Ok(found)
    }

    /// Looks at a thread that somebody should carry, or whose lease was not given back.
    async fn look_after(&self, thread: &ThreadId) -> Result<Found, CarryError> {
        let lease = self.world().leases.try_take(thread).await.map_err(CarryError::Lease)?;
        let Some(lease) = lease else { return Ok(Found::InOrder) };
        let view = self.world().ledger.thread(thread).await.map_err(CarryError::Ledger)?;
        let Some(view) = view else {
            self.world().vault.forget_stray(thread).await.map_err(CarryError::Secret)?;
            return Ok(Found::InOrder);
        };
        let Some(live) = live_dispatch(&view.thread) else {
            self.unstage_ended(&view).await?;
            return Ok(Found::InOrder);
        };
        let dispatch = self.papers(live).await?;
        if !self.is_at_its_end(&view, &dispatch).await? {
            return Ok(Found::Orphan);
        }
        self.carry(thread, &*lease).await?;
        Ok(Found::Settled)
    }

    /// Takes away what was staged to go on with a thread that had ended, or was left of it, by somebody who died on the way.
    async fn unstage_ended(&self, view: &ThreadView) -> Result<(), CarryError> {
        if view.thread.has_ended() { self.clear_ended(view).await } else { Ok(()) }
    }

    /// Carries a thread until it rests, and goes on with it when a provider's limit is over and nobody else decides.
    pub async fn carry_on(&self, thread: &ThreadId, lease: &dyn Lease) -> Result<ThreadView, CarryError> {
        loop {
            let view = self.carry(thread, lease).await?;
            let Some((last, _)) = view.thread.dispatches().last() else { return Ok(view) };
            let Some(moment) = retry_at(&view.thread, &self.papers(last).await?.job) else { return Ok(view) };
            let mut watch = self.world().ledger.watch().map_err(CarryError::Ledger)?;
            tokio::select! {
                biased;
                // Somebody may have ended it, or gone on with it, meanwhile.
                heard = watch.next() => heard.map_err(CarryError::Ledger)?,
                () = self.world().alarm.at(moment) => match self.go_on(thread, None, Attendance::Retried).await {
                    Ok(_) | Err(AcceptError::NotNow { .. }) => {}
                    Err(AcceptError::Carry(error)) => return Err(error),
                    Err(
                        AcceptError::KeyReused(_)
                        | AcceptError::DispatchTaken(_)
                        | AcceptError::Held(_)
                        | AcceptError::NoTerminal(_),
                    ) => return Ok(view),
                },
            }
        }
    }

    /// Tells whether a dispatch only has to be recorded: nobody would have to wait for anything.
    async fn is_at_its_end(&self, view: &ThreadView, dispatch: &DispatchView) -> Result<bool, CarryError> {
        let job = &dispatch.job;
        let Some(target) = self.target(&job.target) else { return Ok(true) };
        if dispatch.claim.is_none() {
            return Ok(view.cancel_wished_at.is_some() || self.lacks_terminal(job));
        }
        Ok(match target.compute.look(&job.dispatch_id).await.map_err(CarryError::Compute)? {
            WorkerLife::Ended | WorkerLife::OutOfMemory => true,
            WorkerLife::Never => view.cancel_wished_at.is_some() || self.lacks_terminal(job),
            WorkerLife::Running => false,
        })
    }
}
