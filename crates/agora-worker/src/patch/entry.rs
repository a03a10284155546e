//! What stands at a path, and where its original bytes are.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::Stat;

/// A path below the root, as bytes, without a slash at either end.
pub(super) type Name = Box<[u8]>;

/// Tells whether a file is still the one that was looked at. Whoever changes a file, or sets its times, changes its
/// ctime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    pub dev: u64,
    pub ino: u64,
    pub size: u64,
    pub mtime_ns: i128,
    pub ctime_ns: i128,
}

impl Fingerprint {
    pub fn of(stat: &Stat) -> Self {
        let nanoseconds = |seconds: i128, rest: i128| seconds * 1_000_000_000 + rest;
        Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime_ns: nanoseconds(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
            ctime_ns: nanoseconds(stat.st_ctime.into(), stat.st_ctime_nsec.into()),
        }
    }
}

impl From<&Metadata> for Fingerprint {
    fn from(data: &Metadata) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            dev: data.dev(),
            ino: data.ino(),
            size: data.size(),
            mtime_ns: nanoseconds(data.mtime(), data.mtime_nsec()),
            ctime_ns: nanoseconds(data.ctime(), data.ctime_nsec()),
        }
    }
}

/// What stood at a path.
#[derive(Clone, Debug)]
pub(super) enum Node {
    File(FileNode),
    /// A symbolic link, with the bytes it points to.
    Link(Box<[u8]>),
}

#[derive(Clone, Debug)]
pub(super) struct FileNode {
    pub(super) executable: bool,
    /// A file that still looks like this has not changed. `None` when looks could deceive.
    pub(super) seen: Option<Fingerprint>,
    pub(super) original: Original,
}

/// The content of a file as it was.
#[derive(Clone, Debug)]
pub(super) enum Original {
    Kept(Slice),
    TooLarge,
    Unreadable,
    /// It was lost at a pause: the changed files were too large to carry all of them.
    NotCarried,
}

/// A file that the agent cannot reach.
#[derive(Clone, Debug)]
pub(super) enum Stock {
    Open(Arc<File>),
    /// Opened when it is needed: there may be more of them than a process has open.
    At(Arc<Path>),
}

impl Stock {
    fn open(&self) -> io::Result<Arc<File>> {
        match self {
            Self::Open(file) => Ok(Arc::clone(file)),
            Self::At(path) => Ok(Arc::new(File::open(path)?)),
        }
    }
}

/// Bytes that lie in a file that the agent cannot reach.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub(super) file: Stock,
    pub(super) offset: u64,
    pub(super) len: u64,
    /// What is known without reading them.
    pub(super) sha256: Option<[u8; 32]>,
}

impl Slice {
    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        let len = usize::try_from(self.len).map_err(io::Error::other)?;
        let mut bytes = vec![0; len];
        self.file.open()?.read_exact_at(&mut bytes, self.offset)?;
        Ok(bytes)
    }

    pub(super) fn reader(&self) -> SliceReader<'_> {
        SliceReader { slice: self, file: None, at: 0 }
    }
}

/// Reads a slice piece by piece.
#[derive(Debug)]
pub(super) struct SliceReader<'a> {
    slice: &'a Slice,
    file: Option<Arc<File>>,
    at: u64,
}

impl Read for SliceReader<'_> {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.slice.len - self.at).unwrap_or(usize::MAX);
        let most = piece.len().min(left);
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(self.slice.file.open()?),
        };
        let read = file.read_at(&mut piece[..most], self.slice.offset + self.at)?;
        if read == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += read as u64;
        Ok(read)
    }
}

/// Tells whether git would call a file of this mode executable.
pub(super) fn executable(stat: &Stat) -> bool {
    stat.st_mode & 0o100 != 0
}

/// Paths in order, so that what lies beneath or above one is found quickly.
#[derive(Clone, Debug)]
pub(super) struct Sorted<T>(Vec<(Name, T)>);

impl<T> Sorted<T> {
    pub(super) fn new(mut items: Vec<(Name, T)>) -> Self {
        items.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        items.dedup_by(|one, other| one.0 == other.0);
        Self(items)
    }

    pub(super) fn items(&self) -> &[(Name, T)] {
        &self.0
    }

    pub(super) fn find(&self, path: &[u8]) -> Option<usize> {
        self.0.binary_search_by(|item| (*item.0).cmp(path)).ok()
    }

    /// Tells whether something lies in that directory, at any depth.
    pub(super) fn beneath(&self, path: &[u8]) -> bool {
        let first = [path, b"/"].concat();
        let at = self.0.partition_point(|item| *item.0 < *first);
        self.0.get(at).is_some_and(|item| item.0.starts_with(&first))
    }

    /// Finds what is at the path, or stands where it needs a directory.
    pub(super) fn at_or_above(&self, path: &[u8]) -> Option<usize> {
        if self.0.is_empty() {
            return None;
        }
        self.find(path).or_else(|| above(path).find_map(|ancestor| self.find(ancestor)))
    }

    /// Tells whether a file at that path and these could not be there together.
    pub(super) fn in_the_way(&self, path: &[u8]) -> bool {
        self.at_or_above(path).is_some() || self.beneath(path)
    }
}

/// Returns the directories that a path lies in, the nearest first.
pub(super) fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    (0..path.len()).rev().filter(|&at| path[at] == b'/').map(|at| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beneath_and_above_is_found() {
        let of = |paths: &[&str]| {
            Sorted::new(paths.iter().map(|path| (Name::from(path.as_bytes()), ())).collect())
        };
        let sorted = of(&["a.txt", "a/b/c", "a!", "z"]);
        assert!(sorted.beneath(b"a") && sorted.beneath(b"a/b"));
        assert!(!sorted.beneath(b"a/b/c") && !sorted.beneath(b"a.tx") && !sorted.beneath(b"z"));
        assert_eq!(sorted.at_or_above(b"z/y/x"), sorted.find(b"z"));
        assert_eq!(sorted.at_or_above(b"a/b/d"), None);
        assert!(sorted.in_the_way(b"a") && sorted.in_the_way(b"z/y") && !sorted.in_the_way(b"a/x"));
        assert_eq!(above(b"a/b/c").collect::<Vec<_>>(), [&b"a/b"[..], b"a"]);
    }
}
