//! Opens what lies below a root that the agent writes to, and nothing else: no symbolic link is followed on the way.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, readlinkat, statat,
};
use rustix::io::Errno;

use super::ignored::join;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Not blocking: what was a file a moment ago may be a FIFO now.
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

#[derive(Debug)]
pub(crate) struct Root {
    dir: OwnedFd,
}

/// Why a file was not read.
#[derive(Debug)]
pub(super) enum Unread {
    TooLarge,
    /// It is gone, not a file, or not for us.
    Unreadable,
}

impl Root {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { dir: openat(CWD, path, DIRECTORY, Mode::empty())? })
    }

    /// Takes a directory below as a root of its own.
    pub(crate) fn enter(&self, path: &[u8]) -> io::Result<Self> {
        Ok(Self { dir: self.dir(path)? })
    }

    /// Opens a directory; the empty path is the root itself.
    pub(crate) fn dir(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        self.below(path, DIRECTORY | OFlags::NOFOLLOW)
    }

    /// Returns the paths of what a directory lists, in order, if that are at most so many.
    pub(crate) fn list(&self, path: &[u8], most: usize) -> io::Result<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        for entry in Dir::new(self.dir(path)?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                found.push(join(path, name));
            }
            if found.len() > most {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
        }
        found.sort();
        Ok(found)
    }

    pub(crate) fn file(&self, path: &[u8]) -> io::Result<(File, Stat)> {
        regular(self.below(path, FILE)?)
    }

    /// Reads a whole file, if it has at most `most` bytes.
    pub(super) fn read(&self, path: &[u8], most: u64) -> Result<Vec<u8>, Unread> {
        let (file, stat) = self.file(path).map_err(|_| Unread::Unreadable)?;
        read_up_to(&file, &stat, most)
    }

    pub(crate) fn link(&self, path: &[u8]) -> io::Result<Box<[u8]>> {
        let (parent, name) = parted(path);
        Ok(readlinkat(self.dir(parent)?, name, Vec::new())?.into_bytes().into())
    }

    /// Looks at what stands at a path, which may be a link.
    pub(crate) fn stat(&self, path: &[u8]) -> io::Result<Stat> {
        let (parent, name) = parted(path);
        Ok(statat(self.dir(parent)?, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn below(&self, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(&self.dir, path, flags, Mode::empty(), resolve) {
            // Some sandboxes do not know the call, or do not allow it.
            Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => self.step_by_step(path, flags),
            opened => Ok(opened?),
        }
    }

    fn step_by_step(&self, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        let mut steps = path.split(|&byte| byte == b'/').peekable();
        let mut here = self.dir.try_clone()?;
        while let Some(step) = steps.next() {
            let flags = if steps.peek().is_some() { DIRECTORY | OFlags::NOFOLLOW } else { flags };
            here = openat(here, step, flags, Mode::empty())?;
        }
        Ok(here)
    }
}

/// Parts a path into its directory and its name there.
fn parted(path: &[u8]) -> (&[u8], &[u8]) {
    let cut = path.iter().rposition(|&byte| byte == b'/');
    cut.map_or((&b""[..], path), |cut| (&path[..cut], &path[cut + 1..]))
}

/// Opens a file of a directory that is open already.
pub(super) fn file_in(dir: impl AsFd, name: impl rustix::path::Arg) -> io::Result<(File, Stat)> {
    regular(openat(dir, name, FILE, Mode::empty())?)
}

fn regular(opened: OwnedFd) -> io::Result<(File, Stat)> {
    let stat = fstat(&opened)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    Ok((File::from(opened), stat))
}

/// Reads an open file, if it has at most `most` bytes, and also if it grows meanwhile.
pub(super) fn read_up_to(file: &File, stat: &Stat, most: u64) -> Result<Vec<u8>, Unread> {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if size > most {
        return Err(Unread::TooLarge);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(most + 1).read_to_end(&mut bytes).map_err(|_| Unread::Unreadable)?;
    if bytes.len() as u64 > most { Err(Unread::TooLarge) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_is_opened_through_a_link_or_above_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        std::fs::create_dir_all(path.join("root/sub/deep")).unwrap();
        std::fs::write(path.join("outside"), "x").unwrap();
        std::fs::write(path.join("root/sub/deep/file"), "y").unwrap();
        symlink("sub", path.join("root/link")).unwrap();
        symlink("../outside", path.join("root/out")).unwrap();
        let root = Root::open(&path.join("root")).unwrap();

        assert_eq!(root.read(b"sub/deep/file", 1).unwrap(), b"y");
        assert!(matches!(root.read(b"sub/deep/file", 0), Err(Unread::TooLarge)));
        assert_eq!(*root.link(b"link").unwrap(), *b"sub");
        for flags in [FILE, DIRECTORY | OFlags::NOFOLLOW] {
            for path in [&b"link/deep"[..], b"out", b"link"] {
                assert!(root.below(path, flags).is_err(), "{path:?}");
                assert!(root.step_by_step(path, flags).is_err(), "{path:?}");
            }
        }
        assert!(root.read(b"../outside", 9).is_err());
        assert!(root.step_by_step(b"sub/deep/file", FILE).is_ok());
    }

    #[test]
    fn a_fifo_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let root = Root::open(dir.path()).unwrap();
        assert!(matches!(root.read(b"fifo", 9), Err(Unread::Unreadable)));
    }
}
