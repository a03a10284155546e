//! The seams of a process: each call gives others time to run, before and after it does its work, and may go wrong.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use agora_core::entry::Entry;
use agora_core::job::Job;
use agora_core::provider::alarm::Alarm;
use agora_core::provider::blob::{BlobKey, BlobStore, StoreError};
use agora_core::provider::compute::{Compute, ComputeError, Launch, WorkerLife};
use agora_core::provider::lease::{Lease, Leases};
use agora_core::provider::ledger::{
    Append, Claim, ClaimMark, DispatchRow, DispatchView, Filter, Ledger, LedgerError, Outgoing, ThreadView,
    Watch,
};
use agora_core::provider::secret::SecretError;
use agora_core::provider::shelf::{Clearing, Concluded, Shelf};
use agora_core::provider::{Outage, Unavailable};
use agora_core::secret::SecretRef;
use agora_core::time::Clock;
use agora_core::wire::bootstrap::{ManifestAt, Supplied};
use agora_core::wire::manifest::{DispatchManifest, Location};
use agora_core::{ContentHash, DispatchId, Name, Namespace, ThreadId, Timestamp};
use agora_engine::{Entropy, Task, Tasks, Vault};
use async_trait::async_trait;

use crate::executor::Process;
use crate::machine::{Machine, Worker};

/// What one process sees of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Seams {
    pub(crate) machine: Arc<Machine>,
    pub(crate) process: Process,
    /// How far the process's clock is from the machine's.
    pub(crate) skew: i64,
}

impl Seams {
    async fn pause(&self) {
        self.machine.executor.pause().await;
    }

    fn full(&self) -> Option<Unavailable> {
        self.machine.strikes(|faults| faults.full).then(|| Unavailable {
            doing: "write".to_owned(),
            outage: Outage::Full,
            source: Box::new(io::Error::from(io::ErrorKind::StorageFull)),
        })
    }

    /// A write: others run, there may be no room, and the process may die before it hears that it was done.
    async fn write<T>(&self, work: impl AsyncFnOnce() -> T) -> Result<T, Unavailable> {
        self.pause().await;
        if let Some(full) = self.full() {
            return Err(full);
        }
        let done = work().await;
        self.pause().await;
        Ok(done)
    }
}

impl Clock for Seams {
    fn now(&self) -> Timestamp {
        let jump = if self.machine.strikes(|faults| faults.jump) { -3000 } else { 0 };
        Timestamp::from_millis(self.machine.executor.now() + self.skew + jump)
    }
}

#[async_trait]
impl Alarm for Seams {
    async fn at(&self, moment: Timestamp) {
        self.machine.executor.sleep_until(moment.as_millis() - self.skew).await;
    }
}

impl Tasks for Seams {
    fn start(&self, task: Task) {
        self.machine.executor.spawn(self.process, task);
    }
}

impl Entropy for Seams {
    fn draw(&self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let number = self.machine.executor.chance(crate::chance::Chance::number).to_le_bytes();
            piece.copy_from_slice(&number[..piece.len()]);
        }
    }
}

#[async_trait]
impl Vault for Seams {
    async fn supply(&self, _: &SecretRef) -> Supplied {
        self.pause().await;
        Supplied::Missing("no secrets here".to_owned())
    }

    async fn forget(&self, job: &Job) -> Result<(), SecretError> {
        let removed = self.write(async || self.machine.state().secrets.remove(&job.thread_id)).await;
        removed.map(|_| ()).map_err(SecretError::Unavailable)
    }
}

#[async_trait]
impl BlobStore for Seams {
    async fn put(&self, _: BlobKey, _: Vec<u8>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn get(&self, key: BlobKey, _: u64) -> Result<Vec<u8>, StoreError> {
        Err(StoreError::NotFound(key))
    }
}

/// The right to carry a thread, or the belief that one has it.
#[derive(Debug)]
struct Held {
    machine: Arc<Machine>,
    thread: ThreadId,
}

impl Lease for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        {
            let mut state = self.machine.state();
            if let Some(count) = state.leases.get_mut(&self.thread) {
                *count -= 1;
                if *count == 0 {
                    state.leases.remove(&self.thread);
                }
            }
        }
        self.machine.ring();
    }
}

#[async_trait]
impl Leases for Seams {
    async fn try_take(&self, thread: &ThreadId) -> Result<Option<Box<dyn Lease>>, Unavailable> {
        self.pause().await;
        let double = self.machine.strikes(|faults| faults.double_lease);
        let mut state = self.machine.state();
        if state.leases.contains_key(thread) && !double {
            return Ok(None);
        }
        *state.leases.entry(thread.clone()).or_insert(0) += 1;
        Ok(Some(Box::new(Held { machine: Arc::clone(&self.machine), thread: thread.clone() })))
    }

