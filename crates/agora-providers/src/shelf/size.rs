//! How much a file or a directory takes.

use std::fs;
use std::io;
use std::path::Path;

/// Adds up a file, or the files below a directory. Links are not followed; what is gone, or closed to us, takes nothing.
pub(crate) fn of(path: &Path) -> io::Result<u64> {
    let mut waiting = vec![path.to_owned()];
    let mut bytes = 0;
    while let Some(path) = waiting.pop() {
        let Ok(meta) = path.symlink_metadata() else { continue };
        if !meta.is_dir() {
            bytes += meta.len();
            continue;
        }
        let Ok(entries) = fs::read_dir(&path) else { continue };
        for entry in entries {
            waiting.push(entry?.path());
        }
    }
    Ok(bytes)
}
