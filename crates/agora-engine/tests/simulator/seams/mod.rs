//! The seams of a process: each call gives others time to run, before and after it does its work, and may go wrong.

mod ledger;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use agora_core::job::Job;
use agora_core::provider::alarm::Alarm;
use agora_core::provider::blob::{BlobKey, BlobStore, StoreError};
use agora_core::provider::compute::{Compute, ComputeError, Launch, Sight, WorkerLife};
use agora_core::provider::lease::{Lease, Leases};
use agora_core::provider::ledger::Ledger;
use agora_core::provider::secret::SecretError;
use agora_core::provider::shelf::{Clearing, Concluded, Shelf};
use agora_core::provider::{Outage, Unavailable};
use agora_core::secret::SecretRef;
use agora_core::state::Thread;
use agora_core::time::Clock;
use agora_core::wire::bootstrap::{ManifestAt, Supplied};
use agora_core::wire::manifest::{DispatchManifest, Location};
use agora_core::{ContentHash, DispatchId, ThreadId, Timestamp};
use agora_engine::{Entropy, Task, Tasks, Vault};
use async_trait::async_trait;

pub(crate) use ledger::whole;

use crate::executor::Process;
use crate::machine::Machine;

/// What one process sees of the machine.
#[derive(Debug)]
pub(crate) struct Seams {
    pub(crate) machine: Arc<Machine>,
    pub(crate) process: Process,
    /// The process's own: in a file, others have theirs.
    pub(crate) ledger: Arc<dyn Ledger>,
    /// How far the process's clock is from the machine's.
    pub(crate) skew: AtomicI64,
}

impl Seams {
    pub(super) async fn pause(&self) {
        self.machine.executor.pause().await;
    }

    fn full(&self) -> Option<Unavailable> {
        self.machine.strikes("full disk", |faults| faults.full).then(|| Unavailable {
            doing: "write".to_owned(),
            outage: Outage::Full,
            source: Box::new(io::Error::from(io::ErrorKind::StorageFull)),
        })
    }

    /// A write: others run, there may be no room, and the process may die before it hears that it was done, or hear that it was not.
    pub(super) async fn write<T>(&self, work: impl FnOnce() -> T) -> Result<T, Unavailable> {
        self.pause().await;
        if let Some(full) = self.full() {
            return Err(full);
        }
        let done = work();
        self.pause().await;
        if self.machine.strikes("unheard write", |faults| faults.unheard) {
            return Err(Unavailable {
                doing: "write".to_owned(),
                outage: Outage::Failed,
                source: Box::new(io::Error::other("nobody knows whether it was done")),
            });
        }
        Ok(done)
    }

    /// Whoever moves a thread on has its lease, or believes to.
    pub(super) fn check_lease(&self, dispatch: &DispatchId) {
        let (state, journal) = (self.machine.state(), self.machine.journal());
        let Some(thread) = journal.thread_id_of(dispatch) else { return };
        let held = state.leases.get(thread).is_some_and(|holders| holders.contains(&self.process));
        assert!(held, "{:?} moves {thread} on without its lease", self.process);
    }
}

impl Clock for Seams {
    fn now(&self) -> Timestamp {
        if self.machine.strikes("clock set", |faults| faults.jump) {
            let by = self.machine.executor.chance(|chance| match chance.below(3) {
                0 => chance.below(10_000),
                1 => chance.below(600_000),
                _ => chance.below(20_000_000),
            });
            let by = i64::try_from(by).unwrap();
            let by = if self.machine.executor.chance(|chance| chance.one_of(500)) { by } else { -by };
            self.skew.fetch_add(by, Ordering::Relaxed);
        }
        Timestamp::from_millis(self.machine.executor.now() + self.skew.load(Ordering::Relaxed))
    }
}

#[async_trait]
impl Alarm for Seams {
    async fn at(&self, moment: Timestamp) {
        self.machine.executor.sleep_until(moment.as_millis() - self.skew.load(Ordering::Relaxed)).await;
    }
}

impl Tasks for Seams {
    fn start(&self, task: Task) {
        self.machine.note("carried aside");
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
        let removed = self.write(|| self.machine.state().secrets.remove(&job.thread_id)).await;
        removed.map(|_| ()).map_err(SecretError::Unavailable)
    }

    async fn forget_stray(&self, thread: &ThreadId) -> Result<(), SecretError> {
        let removed = self.write(|| self.machine.state().secrets.remove(thread)).await;
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
    process: Process,
}

impl Lease for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        {
            let mut state = self.machine.state();
            let holders = state.leases.get_mut(&self.thread).expect("it was taken");
            let place = holders.iter().position(|holder| *holder == self.process).expect("it was taken");
            holders.remove(place);
            if holders.is_empty() {
                state.leases.remove(&self.thread);
            }
        }
        self.machine.ring();
    }
}

