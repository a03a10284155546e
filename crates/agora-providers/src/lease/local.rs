//! A lease is a lock on a file, which the kernel gives back when its holder dies.
//!
//! The file goes when the lease is given back, so that ended threads leave none. It is unlinked while it is locked; whoever
//! got the lock of a file that has no name any more has got nothing, and tries again.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use agora_core::ThreadId;
use agora_core::provider::Unavailable;
use agora_core::provider::lease::{Lease, Leases};
use async_trait::async_trait;

use crate::blocking::blocking;
use crate::home::{Home, list_dir};
use crate::unlocked::Unlocked;

const LEASES: &str = "leases";

/// Hands out leases by locking files under `$AGORA_HOME`.
#[derive(Clone, Debug)]
pub struct LocalLeases {
    home: Home,
    awaited: Unlocked<ThreadId>,
}

impl LocalLeases {
    pub fn new(home: Home) -> Self {
        Self { home, awaited: Unlocked::new("lease") }
    }

    /// Names a thread's file, in a directory that exists.
    fn file(&self, thread: &ThreadId) -> Result<PathBuf, Unavailable> {
        let dir = self.home.root().join(LEASES);
        if !dir.is_dir() {
            self.home.prepare()?;
            self.home.make_dir(&dir)?;
        }
        Ok(dir.join(thread.as_str()))
    }
}

#[async_trait]
impl Leases for LocalLeases {
    async fn try_take(&self, thread: &ThreadId) -> Result<Option<Box<dyn Lease>>, Unavailable> {
        let path = self.file(thread)?;
        let taken = try_take(&path).map_err(|error| self.home.unavailable("lock", &path, error))?;
        Ok(taken.map(|lease| Box::new(lease) as Box<dyn Lease>))
    }

    async fn take(&self, thread: &ThreadId) -> Result<Box<dyn Lease>, Unavailable> {
        loop {
            if let Some(lease) = self.try_take(thread).await? {
                return Ok(lease);
            }
            let path = self.file(thread)?;
            let freed = self.awaited.wait(thread, || open_held(&path)).await;
            freed.map_err(|error| self.home.unavailable("lock", &path, error))?;
        }
    }

    async fn list(&self) -> Result<Vec<ThreadId>, Unavailable> {
        let (this, dir) = (self.clone(), self.home.root().join(LEASES));
        let names =
            blocking(move || list_dir(&dir).map_err(|error| this.home.unavailable("read", &dir, error)));
        Ok(names.await?.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
    }
}

/// A locked file.
#[derive(Debug)]
struct LocalLease {
    path: PathBuf,
    file: File,
}

impl Lease for LocalLease {}

impl Drop for LocalLease {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // Closing would do, but for a process that is being started right now and has a copy until it is.
        let _ = self.file.unlock();
    }
}

fn try_take(path: &Path) -> io::Result<Option<LocalLease>> {
    loop {
        let file = open(path)?;
        let locked = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(error)) => return Err(error),
        };
        // A file without its name is that of a holder who is just giving it back.
        if is_at(&file, path)? {
            return Ok(locked.then(|| LocalLease { path: path.to_owned(), file }));
        }
    }
}

/// Opens a lease that somebody has. It makes no file: the process may end while it waits for nobody, and would leave it.
fn open_held(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Tells whether a path names the very file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(named) => {
            let open = file.metadata()?;
            Ok((named.dev(), named.ino()) == (open.dev(), open.ino()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
