//! The real disk with one fault, at the operation a test chooses.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use agora_providers::disk::{Disk, OsDisk};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process dies at that operation: a write gets half way, and nothing happens afterwards.
    Crash,
    /// The disk is full at that operation, and has room again afterwards.
    Full,
}

/// Does what the real disk does, except at one operation.
#[derive(Debug)]
pub struct FaultyDisk {
    fault: Fault,
    at: u64,
    count: AtomicU64,
}

impl FaultyDisk {
    /// Makes the operation with this number, counted from 0, go wrong.
    pub fn new(fault: Fault, at: u64) -> Self {
        Self { fault, at, count: AtomicU64::new(0) }
    }

    /// Tells whether the fault was reached.
    pub fn struck(&self) -> bool {
        self.count.load(Ordering::SeqCst) > self.at
    }

    /// Runs an operation, or what is left of it.
    fn step(
        &self,
        whole: impl FnOnce() -> io::Result<()>,
        half: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        match (number == self.at, self.fault) {
            (false, Fault::Crash) if number > self.at => Err(io::Error::other("the process is dead")),
            (false, _) => whole(),
            (true, Fault::Crash) => half().and(Err(io::Error::other("the process died"))),
            (true, Fault::Full) => half().and(Err(io::Error::from(io::ErrorKind::StorageFull))),
        }
    }
}

impl Disk for FaultyDisk {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        self.step(|| OsDisk.make_dir(dir), || Ok(()))
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.step(|| OsDisk.write_new(path, bytes), || OsDisk.write_new(path, &bytes[..bytes.len() / 2]))
    }

    fn write_tail(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.step(
            || OsDisk.write_tail(file, offset, bytes),
            || OsDisk.write_tail(file, offset, &bytes[..bytes.len() / 2]),
        )
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|| OsDisk.rename(from, to), || Ok(()))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|| OsDisk.link(from, to), || Ok(()))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step(|| OsDisk.sync_dir(dir), || Ok(()))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step(|| OsDisk.remove(path), || Ok(()))
    }
}
