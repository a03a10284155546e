//! How much a directory takes.

use std::fs;
use std::io;
use std::path::Path;

/// Adds up the files below a directory. Links are not followed; what is gone, or closed to us, takes nothing.
pub(super) fn below(dir: &Path) -> io::Result<u64> {
    let mut waiting = vec![dir.to_owned()];
    let mut bytes = 0;
    while let Some(dir) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries {
            let entry = entry?;
            let Ok(meta) = entry.path().symlink_metadata() else { continue };
            if meta.is_dir() {
                waiting.push(entry.path());
            } else {
                bytes += meta.len();
            }
        }
    }
    Ok(bytes)
}
