//! What every command does first: take in what has ended, turn timers that are due, and see what nobody carries.

use std::collections::BTreeSet;

use agora_core::ThreadId;
use agora_core::job::{Attendance, retry_at};
use agora_core::provider::compute::WorkerLife;
use agora_core::provider::lease::Lease;
use agora_core::provider::ledger::{DispatchView, LedgerError, ThreadView};

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
                Err(error) if concerns_all(&error) => return Err(error),
                Err(error) => found.stuck.push((thread, chain(&error))),
            }
        }
        for thread in ledger.due(self.world().clock.now()).await.map_err(CarryError::Ledger)? {
            match self.move_on(&thread).await {
                Ok(Found::Orphan) => found.orphans.push(thread),
                Ok(Found::InOrder | Found::Settled) => {}
                Err(error) if concerns_all(&error) => return Err(error),
                Err(error) => found.stuck.push((thread, chain(&error))),
            }
        }
        Ok(found)
    }

    /// Moves a thread on that is due: by its question's timers, or because a provider's limit is over.
    async fn move_on(&self, thread: &ThreadId) -> Result<Found, CarryError> {
        if self.view(thread).await?.thread.open().is_some() {
            self.turn(thread).await?;
            let moved = self.view(thread).await?.thread;
            return Ok(if moved.wants_carrier() { Found::Orphan } else { Found::InOrder });
        }
        match self.go_on(thread, None, None, Attendance::Retried).await {
            Ok(_) => Ok(Found::Orphan),
            Err(AcceptError::Carry(error)) => Err(error),
            // Somebody else turned the timer, or its owner was faster.
            Err(
                AcceptError::NotNow { .. }
                | AcceptError::KeyReused(_)
                | AcceptError::DispatchTaken(_)
                | AcceptError::NotAllowed(_)
                | AcceptError::Held(_)
                | AcceptError::NoTerminal(_)
                | AcceptError::NotEntitled { .. },
            ) => Ok(Found::InOrder),
        }
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
            return self.look_after_rest(&view).await;
        };
        let dispatch = self.papers(live).await?;
        if !self.is_at_its_end(&view, &dispatch).await? {
            return Ok(Found::Orphan);
        }
        self.carry(thread, &*lease).await?;
        Ok(Found::Settled)
    }

    /// Looks at a thread of which nothing runs: somebody who died on the way may have left something to do.
    async fn look_after_rest(&self, view: &ThreadView) -> Result<Found, CarryError> {
        if view.thread.command_to_ask().is_some() {
            return Ok(Found::Orphan);
        }
        if view.thread.is_to_be_closed() {
            self.close(&view.thread_id).await?;
            return Ok(Found::Settled);
        }
        if view.thread.has_ended() {
            // What was staged to go on with it, or was left of it.
            self.clear_ended(view).await?;
        }
        Ok(Found::InOrder)
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
                () = self.world().alarm.at(moment) => match self.go_on(thread, None, None, Attendance::Retried).await {
                    Ok(_) | Err(AcceptError::NotNow { .. }) => {}
                    Err(AcceptError::Carry(error)) => return Err(error),
                    Err(
                        AcceptError::KeyReused(_)
                        | AcceptError::DispatchTaken(_)
                        | AcceptError::NotAllowed(_)
                        | AcceptError::Held(_)
                        | AcceptError::NoTerminal(_)
                | AcceptError::NotEntitled { .. },
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
            return Ok(view.cancel_wish.is_some() || self.lacks_terminal(job));
        }
        Ok(match target.compute.look(&job.dispatch_id).await.map_err(CarryError::Compute)? {
            WorkerLife::Ended | WorkerLife::OutOfMemory => true,
            WorkerLife::Never => view.cancel_wish.is_some() || self.lacks_terminal(job),
            WorkerLife::Running => false,
        })
    }
}

/// Tells whether nothing else can be looked after either.
fn concerns_all(error: &CarryError) -> bool {
    matches!(error, CarryError::Ledger(LedgerError::Unavailable(_) | LedgerError::Damaged(_)))
}
