//! What is where in a dispatch's directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use agora_core::DispatchId;
use agora_core::provider::shelf::Clearing;

use crate::home::Home;

/// The directory below the home that has one directory for each dispatch.
pub(crate) const DISPATCHES: &str = "dispatches";

/// A dispatch's directory.
#[derive(Clone, Debug)]
pub(crate) struct DispatchDir(PathBuf);

impl DispatchDir {
    pub(crate) fn new(home: &Home, dispatch: &DispatchId) -> Self {
        Self(home.root().join(DISPATCHES).join(dispatch.as_str()))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    /// What the worker is given.
    pub(crate) fn given(&self) -> PathBuf {
        self.0.join("in")
    }

    /// What the worker says and leaves. An agent that gets out of its sandbox can write here: nothing in it is trusted.
    pub(crate) fn out(&self) -> PathBuf {
        self.0.join("out")
    }

    pub(crate) fn manifest(&self) -> PathBuf {
        self.0.join("in/manifest.json")
    }

    /// Files from elsewhere, for a worker that sees only this directory.
    pub(crate) fn placed(&self) -> PathBuf {
        self.0.join("in/files")
    }

    /// Which process the worker is.
    pub(crate) fn worker(&self) -> PathBuf {
        self.0.join("in/worker.json")
    }

    /// How the worker ended, in a word, for one whose container is gone.
    #[cfg(feature = "docker")]
    pub(crate) fn ended(&self) -> PathBuf {
        self.0.join("in/ended")
    }

    /// The worker's standard output.
    pub(crate) fn events(&self) -> PathBuf {
        self.0.join("out/events.jsonl")
    }

    /// The worker's standard error, which is locked for as long as the worker or a guard of its lives.
    pub(crate) fn life(&self) -> PathBuf {
        self.0.join("out/worker.stderr")
    }

    pub(crate) fn outcome(&self) -> PathBuf {
        self.0.join("out/outcome.json")
    }

    pub(crate) fn report(&self) -> PathBuf {
        self.0.join("out/report.json")
    }

    /// The agent's workspace.
    pub(crate) fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// Where a workspace that stands on a ground has its layers.
    pub(crate) fn layers(&self) -> PathBuf {
        self.0.join("layers")
    }

    /// Returns the directories that every dispatch has, those above first.
    pub(crate) fn directories(&self) -> [PathBuf; 4] {
        [self.0.clone(), self.given(), self.out(), self.work()]
    }

    /// Tells whether a worker was at work, or somebody has ended the dispatch without one.
    pub(crate) fn has_past(&self) -> io::Result<bool> {
        let said = there(fs::symlink_metadata(self.events()))?.is_some_and(|meta| meta.len() > 0);
        Ok(said || there(fs::symlink_metadata(self.outcome()))?.is_some())
    }

    /// Returns what is taken away.
    pub(crate) fn cleared(&self, what: Clearing) -> Vec<PathBuf> {
        match what {
            Clearing::Workspace => self.passing().to_vec(),
            Clearing::Snapshots => self.passing().into_iter().chain(self.snapshots()).collect(),
            Clearing::Everything => vec![self.0.clone()],
        }
    }

    /// Returns what the thread would go on with.
    fn snapshots(&self) -> [PathBuf; 3] {
        ["workspace.sealed", "baseline.sealed", "session.sealed"].map(|name| self.out().join(name))
    }

    /// Returns what only the run itself needed.
    fn passing(&self) -> [PathBuf; 7] {
        ["work", "layers", "home", "tmp", "aids", "in/files", "out/layers"].map(|name| self.0.join(name))
    }
}

/// What is not there is nothing, and no error.
pub(crate) fn there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
