//! The layout of `$AGORA_HOME`, and the one way to replace a file in it.
//!
//! ```text
//!  format                                   which layout this is
//!  blobs/3f/2a…                             bytes, by their own hash
//!  packs/3f/2a…                             a capability's files, by the bundle's hash
//!  registry/<namespace>/<kind>/versions/N   the versions of N, a line each
//!  registry/<namespace>/<kind>/heads/N      the latest of them
//!  registry/<namespace>/<kind>/catalogue    a copy of all heads, for listing
//!  secrets/…sealed keys/…                   values, and the key that opens them
//!  ledger.sqlite   ledger.lock   bell       what happened; whose turn it is to write; who listens
//!  dispatches/<id>/in                       what a dispatch's worker is given, and which process that worker is
//!  dispatches/<id>/out                      what the worker says and leaves; its life is a lock in there
//!  dispatches/<id>/work                     the agent's workspace
//!  bases/<source>/<n>                      a cached copy of what somebody works on
//!  grounds/<thread>                         what of it is the thread's own, and how its work came home
//!  repositories/<url>                       a repository that was fetched
//!  serve.lock  serve.turn                   locked while `agora serve` runs
//!  leases/<thread>                          who carries a thread: a file that is locked while somebody does
//!  codex/                                   a CODEX_HOME: Codex's login that is agora's own
//!  adapters/                                a person's own adapters
//!  trust/<hash of a path>                   which project's `agora.toml` is trusted, with what it held then
//!  notify.json                              why somebody was not told, last
//!  tmp/                                     files that have no name yet, or for the moment
//! ```

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use agora_core::provider::{Outage, Unavailable};
use agora_core::wall::AGENT_ID;
#[cfg(target_os = "linux")]
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

use crate::disk::{Disk, OsDisk};

/// The layout that this agora reads and writes.
const FORMAT: &str = "agora home 2\n";

/// A file in `tmp/` that is older than this belongs to a process that died: none takes an hour to write one.
const ABANDONED_SECONDS: i64 = 3600;
/// How long a process that swept `tmp/` leaves it alone: an engine prepares for every dispatch.
const REST_SECONDS: i64 = 60;

/// What is closed to everybody else, also where an older agora, or whoever made the home, left it open: the home itself, and where
/// it holds copies of what somebody works on.
const PRIVATE: [&str; 4] = ["", "bases", "grounds", "repositories"];

/// Who gave a file its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Now,
    Before,
}

/// A directory that holds everything agora keeps.
#[derive(Clone, Debug)]
pub struct Home {
    root: PathBuf,
    disk: Arc<dyn Disk>,
    /// When `tmp/` was swept last, in seconds.
    swept: Arc<AtomicI64>,
}

