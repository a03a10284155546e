//! What is where in a dispatch's directory.

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

    /// Which process the worker is.
    pub(crate) fn worker(&self) -> PathBuf {
        self.0.join("in/worker.json")
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

    /// Where a workspace that stands on a ground has its layers.
    pub(crate) fn layers(&self) -> PathBuf {
        self.0.join("layers")
    }

    /// Returns the directories that every dispatch has, those above first.
    pub(crate) fn directories(&self) -> [PathBuf; 4] {
        [self.0.clone(), self.given(), self.out(), self.0.join("work")]
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
    fn passing(&self) -> [PathBuf; 5] {
        ["work", "layers", "home", "tmp", "aids"].map(|name| self.0.join(name))
    }
}
