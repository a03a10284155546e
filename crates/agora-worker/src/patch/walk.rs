//! Walks a workspace: one look at each path, no symbolic link followed, no `.git` entered.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{AtFlags, Dir, FileType, Stat, readlinkat, statat};
use rustix::io::Errno;

use super::PatchError;
use super::among::Among;
use super::ignored::{Allowance, Rules, join};
use super::root::{Root, file_in};

/// The longest path that Linux opens and that git applies.
const LONGEST: usize = 4095;

/// How many bytes of paths of directories may wait to be walked. Two million usual ones, and then only those that
/// matter.
const WAITING: usize = 128 << 20;

/// What belongs to agora, at the root.
const OWN: &[u8] = b".agora";

/// A file or a link.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) path: &'a [u8],
    pub(super) kind: Kind,
    pub(super) stat: &'a Stat,
    /// Git's rules say to ignore it; it may be tracked all the same.
    pub(super) ignored: bool,
    dir: BorrowedFd<'a>,
    name: &'a CStr,
    rules: Option<&'a Rules>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Link,
}

impl Found<'_> {
    pub(super) fn tracked(&self) -> bool {
        self.rules.is_some_and(|rules| rules.tracks(self.path))
    }

    pub(super) fn open(&self) -> io::Result<(std::fs::File, Stat)> {
        file_in(self.dir, self.name)
    }

    pub(super) fn target(&self) -> io::Result<Box<[u8]>> {
        Ok(readlinkat(self.dir, self.name, Vec::new())?.into_bytes().into())
    }
}

/// What is in the workspace and no part of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outside {
    /// A file that git ignores, or a directory with nothing in it that counts.
    Ignored,
    /// A FIFO, a socket or a device.
    Special,
    /// A repository's own directory or file.
    Git,
    /// A directory that could not be listed.
    Unreadable,
    /// Its path is longer than any program opens.
    TooLong,
    /// A directory too many.
    TooMany,
}

/// Is told what a walk meets, in no certain order.
pub(super) trait Visitor {
    /// Tells whether a directory must be looked into whatever the rules say.
    fn wants(&self, dir: &[u8]) -> bool;
    fn found(&mut self, found: &Found<'_>) -> Result<(), PatchError>;
    fn outside(&mut self, path: &[u8], what: Outside) -> Result<(), PatchError>;
}

struct Waiting {
    path: Vec<u8>,
    rules: Option<Rc<Rules>>,
    ignored: bool,
}

struct Walk<'a, V> {
    root: &'a Root,
    among: Option<&'a Among>,
    visitor: &'a mut V,
    waiting: Vec<Waiting>,
    /// The bytes of the paths that wait.
    weight: usize,
    allowance: Allowance,
}

/// Walks all of a workspace, or only those paths that are meant.
pub(super) fn walk(root: &Root, among: Option<&Among>, visitor: &mut impl Visitor) -> Result<(), PatchError> {
    let first = root.dir(b"").map_err(|source| PatchError::Root { source })?;
    let allowance = Allowance::default();
    let mut walk = Walk { root, among, visitor, waiting: Vec::new(), weight: 0, allowance };
    walk.list(first, Waiting { path: Vec::new(), rules: None, ignored: false })?;
    while let Some(next) = walk.waiting.pop() {
        walk.weight -= next.path.len();
        match root.dir(&next.path) {
            Ok(dir) => walk.list(dir, next)?,
            Err(_) => walk.visitor.outside(&next.path, Outside::Unreadable)?,
        }
    }
    Ok(())
}

impl<V: Visitor> Walk<'_, V> {
    fn list(&mut self, dir: OwnedFd, here: Waiting) -> Result<(), PatchError> {
        let rules = Rules::enter(here.rules.clone(), self.root, &here.path, dir.as_fd(), &mut self.allowance);
        let here = Waiting { rules, ..here };
        if let Some(among) = self.among {
            for name in among.children(&here.path).filter(|name| !(here.path.is_empty() && *name == OWN)) {
                let Ok(name) = CString::new(name) else { continue };
                self.meet(&here, dir.as_fd(), &name, FileType::Unknown)?;
            }
            return Ok(());
        }
        let mut entries = match Dir::new(dir) {
            Ok(entries) => entries,
            Err(error) => return self.unreadable(&here.path, error),
        };
        while let Some(entry) = entries.read() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return self.unreadable(&here.path, error),
            };
            let name = entry.file_name();
            let own = here.path.is_empty() && name.to_bytes() == OWN;
            if !own && !matches!(name.to_bytes(), b"." | b"..") {
                match entries.fd() {
                    Ok(dir) => self.meet(&here, dir, name, entry.file_type())?,
                    Err(error) => return self.unreadable(&here.path, error),
                }
            }
        }
        Ok(())
    }

    fn unreadable(&mut self, path: &[u8], error: Errno) -> Result<(), PatchError> {
        if path.is_empty() {
            return Err(PatchError::Root { source: error.into() });
        }
        self.visitor.outside(path, Outside::Unreadable)
    }

    fn meet(
        &mut self,
        here: &Waiting,
        dir: BorrowedFd<'_>,
        name: &CStr,
        hint: FileType,
    ) -> Result<(), PatchError> {
        let path = join(&here.path, name.to_bytes());
        if name.to_bytes() == b".git" && self.is_there(dir, name) {
            return self.visitor.outside(&path, Outside::Git);
        }
        if path.len() > LONGEST {
            return self.visitor.outside(&path, Outside::TooLong);
        }
        if hint == FileType::Directory {
            return self.directory(here, path);
        }
        // Whatever is gone by now is not there.
        let Ok(stat) = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(()) };
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => return self.directory(here, path),
            FileType::RegularFile => Kind::File,
            FileType::Symlink => Kind::Link,
            _ => return self.visitor.outside(&path, Outside::Special),
        };
        let rules = here.rules.as_deref();
        let ignored = here.ignored || rules.is_some_and(|rules| rules.ignores(&path, false));
        self.visitor.found(&Found { path: &path, kind, stat: &stat, ignored, dir, name, rules })
    }

    /// Tells whether something has that name. Of what a directory lists, everything has.
    fn is_there(&self, dir: BorrowedFd<'_>, name: &CStr) -> bool {
        self.among.is_none() || statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    fn directory(&mut self, here: &Waiting, path: Vec<u8>) -> Result<(), PatchError> {
        let rules = here.rules.as_deref();
        let ignored = here.ignored || rules.is_some_and(|rules| rules.ignores(&path, true));
        let tracked = ignored && rules.is_some_and(|rules| rules.tracks_beneath(&path));
        if ignored && !tracked && !self.visitor.wants(&path) {
            return self.visitor.outside(&path, Outside::Ignored);
        }
        if self.weight > WAITING && !self.visitor.wants(&path) {
            return self.visitor.outside(&path, Outside::TooMany);
        }
        self.weight += path.len();
        self.waiting.push(Waiting { path, rules: here.rules.clone(), ignored });
        Ok(())
    }
}
