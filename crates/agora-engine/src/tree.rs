//! Reads a directory as a capability. Every entry is looked at without following it, and opened so that neither a
//! link nor a pipe put there meanwhile is followed or waited on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use agora_core::blobs::Pack;
use agora_core::bundle::{Bundle, Capability, Encoded, FileEntry, FileMode, Manifest, TreeError};
use agora_core::credential::{self, Pattern};
use agora_core::limits::{CAPABILITY_BYTES, CAPABILITY_FILES};
use agora_core::path::PathParseError;
use agora_core::{BundlePath, ContentHash};
use rustix::fs::OFlags;

use crate::error::Error;

/// Why one entry of a directory cannot be part of a capability.
#[derive(Debug, thiserror::Error)]
pub enum TreeFault {
    #[error("it is a symbolic link; put a copy of the file there")]
    Symlink,
    #[error("it is neither a file nor a directory, but {0}")]
    Special(&'static str),
    #[error("its name is not UTF-8")]
    NotUtf8,
    #[error(transparent)]
    Path(PathParseError),
    #[error("it changed while it was read")]
    Changed,
    #[error(transparent)]
    Io(io::Error),
}

/// A capability that was read, checked, and is not stored yet.
#[derive(Debug)]
pub(crate) struct ReadTree {
    pub(crate) manifest: Encoded,
    pub(crate) pack: Pack,
}

/// A file that was found, before it is read.
struct Found {
    path: BundlePath,
    on_disk: PathBuf,
}

/// Reads every file below a directory. `prefix` goes in front of each path, and ends with a slash or is empty.
pub(crate) fn read(dir: &Path, prefix: &str, allowed: &[Pattern]) -> Result<ReadTree, Error> {
    let tree_error = |source| Error::Tree { dir: dir.to_owned(), source };
    let mut found = walk(dir, prefix)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    let mut files = Vec::with_capacity(found.len());
    let mut pack: Vec<u8> = Vec::new();
    for file in found {
        let shown = || shown(&file.on_disk);
        let start = pack.len();
        let room = CAPABILITY_BYTES - start as u64;
        let mode =
            append(&file.on_disk, room, &mut pack).map_err(|fault| Error::File { path: shown(), fault })?;
        if pack.len() as u64 > CAPABILITY_BYTES {
            return Err(tree_error(TreeError::TooLarge(total_size(dir, prefix)?)));
        }
        let content = &pack[start..];
        if let Some(hit) = credential::find(content, allowed) {
            return Err(Error::Credential { place: format!("`{}`", shown()), hit });
        }
        files.push(FileEntry {
            path: file.path,
            mode,
            size: content.len() as u64,
            sha256: ContentHash::of(content),
        });
    }
    let capability = Capability::new(files).map_err(tree_error)?;
    let manifest = Manifest::new(Bundle::Capability(capability)).encode().map_err(Error::Canonical)?;
    Ok(ReadTree { manifest, pack: Pack::just_read(pack) })
}

/// Finds every file below a directory, and refuses whatever is not a file or a directory.
fn walk(dir: &Path, prefix: &str) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    let mut open = vec![(dir.to_owned(), prefix.to_owned())];
    while let Some((dir, prefix)) = open.pop() {
        let unreadable = |source| Error::Unreadable { file: dir.clone(), source };
        for entry in fs::read_dir(&dir).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let on_disk = entry.path();
            let refused = |fault| Error::File { path: shown(&on_disk), fault };
            let name = entry.file_name();
            let name = name.to_str().ok_or_else(|| refused(TreeFault::NotUtf8))?;
            let path = format!("{prefix}{name}")
                .parse::<BundlePath>()
                .map_err(|error| refused(TreeFault::Path(error)))?;
            let kind = entry.file_type().map_err(|error| refused(TreeFault::Io(error)))?;
            if kind.is_dir() {
                open.push((on_disk, format!("{path}/")));
            } else if kind.is_file() {
                found.push(Found { path, on_disk });
            } else {
                return Err(refused(special(kind)));
            }
            if found.len() > CAPABILITY_FILES {
                return Err(Error::Tree { dir, source: TreeError::TooManyFiles(found.len()) });
            }
        }
    }
    Ok(found)
}

fn special(kind: fs::FileType) -> TreeFault {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_symlink() {
        TreeFault::Symlink
    } else if kind.is_fifo() {
        TreeFault::Special("a pipe (FIFO)")
    } else if kind.is_socket() {
        TreeFault::Special("a socket")
    } else {
        TreeFault::Special("a device")
    }
}

/// Appends a file's content, up to one byte more than there is room for, and returns its mode.
fn append(path: &Path, room: u64, pack: &mut Vec<u8>) -> Result<FileMode, TreeFault> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let mut file: File =
        OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(TreeFault::Io)?;
    let meta = file.metadata().map_err(TreeFault::Io)?;
    if !meta.is_file() {
        return Err(TreeFault::Changed);
    }
    let start = pack.len() as u64;
    pack.reserve(usize::try_from(meta.len().min(room) + 1).unwrap_or(0));
    file.by_ref().take(room + 1).read_to_end(pack).map_err(TreeFault::Io)?;
    if pack.len() as u64 - start != meta.len().min(room + 1) {
        return Err(TreeFault::Changed);
    }
    Ok(if meta.mode() & 0o100 == 0 { FileMode::Plain } else { FileMode::Executable })
}

/// Adds up what is there, so that an error can name the size. Only for a directory that is too large.
fn total_size(dir: &Path, prefix: &str) -> Result<u64, Error> {
    let sizes = walk(dir, prefix)?
        .into_iter()
        .map(|file| fs::symlink_metadata(file.on_disk).map_or(0, |meta| meta.len()));
    Ok(sizes.sum())
}

/// Shows a path on one line, whatever its name is made of.
fn shown(path: &Path) -> String {
    path.to_string_lossy()
        .chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}
