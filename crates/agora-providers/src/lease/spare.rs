//! Files of leases that were given back, kept for the next ones under names that are no thread's.
//!
//! An engine takes and gives back a lease for every thread. To make a file for each and to remove it again is what a file system may be
//! slow at: ext4 without a journal does not give an inode out again for minutes, and looks past all of those whenever it makes a file
//! beside them.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::home::Home;

/// More are not kept: as many leases as are given back and taken at about the same time.
const MOST: usize = 32;

/// The files that are to spare. They are in `tmp/`: what a process that died leaves there is swept.
#[derive(Debug)]
pub(super) struct Spares {
    home: Home,
    files: Mutex<Vec<Spare>>,
}

#[derive(Debug)]
struct Spare {
    path: PathBuf,
    file: File,
}

impl Spares {
    pub(super) fn new(home: Home) -> Self {
        Self { home, files: Mutex::default() }
    }

    fn files(&self) -> MutexGuard<'_, Vec<Spare>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a file that is to spare this name, locked. `None`: there is no file, or somebody has the name.
    pub(super) fn take(&self, name: &Path) -> Option<File> {
        let Spare { path, file } = self.files().pop()?;
        // Whoever waited for the lease that it was is told by having the lock, for a moment.
        let locked = file.try_lock().is_ok();
        if locked && renameat_with(CWD, &path, CWD, name, RenameFlags::NOREPLACE).is_ok() {
            return Some(file);
        }
        let _ = fs::remove_file(path);
        None
    }

    /// Takes a lease's file away from its name and opens its lock.
    pub(super) fn keep(&self, name: &Path, file: File) {
        let path = self.home.stage();
        let has_room = self.files().len() < MOST;
        let kept = if has_room { fs::rename(name, &path) } else { Err(io::ErrorKind::Other.into()) };
        if kept.is_err() {
            let _ = fs::remove_file(name);
        }
        // Closing would do, but for a process that is being started right now and has a copy until it is.
        let _ = file.unlock();
        if kept.is_ok() {
            self.files().push(Spare { path, file });
        }
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        for Spare { path, .. } in self.files().drain(..) {
            let _ = fs::remove_file(path);
        }
    }
}
