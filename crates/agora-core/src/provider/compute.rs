//! Where workers run.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Unavailable;
use crate::id::{DispatchId, ThreadId};
use crate::reason::FailureCode;
use crate::wire::bootstrap::SecretLine;
use crate::wire::manifest::Limits;

/// What a worker is started with.
#[derive(Debug)]
pub struct Launch {
    pub dispatch_id: DispatchId,
    pub thread_id: ThreadId,
    /// The adapter's word.
    pub runtime: String,
    /// What [`Compute::prepare`] said when the dispatch was accepted. `None`: nothing, or it was accepted before there were images.
    pub image: Option<ImageId>,
    pub limits: Limits,
    /// The one line for the worker's standard input. It holds secret values: never an argument, a file or a variable.
    pub bootstrap: SecretLine,
    /// A terminal for the agent, when a person has taken the thread over.
    pub terminal: Option<Terminal>,
}

/// An end of a terminal that somebody sits at: what the agent of a dispatch that was taken over has as its three streams.
#[derive(Clone, Debug)]
pub struct Terminal(Arc<OwnedFd>);

impl Terminal {
    pub fn new(end: OwnedFd) -> Self {
        Self(Arc::new(end))
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// An image by its content: `sha256:…`, or a name with a digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ImageId(pub String);

/// How a worker sees the files that it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// As the engine does: the same machine, the same paths, the same user.
    Same,
    /// Its own place and nothing else.
    Own {
        /// Where its place is, as it sees it.
        root: PathBuf,
        /// Who it is, when that is not who the engine is: its place must be made theirs.
        owner: Option<u32>,
    },
}

/// What became of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerLife {
    /// There was none, or none that ever got its bootstrap: nothing has happened, and it may be started.
    Never,
    Running,
    /// It ended, and nothing of it is left.
    Ended,
    /// The same, and the machine ended it for its memory.
    OutOfMemory,
}

/// Says why a worker could not be started or asked about.
#[derive(Debug, thiserror::Error)]
pub enum ComputeError {
    #[error("there is no image `{0}`")]
    ImageMissing(String),
    /// The image is there and cannot be used, for this reason.
    #[error("the image `{image}` cannot be used: {why}")]
    ImageUnfit { image: String, why: String },
    /// A dispatch has one worker, ever.
    #[error("the worker of that dispatch was started already")]
    StartedAlready,
    /// Nobody can sit at the terminal of a worker that is elsewhere.
    #[error("workers there cannot be given a terminal")]
    NoTerminal,
    #[error("the worker was not started")]
    NotStarted(#[source] Unavailable),
    #[error("the place where workers run cannot be reached")]
    Unreachable(#[source] Unavailable),
}

impl ComputeError {
    /// Returns the code that a dispatch fails with.
    pub fn code(&self) -> FailureCode {
        match self {
            Self::ImageMissing(_) | Self::ImageUnfit { .. } => FailureCode::ImageMissing,
            Self::StartedAlready | Self::NoTerminal | Self::NotStarted(_) => FailureCode::WorkerNotStarted,
            Self::Unreachable(_) => FailureCode::ComputeUnreachable,
        }
    }
}

/// Runs workers. A worker is named by its dispatch, which is known before it starts: no crash comes between the two.
///
/// Every implementation keeps true: a worker outlives the process that started it; of all starts for one dispatch, in any
/// number of processes, one runs, unless it never got its bootstrap; a start that fails leaves nothing behind; `wait` and
/// `stop` return when nothing that the worker started is left.
#[async_trait]
pub trait Compute: fmt::Debug + Send + Sync {
    /// Sees, before a dispatch is accepted, that one could be started, and fixes what it would run in: a tag may mean another
    /// image tomorrow.
    async fn prepare(&self) -> Result<Option<ImageId>, ComputeError> {
        Ok(None)
    }

    /// Says how its workers see their files.
    fn sight(&self) -> Sight {
        Sight::Same
    }

    /// Tells whether an agent there can be given a terminal of this machine.
    fn has_terminals(&self) -> bool {
        false
    }

    /// Returns when it can be reached. One that is being restarted is waited for, as long as a restart takes.
    async fn reach(&self) -> Result<(), ComputeError> {
        Ok(())
    }

    /// Returns every dispatch of which something is there that only [`Self::stop`] takes away.
    async fn leftovers(&self) -> Result<Vec<DispatchId>, ComputeError> {
        Ok(Vec::new())
    }

    async fn start(&self, launch: Launch) -> Result<(), ComputeError>;

    async fn look(&self, dispatch: &DispatchId) -> Result<WorkerLife, ComputeError>;

    /// Returns when the worker is no longer running.
    async fn wait(&self, dispatch: &DispatchId) -> Result<WorkerLife, ComputeError>;

    /// Ends the worker: softly first, and by force after the grace. Stopping one that has ended is no error.
    async fn stop(&self, dispatch: &DispatchId, grace: Duration) -> Result<(), ComputeError>;
}
