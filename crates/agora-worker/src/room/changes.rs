//! What changed, in one stream: whatever stands at each of some paths, and where nothing stands any more.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::archive::{self, Cap, Onto, Packer, SnapshotError, at, is_absence};
use crate::patch::Among;
use crate::patch::root::Root;

/// Writes what stands at the paths of a tree.
pub(crate) fn pack<W: Write>(tree: &Path, paths: &Among, cap: Cap, into: W) -> Result<W, SnapshotError> {
    let root = Root::open(tree).map_err(at(tree))?;
    let mut packer = Packer::new(&root, cap, into);
    for path in paths.paths() {
        let below = Path::new(OsStr::from_bytes(path));
        match root.stat(path) {
            Ok(stat) => packer.put(below, &stat)?,
            // What lies in a directory that is gone is gone with it; and nothing lies beneath a link.
            Err(_) if !parent_is_dir(&root, below) => {}
            Err(error) if is_absence(&error) => packer.put_gone(below)?,
            Err(error) => return Err(at(below)(error)),
        }
    }
    packer.finish()
}

/// Tells whether the directory of a path is one, all the way from the root.
fn parent_is_dir(root: &Root, below: &Path) -> bool {
    below.parent().is_none_or(|parent| root.dir(parent.as_os_str().as_bytes()).is_ok())
}

/// Puts what changed back, over what did not.
pub(crate) fn unpack(from: impl Read, cap: Cap, root: &Path) -> Result<(), SnapshotError> {
    archive::unpack(from, cap, root, Onto::Tree)
}