    async fn take(&self, thread: &ThreadId) -> Result<Box<dyn Lease>, Unavailable> {
        loop {
            let rung = self.machine.bell.notified();
            if let Some(lease) = self.try_take(thread).await? {
                return Ok(lease);
            }
            rung.await;
        }
    }
}

#[async_trait]
impl Shelf for Seams {
    fn stored(&self, _: BlobKey) -> Result<Location, Unavailable> {
        Ok("file:///blob".parse().unwrap())
    }

    fn left(&self, _: &DispatchId, _: &str) -> Result<Location, Unavailable> {
        Ok("file:///left".parse().unwrap())
    }

    async fn stage(&self, manifest: &DispatchManifest) -> Result<ManifestAt, Unavailable> {
        self.write(async || self.machine.state().workspaces.insert(manifest.dispatch_id.clone())).await?;
        Ok(ManifestAt { location: "file:///manifest".parse().unwrap(), hash: ContentHash::of(b"m") })
    }

    async fn lines(&self, dispatch: &DispatchId, from: u64) -> Result<String, Unavailable> {
        self.pause().await;
        let state = self.machine.state();
        let lines = state.lines.get(dispatch).map_or("", String::as_str);
        Ok(lines.get(usize::try_from(from).unwrap()..).unwrap_or_default().to_owned())
    }

    async fn more_lines(&self, dispatch: &DispatchId, from: u64) -> Result<(), Unavailable> {
        loop {
            let rung = self.machine.bell.notified();
            if self.machine.state().lines.get(dispatch).is_some_and(|lines| lines.len() as u64 > from) {
                return Ok(());
            }
            rung.await;
        }
    }

    async fn outcome(&self, dispatch: &DispatchId) -> Result<Option<String>, Unavailable> {
        self.pause().await;
        Ok(self.machine.state().outcomes.get(dispatch).cloned())
    }

    async fn conclude(&self, dispatch: &DispatchId, line: &str) -> Result<Concluded, Unavailable> {
        self.write(async || {
            let mut state = self.machine.state();
            match state.outcomes.get(dispatch) {
                Some(theirs) => Concluded::Theirs(theirs.clone()),
                None => {
                    state.outcomes.insert(dispatch.clone(), line.to_owned());
                    Concluded::Ours
                }
            }
        })
        .await
    }

    async fn report(&self, dispatch: &DispatchId) -> Result<Option<String>, Unavailable> {
        self.pause().await;
        Ok(self.machine.state().reports.get(dispatch).cloned())
    }

    async fn clear(&self, dispatch: &DispatchId, _: Clearing) -> Result<(), Unavailable> {
        self.write(async || self.machine.state().workspaces.remove(dispatch)).await.map(|_| ())
    }

    async fn read(&self, _: &DispatchId, _: &str, _: u64, _: u64) -> Result<Option<Vec<u8>>, Unavailable> {
        Ok(None)
    }

    async fn size(&self, _: &DispatchId) -> Result<u64, Unavailable> {
        Ok(1)
    }

    async fn list(&self) -> Result<Vec<DispatchId>, Unavailable> {
        self.pause().await;
        Ok(self.machine.state().workspaces.iter().cloned().collect())
    }
}

/// A worker that was spawned and waits for its bootstrap. If whoever spawned it dies, it ends.
struct Spawned<'a> {
    machine: &'a Machine,
    id: &'a DispatchId,
    given: bool,
}

impl Drop for Spawned<'_> {
    fn drop(&mut self) {
        if !self.given {
            self.machine.die(self.id);
        }
    }
}

#[async_trait]
impl Compute for Seams {
    async fn start(&self, launch: Launch) -> Result<(), ComputeError> {
        self.pause().await;
        let id = &launch.dispatch_id;
        if let Some(full) = self.full() {
            return Err(ComputeError::NotStarted(full));
        }
        {
            let mut state = self.machine.state();
            let known = state.workers.get(id);
            let ran = known.is_some_and(|worker| worker.alive || worker.runs > 0);
            if ran || state.outcomes.contains_key(id) {
                return Err(ComputeError::StartedAlready);
            }
            state.workers.insert(id.clone(), Worker { alive: true, runs: 0, told_to_end: false });
        }
        let mut spawned = Spawned { machine: &self.machine, id, given: false };
        self.pause().await;
        spawned.given = true;
        self.machine.run(id);
        self.pause().await;
        Ok(())
    }

    async fn look(&self, dispatch: &DispatchId) -> Result<WorkerLife, ComputeError> {
        self.pause().await;
        let state = self.machine.state();
        Ok(match state.workers.get(dispatch) {
            Some(worker) if worker.alive => WorkerLife::Running,
            Some(worker) if worker.runs > 0 => WorkerLife::Ended,
            Some(_) | None if state.outcomes.contains_key(dispatch) => WorkerLife::Ended,
            Some(_) | None => WorkerLife::Never,
        })
    }

