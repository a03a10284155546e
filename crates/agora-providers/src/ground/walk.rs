//! Looks at every path of a source: one stat each, nothing opened but directories, nothing waited for. What is never visible to an
//! agent is passed over unopened.

use std::ffi::OsStr;
use std::io;
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use agora_core::wall::Never;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, statat};

use super::index::{Entry, Kind};

/// More threads than this find no more.
const THREADS: usize = 4;
/// The longest path that Linux opens.
const LONGEST: usize = 4095;

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// In the order of their paths.
    pub(super) entries: Vec<Entry>,
    /// Directories that have a `.git`, from the root; the root itself is the empty path.
    pub(super) repositories: Vec<Box<[u8]>>,
    /// What is there and was not looked at: never visible, or closed to us.
    pub(super) passed_over: Vec<Box<[u8]>>,
}

impl Found {
    fn extend(&mut self, more: Self) {
        self.entries.extend(more.entries);
        self.repositories.extend(more.repositories);
        self.passed_over.extend(more.passed_over);
    }
}

/// Walks a source. A directory that is `not` is no part of it: a home of agora's may lie in what somebody works on.
pub(super) fn walk(root: &Path, not: &Path, never: Option<&Never>) -> io::Result<Found> {
    let not = statat(CWD, not, AtFlags::empty()).ok().map(|stat| (stat.st_dev, stat.st_ino));
    let top = openat(CWD, root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    drop(top);
    let queue = Queue::default();
    queue.push(Vec::new());
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS);
    let never = Hidden::of(root, never);
    let walker = Walker { root, not, never: &never, queue: &queue };
    let mut found = thread::scope(|scope| {
        // Where there are no more threads to be had, fewer do it.
        let more =
            |_| thread::Builder::new().name("ground-walk".into()).spawn_scoped(scope, || walker.work()).ok();
        let others: Vec<_> = (1..threads).filter_map(more).collect();
        let mut found = walker.work();
        for other in others {
            // A walker has nothing to panic about.
            if let Ok(more) = other.join() {
                found.extend(more);
            }
        }
        found
    });
    found.entries.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    found.repositories.sort_unstable();
    found.passed_over.sort_unstable();
    Ok(found)
}

/// What of a source is never visible, by paths from its root. Of nearly every source: nothing.
#[derive(Debug)]
struct Hidden(Vec<Vec<u8>>);

impl Hidden {
    fn of(root: &Path, never: Option<&Never>) -> Self {
        let below = never.into_iter().flat_map(|never| never.below(root));
        let from_root =
            |path: PathBuf| path.strip_prefix(root).ok().map(|below| below.as_os_str().as_bytes().to_vec());
        Self(below.filter_map(from_root).collect())
    }

    /// Tells whether a path is one of them. Nobody comes to what is below one.
    fn holds(&self, path: &[u8]) -> bool {
        self.0.iter().any(|hidden| match hidden.strip_suffix(b"*") {
            Some(start) => path.strip_prefix(start).is_some_and(|rest| !rest.contains(&b'/')),
            None => path == hidden,
        })
    }
}

/// Directories that wait to be listed.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<Waiting>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    directories: Vec<Vec<u8>>,
    /// Those that wait and those that are being listed.
    open: usize,
}

impl Queue {
    fn push(&self, directory: Vec<u8>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.directories.push(directory);
        state.open += 1;
        self.news.notify_one();
    }

    /// Returns the next one. `None`: there are no more, and none can come.
    fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(directory) = state.directories.pop() {
                return Some(directory);
            }
            if state.open == 0 {
                return None;
            }
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open -= 1;
        if state.open == 0 {
            self.news.notify_all();
        }
    }
}

struct Walker<'a> {
    root: &'a Path,
    not: Option<(u64, u64)>,
    never: &'a Hidden,
    queue: &'a Queue,
}

impl Walker<'_> {
    fn work(&self) -> Found {
        let mut found = Found::default();
        while let Some(directory) = self.queue.next() {
            // What is gone has nothing to take; what is closed to us is said to be there.
            if let Err(error) = self.list(&directory, &mut found)
                && error.kind() == io::ErrorKind::PermissionDenied
            {
                found.passed_over.push(directory.into());
            }
            self.queue.done();
        }
        found
    }

    fn list(&self, below: &[u8], found: &mut Found) -> io::Result<()> {
        let path = at(self.root, below);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let flags = if below.is_empty() { flags.difference(OFlags::NOFOLLOW) } else { flags };
        let mut dir = Dir::new(openat(CWD, &path, flags, Mode::empty())?)?;
        while let Some(entry) = dir.read() {
            let entry = entry?;
            let name = entry.file_name();
            match name.to_bytes() {
                b"." | b".." => continue,
                b".git" => {
                    found.repositories.push(below.into());
                    continue;
                }
                _ => {}
            }
            let path = if below.is_empty() {
                name.to_bytes().to_vec()
            } else {
                [below, b"/", name.to_bytes()].concat()
            };
            if self.never.holds(&path) {
                found.passed_over.push(path.into());
                continue;
            }
            let Ok(stat) = statat(dir.fd()?, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if self.not == Some((stat.st_dev, stat.st_ino)) => continue,
                FileType::Directory => Kind::Directory,
                FileType::RegularFile => Kind::File,
                FileType::Symlink => Kind::Link,
                _ => continue,
            };
            if path.len() > LONGEST {
                continue;
            }
            if kind == Kind::Directory {
                self.queue.push(path.clone());
            }
            found.entries.push(entry_of(path.into(), kind, &stat));
        }
        Ok(())
    }
}

pub(super) fn entry_of(path: Box<[u8]>, kind: Kind, stat: &Stat) -> Entry {
    let nanoseconds = |seconds: i64, rest: u64| {
        seconds.saturating_mul(1_000_000_000).saturating_add(i64::try_from(rest).unwrap_or(0))
    };
    Entry {
        path,
        kind,
        mode: stat.st_mode & 0o7777,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
        ctime_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        inode: stat.st_ino,
        kept: true,
    }
}

/// Names a file by its path from a root.
pub(super) fn at(root: &Path, below: &[u8]) -> PathBuf {
    if below.is_empty() { root.to_owned() } else { root.join(OsStr::from_bytes(below)) }
}
