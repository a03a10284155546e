//! A lease is a lock on a file, which the kernel gives back when its holder dies.
//!
//! The file loses its name when the lease is given back, so that ended threads leave none. It does so while it is locked; whoever
//! got the lock of a file that has another name or none has got nothing, and tries again. It gets its name when it is locked, too: nobody
//! finds a lease that its taker does not have yet.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agora_core::ThreadId;
use agora_core::provider::Unavailable;
use agora_core::provider::lease::{Lease, Leases};
use async_trait::async_trait;

use super::spare::Spares;
use crate::blocking::blocking;
use crate::home::{Home, list_dir};
use crate::unlocked::Unlocked;

const LEASES: &str = "leases";

/// Hands out leases by locking files under `$AGORA_HOME`.
#[derive(Clone, Debug)]
pub struct LocalLeases {
    home: Home,
    awaited: Unlocked<ThreadId>,
    spares: Arc<Spares>,
}

impl LocalLeases {
    pub fn new(home: Home) -> Self {
        let spares = Arc::new(Spares::new(home.clone()));
        Self { home, awaited: Unlocked::new("lease"), spares }
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
        let file = try_take(&path, &self.spares);
        let file = file.map_err(|error| self.home.unavailable("lock", &path, error))?;
        let lease = |file| LocalLease { path, file: Some(file), spares: Arc::clone(&self.spares) };
        Ok(file.map(|file| Box::new(lease(file)) as Box<dyn Lease>))
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
    /// Until it is given back.
    file: Option<File>,
    spares: Arc<Spares>,
}

impl Lease for LocalLease {}

impl Drop for LocalLease {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            self.spares.keep(&self.path, file);
        }
    }
}

/// Returns the file of a lease, locked. `None`: somebody has it.
fn try_take(path: &Path, spares: &Spares) -> io::Result<Option<File>> {
    loop {
        let Some(file) = open_held(path)? else {
            match spares.take(path)? {
                Some(file) => return Ok(Some(file)),
                None => continue,
            }
        };
        let locked = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(error)) => return Err(error),
        };
        // A file without its name is that of a holder who is just giving it back.
        if is_at(&file, path)? {
            return Ok(locked.then_some(file));
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
