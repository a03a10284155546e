//! What changed, in one stream: whatever stands at each of some paths, and where nothing stands any more.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::archive::{self, Cap, Onto, Packer, SnapshotError, at, is_absence};
use crate::patch::Among;

/// Writes what stands at the paths of a tree.
pub(crate) fn pack<W: Write>(tree: &Path, paths: &Among, cap: Cap, into: W) -> Result<W, SnapshotError> {
    let mut packer = Packer::new(tree, cap, into);
    for path in paths.paths() {
        let below = Path::new(OsStr::from_bytes(path));
        // What lies in a directory that is gone is gone with it; and nothing lies beneath a link.
        if !parent_is_dir(tree, below) {
            continue;
        }
        let full = tree.join(below);
        match fs::symlink_metadata(&full) {
            Ok(data) => packer.put(below, &data)?,
            Err(error) if is_absence(&error) => packer.put_gone(below)?,
            Err(error) => return Err(at(&full)(error)),
        }
    }
    packer.finish()
}

/// Tells whether the directory of a path is one, all the way from the root.
fn parent_is_dir(tree: &Path, below: &Path) -> bool {
    let mut way = tree.to_owned();
    below.parent().into_iter().flat_map(Path::components).all(|part| {
        way.push(part);
        fs::symlink_metadata(&way).is_ok_and(|data| data.is_dir())
    })
}

/// Puts what changed back, over what did not.
pub(crate) fn unpack(from: impl Read, cap: Cap, root: &Path) -> Result<(), SnapshotError> {
    archive::unpack(from, cap, root, Onto::Tree)
}
