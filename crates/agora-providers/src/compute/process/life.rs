//! A worker's life is a lock.
//!
//! Its standard error is a file that was locked before it was started. The lock belongs to the open file, which the worker and
//! its guards share, so that the kernel gives it back when the last of them is gone, however they end. Whoever takes it
//! for writing starts a worker; whoever wants to know takes it for reading, and lets go at once.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use agora_core::DispatchId;
use rustix::fs::OFlags;

use crate::compute::turn::Turn;
use crate::dispatch_dir::DispatchDir;
use crate::shelf::untrusted::{self, Found};
use crate::unlocked::{Unlocked, uninterrupted};

/// A life that nobody has, taken.
#[derive(Debug)]
pub(super) struct Life(File);

impl Life {
    /// Takes it. `None`: a worker has it.
    pub(super) fn take(dir: &DispatchDir, _turn: &Turn) -> io::Result<Option<Self>> {
        let file = open_to_write(&dir.life())?;
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Nobody has it for writing, nor will, because the turn is ours. Whoever looks lets go at once.
        uninterrupted(|| file.lock())?;
        Ok(Some(Self(file)))
    }

    /// Returns what a worker is given as its standard error, and lives by.
    pub(super) fn share(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// Gives it back. Not by dropping: whoever shares it has it still.
    pub(super) fn give_back(self) {
        let _ = self.0.unlock();
    }
}

/// Opens a file that a worker writes to.
pub(super) fn open_to_write(path: &std::path::Path) -> io::Result<File> {
    let no_follow = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(no_follow).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Opens a life to look at it. `None`: no worker was ever started, or its agent got at the file.
fn open(dir: &DispatchDir) -> io::Result<Option<File>> {
    Ok(match untrusted::open(&dir.life())? {
        Found::Nothing | Found::Strange => None,
        Found::File(file) => Some(file),
    })
}

/// Tells whether somebody has it.
pub(super) fn is_held(dir: &DispatchDir) -> io::Result<bool> {
    let Some(file) = open(dir)? else { return Ok(false) };
    match file.try_lock_shared() {
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Those who wait for lives to end.
#[derive(Clone, Debug)]
pub(super) struct Watchers(Unlocked<DispatchId>);

impl Default for Watchers {
    fn default() -> Self {
        Self(Unlocked::new("worker-life"))
    }
}

impl Watchers {
    /// Returns when nobody has the life any more.
    pub(super) async fn wait(&self, dispatch: &DispatchId, dir: &DispatchDir) -> io::Result<()> {
        self.0.wait(dispatch, || open(dir)).await
    }
}
