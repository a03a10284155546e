//! What a program can do to files that it may not even open: change their modes, where it is the same user as the worker. Landlock has no
//! right for that, so it is undone.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What the owner of a directory and of a file needs.
const DIRECTORY: u32 = 0o700;
const FILE: u32 = 0o600;

/// Lets the worker read and write again what is in a directory of its own. For when the program has ended.
pub(super) fn mend(dir: &Path) {
    mend_one(dir);
    for entry in fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
        mend_one(&entry.path());
    }
}

/// The same for one path alone.
pub(super) fn mend_one(path: &Path) {
    // What is not ours to mend was not the program's to break.
    let Ok(about) = fs::symlink_metadata(path) else { return };
    let (needed, mode) = (if about.is_dir() { DIRECTORY } else { FILE }, about.permissions().mode());
    if !about.is_symlink() && mode & needed != needed {
        let _ = fs::set_permissions(path, Permissions::from_mode(mode | needed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_closed_is_open_again_and_the_rest_is_as_it_was() {
        let keep = tempfile::tempdir().unwrap();
        let dir = keep.path().join("out");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        fs::create_dir(&dir).unwrap();
        for (name, mode) in [("closed", 0), ("open", 0o644)] {
            fs::write(dir.join(name), "").unwrap();
            set(&dir.join(name), mode);
        }
        set(&dir, 0);
        mend(&dir);
        assert_eq!([mode(&dir), mode(&dir.join("closed")), mode(&dir.join("open"))], [0o700, 0o600, 0o644]);
    }
}
