//! A file or a link, as git counts them, and what of a tree is one.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use agora_core::git::patch::{PathBytes, is_refused};

use super::walk::at;

pub(super) const FILE: &str = "100644";
pub(super) const PROGRAM: &str = "100755";
pub(super) const LINK: &str = "120000";
pub(super) const SUBMODULE: &str = "160000";

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blob {
    /// As git writes it.
    pub(super) mode: String,
    /// A link's are what it says.
    pub(super) bytes: Vec<u8>,
}

/// A path with what stands there.
pub(super) type Standing = (PathBytes, Option<Blob>);

impl Blob {
    /// Reads what stands at a path below a root. What lies behind a link is not below it, and what is no file is nothing.
    pub(super) fn read(root: &Path, path: &[u8]) -> io::Result<Option<Self>> {
        if is_refused(path) {
            return Ok(None);
        }
        for above in above(path) {
            match fs::symlink_metadata(at(root, above)) {
                Ok(data) if data.is_dir() => {}
                Ok(_) => return Ok(None),
                Err(error) => return absent(error),
            }
        }
        let path = at(root, path);
        let data = match fs::symlink_metadata(&path) {
            Ok(data) => data,
            Err(error) => return absent(error),
        };
        if data.is_symlink() {
            let bytes = fs::read_link(path)?.into_os_string().into_vec();
            return Ok(Some(Self { mode: LINK.to_owned(), bytes }));
        }
        if !data.is_file() {
            return Ok(None);
        }
        let mode = if data.permissions().mode() & 0o100 == 0 { FILE } else { PROGRAM };
        Ok(Some(Self { mode: mode.to_owned(), bytes: fs::read(path)? }))
    }
}

fn absent(error: io::Error) -> io::Result<Option<Blob>> {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
        _ => Err(error),
    }
}

/// Returns every directory that a path lies in, the outermost first.
pub(super) fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    (0..path.len()).filter(|&at| path[at] == b'/').map(|cut| &path[..cut])
}
