//! The workspace as a place to write to, whatever is in it already: no link of it is ever followed.

use std::fmt;
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use agora_core::BundlePath;
use agora_core::bundle::FileMode;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::OverlayError;

/// Opens only a directory that is one itself: a link fails, and a pipe is not waited for.
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Opens only a file that was not there: nobody's link, pipe or second name of another file is written to.
const NEW_FILE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The mode of directories that are made.
const DIRECTORY_MODE: Mode = Mode::from_bits_retain(0o755);

/// What is in a file's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Where the file itself belongs. Anything else there is replaced.
    Directory,
    /// Where a directory belongs that the file is in: a link, a file, or something stranger.
    NoDirectory,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Directory => "a directory",
            Self::NoDirectory => "not a directory",
        })
    }
}

/// A directory that files are written below.
pub(super) struct Workspace {
    root: OwnedFd,
    /// The directories down to the last file's, open. Files come in order, so that each is opened once.
    way: Vec<(String, OwnedFd)>,
}

impl Workspace {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let root = openat(CWD, root, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty())?;
        Ok(Self { root, way: Vec::new() })
    }

    /// Makes an empty file in place of what is there, and the directories down to it.
    pub(super) fn create(&mut self, path: &BundlePath, mode: FileMode) -> Result<File, OverlayError> {
        let failed = |error: Errno| OverlayError::Io { path: path.clone(), source: error.into() };
        self.enter(path)?;
        let (dir, name) = (self.here(), name_of(path));
        let create = || openat(dir, name, NEW_FILE, Mode::from_raw_mode(bits(mode).into()));
        let file = match create() {
            Err(Errno::EXIST) => {
                let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                    return Err(in_the_way(path, path.as_str(), Obstacle::Directory));
                }
                unlinkat(dir, name, AtFlags::empty()).map_err(failed)?;
                create()
            }
            created => created,
        };
        file.map(File::from).map_err(failed)
    }

    /// Removes the file that was just made: half a file is nobody's.
    pub(super) fn remove(&self, path: &BundlePath) {
        // What happened before is what is told; if this fails too, the workspace is given up all the same.
        let _ = unlinkat(self.here(), name_of(path), AtFlags::empty());
    }

    /// Gives a written file its exact mode, whatever the umask took, and returns what it is now.
    pub(super) fn settle(file: &File, mode: FileMode) -> io::Result<Metadata> {
        let metadata = file.metadata()?;
        if metadata.mode() & 0o7777 == u32::from(bits(mode)) {
            return Ok(metadata);
        }
        file.set_permissions(Permissions::from_mode(u32::from(bits(mode))))?;
        file.metadata()
    }

    /// Opens the directory of a path, and makes what is missing on the way.
    fn enter(&mut self, path: &BundlePath) -> Result<(), OverlayError> {
        let dirs: Vec<&str> =
            path.as_str().rsplit_once('/').map_or(Vec::new(), |(dirs, _)| dirs.split('/').collect());
        let shared = self.way.iter().zip(&dirs).take_while(|((open, _), dir)| open == *dir).count();
        self.way.truncate(shared);
        for (depth, name) in dirs.iter().enumerate().skip(shared) {
            let opened = open_or_make(self.here(), name).map_err(|error| match error {
                Errno::NOTDIR | Errno::LOOP => {
                    in_the_way(path, &dirs[..=depth].join("/"), Obstacle::NoDirectory)
                }
                error => OverlayError::Io { path: path.clone(), source: error.into() },
            })?;
            self.way.push(((*name).to_owned(), opened));
        }
        Ok(())
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.way.last().map_or(&self.root, |(_, dir)| dir).as_fd()
    }
}

fn open_or_make(parent: BorrowedFd<'_>, name: &str) -> rustix::io::Result<OwnedFd> {
    match openat(parent, name, DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT) => {
            match mkdirat(parent, name, DIRECTORY_MODE) {
                // Another thread was faster, and gives it its mode.
                Err(Errno::EXIST) => return openat(parent, name, DIRECTORY, Mode::empty()),
                made => made?,
            }
            let made = openat(parent, name, DIRECTORY, Mode::empty())?;
            let mode = Mode::from_raw_mode(fstat(&made)?.st_mode);
            if !mode.contains(DIRECTORY_MODE) {
                fchmod(&made, mode | DIRECTORY_MODE)?;
            }
            Ok(made)
        }
        opened => opened,
    }
}

fn name_of(path: &BundlePath) -> &str {
    path.as_str().rsplit_once('/').map_or(path.as_str(), |(_, name)| name)
}

fn bits(mode: FileMode) -> u16 {
    match mode {
        FileMode::Plain => 0o644,
        FileMode::Executable => 0o755,
    }
}

fn in_the_way(path: &BundlePath, at: &str, found: Obstacle) -> OverlayError {
    OverlayError::InTheWay { path: path.clone(), at: at.to_owned(), found }
}
