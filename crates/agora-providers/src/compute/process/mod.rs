//! Workers as processes of this machine. They outlive the engine: what they say goes to files, and their life is a lock.

mod identity;
mod life;
mod start;
mod stdin;

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use agora_core::DispatchId;
use agora_core::provider::Unavailable;
use agora_core::provider::compute::{Compute, ComputeError, Launch, WorkerLife};
use async_trait::async_trait;
use rustix::process::Signal;

use super::turn::Turn;
use crate::aside::aside;
use crate::blocking::blocking;
use crate::dispatch_dir::{DispatchDir, there};
use crate::home::Home;
use identity::{Identity, Process};
use life::Watchers;
use start::{Start, Starter};

pub use identity::boot_id;
pub use start::WorkerProgram;

/// Runs workers as processes.
#[derive(Clone, Debug)]
pub struct LocalProcess {
    starter: Starter,
    watchers: Watchers,
}

impl LocalProcess {
    /// The environment is all that workers get beside their own variables. Those of agora's in it are not passed on: a worker
    /// refuses what it does not know, and the engine's own are not its business.
    pub fn new(home: Home, worker: WorkerProgram, environment: Vec<(OsString, OsString)>) -> Self {
        let ours = |name: &OsString| name.to_str().is_some_and(|name| name.starts_with("AGORA_"));
        let environment = environment.into_iter().filter(|(name, _)| !ours(name)).collect();
        Self { starter: Starter { home, worker, environment }, watchers: Watchers::default() }
    }

    fn dir(&self, dispatch: &DispatchId) -> DispatchDir {
        DispatchDir::new(&self.starter.home, dispatch)
    }

    fn unreachable(&self, dir: &DispatchDir, error: io::Error) -> ComputeError {
        ComputeError::Unreachable(self.unavailable("look at the worker in", dir, error))
    }

    fn unavailable(&self, doing: &str, dir: &DispatchDir, error: io::Error) -> Unavailable {
        self.starter.home.unavailable(doing, dir.root(), error)
    }
}

#[async_trait]
impl Compute for LocalProcess {
    fn has_terminals(&self) -> bool {
        true
    }

    async fn start(&self, launch: Launch) -> Result<(), ComputeError> {
        let (starter, dir) = (self.starter.clone(), self.dir(&launch.dispatch_id));
        let at = dir.clone();
        match blocking(move || starter.start(&at, &launch)).await {
            Ok(Start::Started) => Ok(()),
            Ok(Start::Already) => Err(ComputeError::StartedAlready),
            Err(error) => Err(ComputeError::NotStarted(self.unavailable("start the worker in", &dir, error))),
        }
    }

    async fn look(&self, dispatch: &DispatchId) -> Result<WorkerLife, ComputeError> {
        let dir = self.dir(dispatch);
        look(&dir).map_err(|error| self.unreachable(&dir, error))
    }

    async fn wait(&self, dispatch: &DispatchId) -> Result<WorkerLife, ComputeError> {
        let dir = self.dir(dispatch);
        loop {
            let life = self.look(dispatch).await?;
            if life != WorkerLife::Running {
                return Ok(life);
            }
            let waited = self.watchers.wait(dispatch, &dir).await;
            waited.map_err(|error| self.unreachable(&dir, error))?;
            // An agent may have got at the file. Its worker is the same process still.
            let ended = match known(&dir) {
                Ok(Some(worker)) => aside("worker-end", move || worker.wait()).await.flatten(),
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            ended.map_err(|error| self.unreachable(&dir, error))?;
        }
    }

    async fn stop(&self, dispatch: &DispatchId, grace: Duration) -> Result<(), ComputeError> {
        let dir = self.dir(dispatch);
        let ended = match find(&dir) {
            Ok(Some(worker)) => end(worker, grace).await,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        ended.map_err(|error| self.unreachable(&dir, error))?;
        self.wait(dispatch).await.map(drop)
    }
}

fn look(dir: &DispatchDir) -> io::Result<WorkerLife> {
    let alive = life::is_held(dir)? || known(dir)?.is_some();
    Ok(match (alive, past(dir)?) {
        (true, _) => WorkerLife::Running,
        (false, true) => WorkerLife::Ended,
        (false, false) => WorkerLife::Never,
    })
}

/// Tells whether a worker was at work, or somebody has ended the dispatch without one.
fn past(dir: &DispatchDir) -> io::Result<bool> {
    if dir.has_past()? {
        return Ok(true);
    }
    // What it said may have been lost with the power.
    Identity::read(dir)?.map_or(Ok(false), |identity| identity.is_of_this_boot().map(|this| !this))
}

/// Finds a worker that lives. One that is just being started is waited for.
fn find(dir: &DispatchDir) -> io::Result<Option<Process>> {
    match there(Turn::take(dir))? {
        Some(_turn) => known(dir),
        None => Ok(None),
    }
}

/// Finds the worker that is stored as this dispatch's, if it lives.
fn known(dir: &DispatchDir) -> io::Result<Option<Process>> {
    there(Identity::read(dir))?.flatten().map_or(Ok(None), |worker| worker.find())
}

/// Ends a process, softly first.
async fn end(worker: Process, grace: Duration) -> io::Result<()> {
    worker.signal(Signal::TERM)?;
    let worker = Arc::new(worker);
    let waiting = Arc::clone(&worker);
    match tokio::time::timeout(grace, aside("worker-end", move || waiting.wait())).await {
        Ok(ended) => ended.flatten(),
        Err(_) => worker.signal(Signal::KILL),
    }
}