    async fn wait(&self, dispatch: &DispatchId) -> Result<WorkerLife, ComputeError> {
        loop {
            let rung = self.machine.bell.notified();
            if !self.machine.is_alive(dispatch) {
                return self.look(dispatch).await;
            }
            rung.await;
        }
    }

    async fn stop(&self, dispatch: &DispatchId, grace: Duration) -> Result<(), ComputeError> {
        self.pause().await;
        if let Some(worker) = self.machine.state().workers.get_mut(dispatch) {
            worker.told_to_end = true;
        }
        self.machine.ring();
        let patience = self.machine.executor.now() + i64::try_from(grace.as_millis()).unwrap();
        tokio::select! {
            biased;
            life = self.wait(dispatch) => drop(life?),
            () = self.machine.executor.sleep_until(patience) => self.machine.die(dispatch),
        }
        self.pause().await;
        Ok(())
    }
}

/// The ledger in memory, with time and trouble around each call.
#[async_trait]
impl Ledger for Seams {
    async fn append(&self, append: Append) -> Result<Vec<Entry>, LedgerError> {
        let done = self.write(async || self.machine.ledger.append(append).await).await;
        done.map_err(LedgerError::Unavailable)?
    }

    async fn read(&self, thread: &ThreadId, seen: u64, most: usize) -> Result<Vec<Entry>, LedgerError> {
        self.pause().await;
        self.machine.ledger.read(thread, seen, most).await
    }

    async fn read_all(
        &self,
        namespace: &Namespace,
        after: u64,
        most: usize,
    ) -> Result<Vec<(u64, Entry)>, LedgerError> {
        self.pause().await;
        self.machine.ledger.read_all(namespace, after, most).await
    }

    async fn thread(&self, thread: &ThreadId) -> Result<Option<ThreadView>, LedgerError> {
        self.pause().await;
        self.machine.ledger.thread(thread).await
    }

    async fn dispatch(&self, dispatch: &DispatchId) -> Result<Option<DispatchView>, LedgerError> {
        self.pause().await;
        self.machine.ledger.dispatch(dispatch).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<DispatchRow>, LedgerError> {
        self.pause().await;
        self.machine.ledger.list(filter).await
    }

    async fn carried(&self) -> Result<Vec<ThreadId>, LedgerError> {
        self.pause().await;
        self.machine.ledger.carried().await
    }

    async fn due(&self, by: Timestamp) -> Result<Vec<ThreadId>, LedgerError> {
        self.pause().await;
        self.machine.ledger.due(by).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, LedgerError> {
        self.machine.ledger.next_due().await
    }

    async fn head(&self, target: &Name, most: u32) -> Result<Vec<DispatchId>, LedgerError> {
        self.pause().await;
        self.machine.ledger.head(target, most).await
    }

    async fn place(&self, dispatch: &DispatchId) -> Result<Option<u64>, LedgerError> {
        self.machine.ledger.place(dispatch).await
    }

    async fn claim(&self, dispatch: &DispatchId, mark: ClaimMark, most: u32) -> Result<Claim, LedgerError> {
        let done = self.write(async || self.machine.ledger.claim(dispatch, mark, most).await).await;
        done.map_err(LedgerError::Unavailable)?
    }

    async fn reclaim(
        &self,
        dispatch: &DispatchId,
        seen: &ClaimMark,
        mark: ClaimMark,
    ) -> Result<bool, LedgerError> {
        let done = self.write(async || self.machine.ledger.reclaim(dispatch, seen, mark).await).await;
        done.map_err(LedgerError::Unavailable)?
    }

    async fn wish_cancel(&self, thread: &ThreadId) -> Result<bool, LedgerError> {
        let done = self.write(async || self.machine.ledger.wish_cancel(thread).await).await;
        done.map_err(LedgerError::Unavailable)?
    }

    async fn wished(&self) -> Result<Vec<ThreadId>, LedgerError> {
        self.pause().await;
        self.machine.ledger.wished().await
    }

    async fn outgoing(&self, by: Timestamp, most: usize) -> Result<Vec<Outgoing>, LedgerError> {
        self.machine.ledger.outgoing(by, most).await
    }

    async fn told(&self, id: u64, again_at: Option<Timestamp>) -> Result<(), LedgerError> {
        self.machine.ledger.told(id, again_at).await
    }

    async fn expired(&self, by: Timestamp, most: usize) -> Result<Vec<ThreadId>, LedgerError> {
        self.machine.ledger.expired(by, most).await
    }

    async fn forget(&self, thread: &ThreadId) -> Result<bool, LedgerError> {
        self.machine.ledger.forget(thread).await
    }

    fn watch(&self) -> Result<Box<dyn Watch>, LedgerError> {
        self.machine.ledger.watch()
    }
}
