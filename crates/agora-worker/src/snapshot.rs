//! A whole tree in one stream: the workspace as an agent left it, or the files of its session.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use crate::archive::{self, Onto, Packer, at};

pub use crate::archive::{Cap, SnapshotError};

/// A workspace: the cap that the design names.
pub const WORKSPACE: Cap = Cap { bytes: 1024 * 1024 * 1024, entries: 1_000_000 };
/// A session: a long one has some megabytes.
pub const SESSION: Cap = Cap { bytes: 256 * 1024 * 1024, entries: 10_000 };

/// Writes everything below `root` that `wanted` lets in. It gets paths from the root; a directory that it refuses is not
/// entered.
pub fn pack<W: Write>(
    root: &Path,
    cap: Cap,
    wanted: &dyn Fn(&Path) -> bool,
    into: W,
) -> Result<W, SnapshotError> {
    let mut packer = Packer::new(root, cap, into);
    pack_dir(&mut packer, root, Path::new(""), wanted)?;
    packer.finish()
}

fn pack_dir<W: Write>(
    packer: &mut Packer<'_, W>,
    root: &Path,
    below: &Path,
    wanted: &dyn Fn(&Path) -> bool,
) -> Result<(), SnapshotError> {
    let path = root.join(below);
    let mut names: Vec<_> = fs::read_dir(&path)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.file_name())).collect())
        .map_err(at(&path))?;
    names.sort();
    for below in names.iter().map(|name| below.join(name)).filter(|below| wanted(below)) {
        let path = root.join(&below);
        let data = fs::symlink_metadata(&path).map_err(at(&path))?;
        packer.put(&below, &data)?;
        if data.is_dir() {
            pack_dir(packer, root, &below, wanted)?;
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