#[async_trait]
impl Leases for Seams {
    async fn try_take(&self, thread: &ThreadId) -> Result<Option<Box<dyn Lease>>, Unavailable> {
        self.pause().await;
        let taken = self.machine.state().leases.contains_key(thread);
        if taken && !self.machine.strikes("double lease", |faults| faults.double_lease) {
            return Ok(None);
        }
        let (machine, thread, process) = (Arc::clone(&self.machine), thread.clone(), self.process);
        machine.state().leases.entry(thread.clone()).or_default().push(process);
        Ok(Some(Box::new(Held { machine, thread, process })))
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

    async fn list(&self) -> Result<Vec<ThreadId>, Unavailable> {
        self.pause().await;
        Ok(self.machine.state().leases.keys().cloned().collect())
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

    async fn stage(&self, manifest: &DispatchManifest, _: &Sight) -> Result<ManifestAt, Unavailable> {
        self.write(|| {
            let (id, mut state) = (&manifest.dispatch_id, self.machine.state());
            state.threads.insert(id.clone(), manifest.thread_id.clone());
            state.places.entry(id.clone()).or_default().workspace = true;
        })
        .await?;
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
        self.check_lease(dispatch);
        self.write(|| {
            let mut state = self.machine.state();
            match state.outcomes.get(dispatch) {
                Some(theirs) => {
                    self.machine.note("concluded: theirs");
                    Concluded::Theirs(theirs.clone())
                }
                None => {
                    self.machine.note("concluded: ours");
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

    async fn clear(&self, dispatch: &DispatchId, what: Clearing) -> Result<(), Unavailable> {
        self.write(|| self.take_away(dispatch, what)).await
    }

    async fn read(&self, _: &DispatchId, _: &str, _: u64, _: u64) -> Result<Option<Vec<u8>>, Unavailable> {
        Ok(None)
    }

    async fn size(&self, dispatch: &DispatchId, what: Clearing) -> Result<u64, Unavailable> {
        let place = self.machine.state().places.get(dispatch).copied().unwrap_or_default();
        let (workspace, snapshots) = (u64::from(place.workspace), u64::from(place.snapshots));
        Ok(match what {
            Clearing::Workspace => workspace,
            Clearing::Snapshots => workspace + snapshots,
            Clearing::Everything => workspace + snapshots + 1,
        })
    }

    async fn list(&self) -> Result<Vec<DispatchId>, Unavailable> {
        self.pause().await;
        Ok(self.machine.state().places.keys().cloned().collect())
    }
}

impl Seams {
    /// Nothing of a thread that is open is taken, nor from under a worker.
    fn take_away(&self, dispatch: &DispatchId, what: Clearing) {
        let mut state = self.machine.state();
        let alive = state.workers.get(dispatch).is_some_and(|worker| worker.alive);
        assert!(!alive, "{dispatch}: its workspace is taken from under its worker");
        let thread = self.machine.journal().thread_of(dispatch);
        let open = thread.as_ref().is_some_and(|thread| !thread.has_ended());
        let Some(place) = state.places.get_mut(dispatch) else { return };
        place.workspace = false;
        match what {
            Clearing::Workspace => {}
            Clearing::Snapshots => {
                // Somebody may have gone on with the thread just now. Nobody has looked at what there is to go on with.
                let live = thread.iter().flat_map(Thread::dispatches).find(|(_, state)| state.is_live());
                let claimed = live.is_some_and(|(id, _)| {
                    whole(self.ledger.dispatch(id)).unwrap().is_some_and(|view| view.claim.is_some())
                });
                let used = open && (claimed || live.is_none()) && place.snapshots;
                assert!(
                    !used || self.machine.faults().double_lease > 0,
                    "{dispatch}: its thread is open, and its snapshots are taken"
                );
                place.snapshots = false;
                self.machine.note("swept: snapshots");
            }
            Clearing::Everything => {
                assert!(!open, "{dispatch}: its thread is open, and everything is taken");
                state.places.remove(dispatch);
                state.outcomes.remove(dispatch);
                state.reports.remove(dispatch);
                state.lines.remove(dispatch);
                self.machine.note("swept: everything");
            }
        }
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
        self.check_lease(id);
        {
            let state = self.machine.state();
            let ran = state.workers.get(id).is_some_and(|worker| worker.alive || worker.runs > 0);
            if ran || state.outcomes.contains_key(id) {
                self.machine.note("started already");
                return Err(ComputeError::StartedAlready);
            }
        }
        self.machine.spawn(id);
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
