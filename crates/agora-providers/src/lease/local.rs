//! A lease is a lock on a file, which the kernel gives back when its holder dies.
//!
//! The file goes when the lease is given back, so that ended threads leave none. It is unlinked while it is locked; whoever
//! got the lock of a file that has no name any more has got nothing, and tries again.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use agora_core::ThreadId;
use agora_core::provider::Unavailable;
use agora_core::provider::lease::{Lease, Leases};
use async_trait::async_trait;
use tokio::sync::watch;

use crate::blocking::blocking;
use crate::home::{Home, list_dir};

const LEASES: &str = "leases";
/// Enough for a thread that waits for one system call.
const STACK: usize = 128 * 1024;

/// Hands out leases by locking files under `$AGORA_HOME`.
#[derive(Clone, Debug)]
pub struct LocalLeases {
    home: Home,
    /// Those that somebody waits for: a thread for each, however many wait and however often they ask.
    awaited: Arc<Mutex<HashMap<ThreadId, watch::Receiver<bool>>>>,
}

impl LocalLeases {
    pub fn new(home: Home) -> Self {
        Self { home, awaited: Arc::default() }
    }

    /// Returns when whoever has the lease now does not have it any more.
    async fn freed(&self, thread: &ThreadId, path: &Path) -> io::Result<()> {
        let mut freed = self.await_it(thread, path)?;
        // A thread that died without a word has told nobody anything.
        freed.wait_for(|freed| *freed).await.map(drop).map_err(io::Error::other)
    }

    fn await_it(&self, thread: &ThreadId, path: &Path) -> io::Result<watch::Receiver<bool>> {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(freed) = awaited.get(thread) {
            return Ok(freed.clone());
        }
        let (sender, freed) = watch::channel(false);
        let (all, named, path) = (Arc::clone(&self.awaited), thread.clone(), path.to_owned());
        let waiting = move || {
            let waited = wait(&path);
            all.lock().unwrap_or_else(PoisonError::into_inner).remove(&named);
            if waited.is_ok() {
                let _ = sender.send(true);
            }
        };
        thread::Builder::new().name("lease".into()).stack_size(STACK).spawn(waiting)?;
        awaited.insert(thread.clone(), freed.clone());
        Ok(freed)
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
            let freed = self.freed(thread, &path).await;
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

/// Returns when whoever has it now does not have it any more. It makes no file: the process may end while this waits for nobody,
/// and would leave it.
fn wait(path: &Path) -> io::Result<()> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    loop {
        match file.lock_shared() {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
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
