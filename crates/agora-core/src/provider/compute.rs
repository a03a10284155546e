//! Where workers run.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::Unavailable;
use crate::id::DispatchId;
use crate::reason::FailureCode;
use crate::wire::bootstrap::SecretLine;

/// What a worker is started with.
#[derive(Debug)]
pub struct Launch {
    pub dispatch_id: DispatchId,
    /// The adapter's word.
    pub runtime: String,
    /// The one line for the worker's standard input. It holds secret values: never an argument, a file or a variable.
    pub bootstrap: SecretLine,
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
    /// A dispatch has one worker, ever.
    #[error("the worker of that dispatch was started already")]
    StartedAlready,
    #[error("the worker was not started")]
    NotStarted(#[source] Unavailable),
    #[error("the place where workers run cannot be reached")]
    Unreachable(#[source] Unavailable),
}

impl ComputeError {
    /// Returns the code that a dispatch fails with.
    pub fn code(&self) -> FailureCode {
        match self {
            Self::ImageMissing(_) => FailureCode::ImageMissing,
            Self::StartedAlready | Self::NotStarted(_) => FailureCode::WorkerNotStarted,
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
    async fn start(&self, launch: Launch) -> Result<(), ComputeError>;

    async fn look(&self, dispatch: &DispatchId) -> Result<WorkerLife, ComputeError>;

    /// Returns when the worker is no longer running.
    async fn wait(&self, dispatch: &DispatchId) -> Result<WorkerLife, ComputeError>;

    /// Ends the worker: softly first, and by force after the grace. Stopping one that has ended is no error.
    async fn stop(&self, dispatch: &DispatchId, grace: Duration) -> Result<(), ComputeError>;
}
