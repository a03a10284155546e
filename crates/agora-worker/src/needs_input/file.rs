//! Reads a file that an agent wrote, or was tricked into having written.
//!
//! No link is followed on the way to it, nothing but a regular file is opened, and no more than the cap is read: a FIFO
//! would hang us, `/dev/zero` has no end, and a link to a key would put the key into a question.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

/// What is at a path of the agent's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// At most one byte more than the cap, so that whoever reads it can tell.
    Bytes(Vec<u8>),
    /// Something, but no regular file reached without a link.
    NotAFile(&'static str),
}

/// Reads the file at `path` from the workspace's root.
pub(crate) fn read(root: &Path, path: &Path, cap: u64) -> io::Result<Found> {
    let mut parts = path.components().peekable();
    let mut dir = match openat(CWD, root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(dir) => dir,
        Err(Errno::NOENT) => return Ok(Found::Nothing),
        Err(error) => return Err(error.into()),
    };
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Ok(Found::NotAFile("outside the workspace")) };
        let kind = match statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(Errno::NOENT) => return Ok(Found::Nothing),
            Err(Errno::NOTDIR) => return Ok(Found::NotAFile("below a file")),
            Err(error) => return Err(error.into()),
        };
        match (kind, parts.peek().is_some()) {
            (FileType::Directory, true) => {
                dir = open_below(&dir, name, OFlags::DIRECTORY)?;
            }
            (FileType::RegularFile, false) => {
                return read_regular(open_below(&dir, name, OFlags::NONBLOCK | OFlags::NOCTTY)?, cap);
            }
            (other, true) => return Ok(Found::NotAFile(below(other))),
            (other, false) => return Ok(Found::NotAFile(word(other))),
        }
    }
    Ok(Found::NotAFile("a directory"))
}

fn open_below(dir: &OwnedFd, name: &std::ffi::OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(dir, name, flags, Mode::empty())?)
}

fn read_regular(file: OwnedFd, cap: u64) -> io::Result<Found> {
    // Looked at again once it is open: it may have been exchanged in between.
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if kind != FileType::RegularFile {
        return Ok(Found::NotAFile(word(kind)));
    }
    let mut bytes = Vec::new();
    File::from(file).take(cap + 1).read_to_end(&mut bytes)?;
    Ok(Found::Bytes(bytes))
}

/// Says where a path leads that has something else than a directory on its way.
fn below(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "below a file",
        FileType::Symlink => "below a symbolic link",
        FileType::Directory
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => "below something that is no directory",
    }
}

fn word(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of an unknown kind",
    }
}
