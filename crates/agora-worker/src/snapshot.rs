//! A whole tree in one stream: the workspace as an agent left it, or the files of its session.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::FileType;

use crate::archive::{self, Onto, Packer, at};
use crate::patch::root::Root;

pub use crate::archive::{Cap, SnapshotError};

/// A workspace: the cap that the design names.
pub const WORKSPACE: Cap = Cap { bytes: 1024 * 1024 * 1024, entries: 1_000_000 };
/// A session: a long one has some megabytes.
pub const SESSION: Cap = Cap { bytes: 256 * 1024 * 1024, entries: 10_000 };

/// Tells by its path from the root, and by what it is, whether something is kept. A directory that is not is not entered.
type Wanted<'a> = &'a dyn Fn(&[u8], FileType) -> bool;

/// Writes everything below `root` that is wanted.
pub(crate) fn pack<W: Write>(root: &Root, cap: Cap, wanted: Wanted<'_>, into: W) -> Result<W, SnapshotError> {
    let mut packer = Packer::new(root, cap, into);
    pack_dir(&mut packer, (root, cap), b"", wanted)?;
    packer.finish()
}

fn pack_dir<W: Write>(
    packer: &mut Packer<'_, W>,
    (root, cap): (&Root, Cap),
    dir: &[u8],
    wanted: Wanted<'_>,
) -> Result<(), SnapshotError> {
    let most = usize::try_from(cap.entries).unwrap_or(usize::MAX);
    let listed = root.list(dir, most).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => SnapshotError::TooLarge { cap },
        _ => at(Path::new(OsStr::from_bytes(dir)))(error),
    });
    for path in listed? {
        let below = Path::new(OsStr::from_bytes(&path));
        let stat = root.stat(&path).map_err(at(below))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if !wanted(&path, kind) {
            continue;
        }
        packer.put(below, &stat)?;
        if kind == FileType::Directory {
            pack_dir(packer, (root, cap), &path, wanted)?;
        }
    }
    Ok(())
}

/// Puts a tree back below `root`, which must be empty.
pub fn unpack(from: impl Read, cap: Cap, root: &Path) -> Result<(), SnapshotError> {
    archive::unpack(from, cap, root, Onto::Nothing)
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
