//! What became of a worker: what its container says, and, when that is gone, what was written down of it.

use std::io;

use agora_core::provider::Unavailable;
use agora_core::provider::compute::WorkerLife;
use bollard::errors::Error as ApiError;
use bollard::models::{ContainerState, ContainerStateStatusEnum};

use crate::dispatch_dir::DispatchDir;
use crate::home::{Home, read_capped};

/// What a container says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It was made and not started: somebody is about to, or died.
    Made,
    Running,
    Over(WorkerLife),
}

impl Stage {
    pub(super) fn of(state: &ContainerState) -> Self {
        use ContainerStateStatusEnum as Status;
        match state.status {
            Some(Status::CREATED | Status::EMPTY) | None if state.running != Some(true) => Self::Made,
            Some(Status::EXITED | Status::DEAD | Status::REMOVING) => {
                let killed = state.oom_killed == Some(true) && state.exit_code == Some(137);
                Self::Over(if killed { WorkerLife::OutOfMemory } else { WorkerLife::Ended })
            }
            _ => Self::Running,
        }
    }

    /// Reads the words that Podman has beside Docker's, which the client takes for an error and quotes.
    pub(super) fn of_podman(error: &ApiError) -> Option<Self> {
        let ApiError::JsonDataError { message, .. } = error else { return None };
        let word = message.strip_prefix("unknown variant `")?.split('`').next()?;
        match word {
            "configured" | "initialized" => Some(Self::Made),
            // Its processes are gone, and Podman is about to put it away.
            "stopped" => Some(Self::Over(WorkerLife::Ended)),
            _ => None,
        }
    }
}

const ENDED: &[u8] = b"ended\n";
const OUT_OF_MEMORY: &[u8] = b"out-of-memory\n";

/// Writes down how a worker ended, before its container goes.
pub(super) fn write(home: &Home, dir: &DispatchDir, life: WorkerLife) -> Result<(), Unavailable> {
    let word = if life == WorkerLife::OutOfMemory { OUT_OF_MEMORY } else { ENDED };
    // Whoever was first saw the same.
    home.put_new(&dir.ended(), word).map(drop)
}

/// Reads what was written down.
pub(super) fn read(dir: &DispatchDir) -> io::Result<Option<WorkerLife>> {
    Ok(read_capped(&dir.ended(), 64)?
        .map(|word| if word == OUT_OF_MEMORY { WorkerLife::OutOfMemory } else { WorkerLife::Ended }))
}
