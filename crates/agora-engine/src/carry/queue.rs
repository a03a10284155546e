//! Waiting for room. However many wait in this process, one of them listens to the ledger, and wakes who may go.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use agora_core::job::Job;
use agora_core::provider::Unavailable;
use agora_core::{DispatchId, ThreadId, Timestamp};
use tokio::sync::Notify;

use super::{Carried, CarryError, Engine};
use crate::world::Target;

/// Who waits at a target, in this process.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Whoever has it listens for all.
    door: tokio::sync::Mutex<()>,
    waiting: Mutex<BTreeMap<DispatchId, (ThreadId, Arc<Notify>)>>,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<DispatchId, (ThreadId, Arc<Notify>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter<'a>(&'a self, job: &'a Job) -> (Place<'a>, Arc<Notify>) {
        let bell = Arc::new(Notify::new());
        self.waiting().insert(job.dispatch_id.clone(), (job.thread_id.clone(), Arc::clone(&bell)));
        (Place { queue: self, dispatch: &job.dispatch_id }, bell)
    }

    /// Wakes those whose turn it is, and those who are not wanted any more. Returns whose turn it is and who waits elsewhere.
    fn wake(&self, turn: Vec<DispatchId>, wished: &[ThreadId]) -> Vec<DispatchId> {
        let waiting = self.waiting();
        for (thread, bell) in waiting.values() {
            if wished.contains(thread) {
                bell.notify_one();
            }
        }
        let (here, elsewhere): (Vec<_>, Vec<_>) = turn.into_iter().partition(|id| waiting.contains_key(id));
        here.iter().filter_map(|id| waiting.get(id)).for_each(|(_, bell)| bell.notify_one());
        elsewhere
    }
}

/// A place in the queue, given up when it is dropped.
struct Place<'a> {
    queue: &'a Queue,
    dispatch: &'a DispatchId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.queue.waiting().remove(self.dispatch);
    }
}

/// Returns when it is worth asking for room again.
pub(super) async fn wait(
    engine: &Engine,
    target: &Target,
    job: &Job,
    deadline: Timestamp,
) -> Result<(), CarryError> {
    let queue = &target.queue;
    let (_place, bell) = queue.enter(job);
    tokio::select! {
        biased;
        () = bell.notified() => Ok(()),
        () = engine.world().alarm.at(deadline) => Ok(()),
        _door = queue.door.lock() => listen(engine, target, job, deadline, &bell).await,
    }
}

/// Listens to the ledger for everybody who waits here, until the listener itself is to go. Those before us whose carrier is gone
/// are carried here: else we would wait for ever, behind somebody who never goes or for room that nobody gives back.
async fn listen(
    engine: &Engine,
    target: &Target,
    job: &Job,
    deadline: Timestamp,
    bell: &Notify,
) -> Result<(), CarryError> {
    let ledger = &engine.world().ledger;
    let mut watch = ledger.watch().map_err(CarryError::Ledger)?;
    let mut carriers = Carriers::default();
    loop {
        let turn = ledger.head(&job.target, target.max_concurrent).await.map_err(CarryError::Ledger)?;
        let wished = ledger.wished().await.map_err(CarryError::Ledger)?;
        let mut before_us = ledger.underway(&job.target).await.map_err(CarryError::Ledger)?;
        for stranger in target.queue.wake(turn, &wished) {
            before_us.push(engine.papers(&stranger).await?.job.thread_id);
        }
        let mut others = Vec::new();
        for thread in before_us.into_iter().filter(|thread| !engine.is_carrying(thread)) {
            if engine.carry_aside(&thread).await? == Carried::ByAnother {
                others.push(thread);
            }
        }
        carriers.watch(engine, others);
        tokio::select! {
            biased;
            () = bell.notified() => return Ok(()),
            () = engine.world().alarm.at(deadline) => return Ok(()),
            heard = watch.next() => heard.map_err(CarryError::Ledger)?,
            gone = carriers.next() => gone?,
        }
    }
}

/// The carriers of those before us, in other processes. The ledger tells when one dies, perhaps a moment before its lease is free:
/// so the leases themselves are waited for.
#[derive(Default)]
struct Carriers<'a>(BTreeMap<ThreadId, Taking<'a>>);

type Taking<'a> = Pin<Box<dyn Future<Output = Result<(), Unavailable>> + Send + 'a>>;

impl<'a> Carriers<'a> {
    /// Waits for these, and for no others.
    fn watch(&mut self, engine: &'a Engine, threads: Vec<ThreadId>) {
        self.0.retain(|thread, _| threads.contains(thread));
        for thread in threads {
            self.0.entry(thread).or_insert_with_key(|thread| {
                let thread = thread.clone();
                // Given back at once: whether there is anything to carry is looked at again.
                Box::pin(async move { engine.world().leases.take(&thread).await.map(drop) })
            });
        }
    }

    /// Returns when one of them is gone.
    async fn next(&mut self) -> Result<(), CarryError> {
        let gone = poll_fn(|context| {
            let gone = self.0.iter_mut().find_map(|(thread, taking)| match taking.as_mut().poll(context) {
                Poll::Ready(gone) => Some((thread.clone(), gone)),
                Poll::Pending => None,
            });
            gone.map_or(Poll::Pending, Poll::Ready)
        });
        let (thread, gone) = gone.await;
        self.0.remove(&thread);
        gone.map_err(CarryError::Lease)
    }
}
