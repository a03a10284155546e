//! Files for leases that have no thread's name yet: new ones, and those of leases that were given back, kept for the next.
//!
//! A lease's file is locked before it has its name. Others look after each lease that they find, and would have one that is not held yet.
//!
//! An engine takes and gives back a lease for every thread. To make a file for each and to remove it again is what a file system may be
//! slow at: ext4 without a journal does not give an inode out again for minutes, and looks past all of those whenever it makes a file
//! beside them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

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

    /// Gives a file this name, locked. `None`: somebody has the name, or got at the file; it is worth another look.
    pub(super) fn take(&self, name: &Path) -> io::Result<Option<File>> {
        let spare = self.files().pop();
        // What is in `tmp/` for a while may be swept.
        let may_be_gone = spare.is_some();
        let Spare { path, file } = spare.map_or_else(|| self.make(), Ok)?;
        // Whoever waited for the lease that it was is told by having the lock, for a moment.
        let named = match file.try_lock() {
            Ok(()) => give_name(&path, name),
            Err(_) => Err(io::ErrorKind::AlreadyExists.into()),
        };
        let Err(error) = named else { return Ok(Some(file)) };
        let _ = fs::remove_file(path);
        match error.kind() {
            io::ErrorKind::AlreadyExists => Ok(None),
            io::ErrorKind::NotFound if may_be_gone => Ok(None),
            _ => Err(error),
        }
    }

    fn make(&self) -> io::Result<Spare> {
        let make = || -> io::Result<Spare> {
            let path = self.home.stage();
            let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            Ok(Spare { path, file })
        };
        match make() {
            // Somebody has cleaned up.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.home.prepare().map_err(io::Error::other)?;
                make()
            }
            made => made,
        }
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

/// Gives a file a name that nothing has, in place of its own.
fn give_name(path: &Path, name: &Path) -> io::Result<()> {
    match renameat_with(CWD, path, CWD, name, RenameFlags::NOREPLACE) {
        // Not every file system has it.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            fs::hard_link(path, name)?;
            fs::remove_file(path)
        }
        named => Ok(named?),
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        for Spare { path, .. } in self.files().drain(..) {
            let _ = fs::remove_file(path);
        }
    }
}
