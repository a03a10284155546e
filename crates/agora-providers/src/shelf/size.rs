//! How much a file or a directory takes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Adds up a file, or the files below a directory. Links are not followed; what is gone, or closed to us, takes nothing.
pub(crate) fn of(path: &Path) -> io::Result<u64> {
    let mut waiting = vec![path.to_owned()];
    let mut bytes = 0;
    while let Some(path) = waiting.pop() {
        let Ok(meta) = path.symlink_metadata() else { continue };
        if !meta.is_dir() {
            // A hole takes nothing.
            bytes += meta.len().min(meta.blocks().saturating_mul(512));
            continue;
        }
        let Ok(entries) = fs::read_dir(&path) else { continue };
        for entry in entries {
            waiting.push(entry?.path());
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_takes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("whole"), [7; 10_000]).unwrap();
        fs::File::create(dir.path().join("image")).unwrap().set_len(1 << 30).unwrap();
        assert_eq!(of(dir.path()).unwrap(), 10_000);
    }
}
