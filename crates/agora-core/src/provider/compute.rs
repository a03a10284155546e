//! Where workers run.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::Unavailable;
use crate::id::DispatchId;
use crate::reason::FailureCode;
use crate::secret::SecretValue;

/// What a worker is started with.
#[derive(Debug)]
pub struct Launch {
    pub dispatch_id: DispatchId,
    /// The one line for the worker's standard input. It holds secret values: never an argument, a file or a variable.
    pub bootstrap: SecretValue,
    pub memory_bytes: Option<u64>,
    pub processes: Option<u32>,
}

/// Names a worker so that another process, after a crash, finds the same one and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerHandle(pub String);

/// What became of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerLife {
    Running,
    Exited {
        code: i32,
    },
    Killed {
        signal: i32,
    },
    OutOfMemory,
    /// Nothing of it is left to ask.
    Gone,
}

/// Says why a worker could not be started or asked about.
#[derive(Debug, thiserror::Error)]
pub enum ComputeError {
    #[error("there is no image `{0}`")]
    ImageMissing(String),
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
            Self::NotStarted(_) => FailureCode::WorkerNotStarted,
            Self::Unreachable(_) => FailureCode::ComputeUnreachable,
        }
    }
}

/// Runs workers.
///
/// Every implementation keeps true: a worker outlives the process that started it; `stop` returns when nothing that
/// the worker started is left; a handle never comes to mean another worker; `start` that fails leaves nothing behind.
#[async_trait]
pub trait Compute: fmt::Debug + Send + Sync {
    async fn start(&self, launch: Launch) -> Result<WorkerHandle, ComputeError>;

    async fn look(&self, worker: &WorkerHandle) -> Result<WorkerLife, ComputeError>;

    /// Returns when the worker is no longer running.
    async fn wait(&self, worker: &WorkerHandle) -> Result<WorkerLife, ComputeError>;

    /// Ends the worker: softly first, and by force after the grace. Stopping one that has ended is no error.
    async fn stop(&self, worker: &WorkerHandle, grace: Duration) -> Result<(), ComputeError>;
}