impl Home {
    /// Names a directory. Nothing is touched: one that does not exist yet reads as empty.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self::on_disk(root, Arc::new(OsDisk))
    }

    /// Names a directory on a disk of one's own, which a test can make fail.
    pub fn on_disk(root: impl Into<PathBuf>, disk: Arc<dyn Disk>) -> Self {
        Self { root: root.into(), disk, swept: Arc::default() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the directory what it must be before anything is written to it. Cheap when it is that already.
    pub fn prepare(&self) -> Result<(), Unavailable> {
        let marker = self.root.join("format");
        for dir in PRIVATE {
            close(&self.root.join(dir));
        }
        match fs::read_to_string(&marker) {
            Ok(format) if format == FORMAT => {
                // Somebody may have cleaned up: `tmp/` is made again when it is gone.
                self.make_dirs(&self.root.join("tmp"))?;
                self.sweep();
                return Ok(());
            }
            Ok(_) => {
                let newer = io::Error::other("it was made by another version of agora, with another layout");
                return Err(self.unavailable("use", &self.root, newer));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(self.unavailable("read", &marker, error)),
        }
        self.make_dirs(&self.root)?;
        self.make_dirs(&self.root.join("tmp"))?;
        self.replace(&marker, FORMAT.as_bytes())
    }

    /// Makes a directory whose parent exists, without waiting for the disk.
    pub(crate) fn make_dir(&self, dir: &Path) -> Result<(), Unavailable> {
        self.disk.make_dir(dir).map_err(|error| self.unavailable("make the directory", dir, error))
    }

    /// Makes a directory as [`Home::make_dir`] does, and tells the file system that the directories in it have nothing to do with each
    /// other. One that keeps neighbours together (ext4) would keep them all in one place, and look through it each time.
    pub(crate) fn make_dir_of_strangers(&self, dir: &Path) -> Result<(), Unavailable> {
        self.make_dir(dir)?;
        // A hint: what does not take it has another way to find room.
        #[cfg(target_os = "linux")]
        let _ = spread(dir);
        Ok(())
    }

    /// Makes a directory and those above it, each durable.
    pub(crate) fn make_dirs(&self, dir: &Path) -> Result<(), Unavailable> {
        if dir.is_dir() {
            return Ok(());
        }
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.make_dirs(parent)?;
            self.disk
                .make_dir(dir)
                .and_then(|()| self.disk.sync_dir(parent))
                .map_err(|error| self.unavailable("make the directory", dir, error))
        } else {
            self.disk.make_dir(dir).map_err(|error| self.unavailable("make the directory", dir, error))
        }
    }

    /// Puts bytes in place of a file: whoever looks sees the old or the new, whole, also after a crash.
    pub(crate) fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), Unavailable> {
        let staged = self.stage();
        let written = self.disk.write_new(&staged, bytes);
        let dir = path.parent().unwrap_or(&self.root);
        let done =
            written.and_then(|()| self.disk.rename(&staged, path)).and_then(|()| self.disk.sync_dir(dir));
        done.map_err(|error| {
            // Best effort: what is left over is swept later.
            let _ = self.disk.remove(&staged);
            self.unavailable("write", path, error)
        })
    }

    /// Puts bytes in place of a file, and waits for no disk: whoever looks sees the old or the new, whole; after a power loss
    /// perhaps neither.
    pub(crate) fn put(&self, path: &Path, bytes: &[u8]) -> Result<(), Unavailable> {
        self.put_for(path, bytes, 0o600)
    }

    /// The same for whoever the mode lets in, who may be reading what it replaces.
    pub(crate) fn put_for(&self, path: &Path, bytes: &[u8], mode: u32) -> Result<(), Unavailable> {
        let staged = self.stage();
        let write = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&staged)?;
            file.write_all(bytes)?;
            if mode != 0o600 {
                file.set_permissions(Permissions::from_mode(mode))?;
            }
            fs::rename(&staged, path)
        };
        write().map_err(|error| {
            let _ = fs::remove_file(&staged);
            self.unavailable("write", path, error)
        })
    }

    /// Gives bytes a name, unless something has it. Whoever sees the name sees all the bytes.
    pub(crate) fn put_new(&self, path: &Path, bytes: &[u8]) -> Result<Named, Unavailable> {
        let staged = self.stage();
        let done = self.disk.write_new(&staged, bytes).and_then(|()| self.disk.link(&staged, path));
        // Best effort: what is left over is swept later.
        let _ = self.disk.remove(&staged);
        match done {
            Ok(()) => Ok(Named::Now),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Named::Before),
            Err(error) => Err(self.unavailable("write", path, error)),
        }
    }

    /// Writes after the first `offset` bytes of a file that this process has locked.
    pub(crate) fn write_tail(
        &self,
        path: &Path,
        file: &File,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Unavailable> {
        self.disk.write_tail(file, offset, bytes).map_err(|error| self.unavailable("write", path, error))
    }

    /// Takes a file away, durably. One that is not there is no error.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), Unavailable> {
        match self.disk.remove(path) {
            Ok(()) => self.sync_dir(path.parent().unwrap_or(&self.root)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.unavailable("remove", path, error)),
        }
    }

    pub(crate) fn sync_dir(&self, dir: &Path) -> Result<(), Unavailable> {
        self.disk.sync_dir(dir).map_err(|error| self.unavailable("write", dir, error))
    }

    /// Removes what processes that died left in `tmp/`, by the file system's own time, which is the files' time. Whoever
    /// writes next does it; when it cannot be done, that is no reason not to write.
    fn sweep(&self) {
        let tmp = self.root.join("tmp");
        // The time of the last file that was made in there or taken away: it is at least so late, and asking costs no file of our own.
        let Ok(now) = fs::metadata(&tmp).map(|about| about.mtime()) else { return };
        if now < self.swept.load(Ordering::Relaxed).saturating_add(REST_SECONDS) {
            return;
        }
        self.swept.store(now, Ordering::Relaxed);
        for file in list_dir(&tmp).unwrap_or_default() {
            let path = tmp.join(file);
            if fs::metadata(&path).is_ok_and(|about| about.mtime() + ABANDONED_SECONDS < now) {
                // Another process may be sweeping too.
                let _ = self.disk.remove(&path);
            }
        }
    }

    /// Names a file in `tmp/` that nobody else has.
    pub(crate) fn stage(&self) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut random = [0; 8];
        // Two processes of one id, in two containers, must not meet. If there is no randomness, the write fails.
        let _ = getrandom::fill(&mut random);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        self.root.join("tmp").join(format!(
            "{}-{count}-{:016x}",
            std::process::id(),
            u64::from_ne_bytes(random)
        ))
    }

    /// Says what could not be done, with the file named from the home.
    pub(crate) fn unavailable(&self, doing: &str, path: &Path, error: io::Error) -> Unavailable {
        Unavailable {
            doing: format!("{doing} `{}`", path.display()),
            outage: outage(&error),
            source: Box::new(error),
        }
    }

    /// Names a file as a person finds it.
    pub(crate) fn shown(path: &Path) -> String {
        path.display().to_string()
    }
}

/// Sets what `chattr +T` sets, unless it is set.
#[cfg(target_os = "linux")]
fn spread(dir: &Path) -> io::Result<()> {
    let dir = File::open(dir)?;
    let flags = ioctl_getflags(&dir)?;
    if !flags.contains(IFlags::TOPDIR) {
        ioctl_setflags(&dir, flags | IFlags::TOPDIR)?;
    }
    Ok(())
}

/// Makes a directory, and those above it that are missing, for this user only.
pub(crate) fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Closes a directory to others. Where root runs agora, a worker may have let the agent's group go through.
fn close(dir: &Path) {
    let Ok(about) = fs::metadata(dir) else { return };
    let mode = about.mode() & 0o7777;
    let may = if about.gid() == AGENT_ID { 0o7710 } else { 0o7700 };
    if mode & !may != 0 {
        // Somebody else's directory is theirs to close.
        let _ = fs::set_permissions(dir, Permissions::from_mode(mode & may));
    }
}

/// Reads a whole file unless it is larger than `limit`. `None`: there is none.
pub(crate) fn read_capped(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let size = file.metadata()?.len();
    if size > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has {size} bytes, the most is {limit}"),
        ));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Lists a directory by name, in order. One that does not exist is empty.
pub(crate) fn list_dir(dir: &Path) -> io::Result<Vec<OsString>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names =
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn outage(error: &io::Error) -> Outage {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Outage::Full,
        io::ErrorKind::ReadOnlyFilesystem => Outage::ReadOnly,
        io::ErrorKind::PermissionDenied => Outage::Denied,
        _ => Outage::Failed,
    }
}
