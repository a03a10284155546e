//! Whose turn it is to start a worker.

use std::fs::File;
use std::io;

use crate::dispatch_dir::DispatchDir;
use crate::unlocked::uninterrupted;

/// The right to start the worker of a dispatch, which one process at a time has.
///
/// Apart from the life itself, for which whoever only looks would be in the way.
#[derive(Debug)]
pub(crate) struct Turn(File);

impl Turn {
    /// Waits until nobody else is starting that worker: some milliseconds.
    pub(crate) fn take(dir: &DispatchDir) -> io::Result<Self> {
        let given = File::open(dir.given())?;
        uninterrupted(|| given.lock())?;
        Ok(Self(given))
    }

    /// Takes it if nobody else has it.
    #[cfg(feature = "docker")]
    pub(crate) fn try_take(dir: &DispatchDir) -> io::Result<Option<Self>> {
        let given = File::open(dir.given())?;
        match given.try_lock() {
            Ok(()) => Ok(Some(Self(given))),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}
