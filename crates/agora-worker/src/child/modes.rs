//! What a program can do to files that it may not even open: change their modes, where it is the same user as the worker. Landlock has no
//! right for that, so it is undone.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What the owner of a directory and of a file needs.
const DIRECTORY: u32 = 0o700;
const FILE: u32 = 0o600;
/// To read them.
const READ_DIRECTORY: u32 = 0o500;
const READ_FILE: u32 = 0o400;

/// Lets the worker read and write again what is in a directory of its own. For when the program has ended.
pub(super) fn mend(dir: &Path) {
    mend_one(dir);
    for entry in entries(dir) {
        mend_one(&entry);
    }
}

/// The same for one path alone.
pub(crate) fn mend_one(path: &Path) {
    give(path, DIRECTORY, FILE);
}

fn give(path: &Path, directory: u32, file: u32) {
    // What is not ours to mend was not the program's to break.
    let Ok(about) = fs::symlink_metadata(path) else { return };
    let (needed, mode) = (if about.is_dir() { directory } else { file }, about.permissions().mode());
    if !about.is_symlink() && mode & needed != needed {
        let _ = fs::set_permissions(path, Permissions::from_mode(mode | needed));
    }
}

/// The same for a directory with all that is in it, however deep.
pub(crate) fn mend_all(dir: &Path) {
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        mend_one(&path);
        left.extend(entries(&path));
    }
}

/// Lets the worker read what is in a directory, and changes no more than that.
pub(crate) fn reveal(dir: &Path) {
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        give(&path, READ_DIRECTORY, READ_FILE);
        left.extend(entries(&path));
    }
}

/// Removes a directory with all that is in it, also what was closed.
pub(crate) fn remove_dir_all(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            mend_all(dir);
            fs::remove_dir_all(dir)
        }
        removed => removed,
    }
}

/// Returns what is in a directory that is one itself.
fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let is_dir = fs::symlink_metadata(dir).is_ok_and(|about| about.is_dir());
    let entries = is_dir.then(|| fs::read_dir(dir)).into_iter().flatten().flatten();
    entries.filter_map(Result::ok).map(|entry| entry.path())
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
    #[test]
    fn what_was_closed_goes_and_nothing_is_opened_through_a_link() {
        let keep = tempfile::tempdir().unwrap();
        let (dir, other) = (keep.path().join("dir"), keep.path().join("other"));
        fs::create_dir_all(dir.join("a/b")).unwrap();
        fs::create_dir(&other).unwrap();
        for closed in [&other, &dir.join("a/b"), &dir.join("a")] {
            fs::set_permissions(closed, Permissions::from_mode(0o000)).unwrap();
        }
        std::os::unix::fs::symlink(&other, dir.join("link")).unwrap();
        mend_all(&dir);
        mend_all(&dir.join("link"));
        assert_eq!(fs::metadata(dir.join("a/b")).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(&other).unwrap().permissions().mode() & 0o777, 0);
        fs::set_permissions(dir.join("a"), Permissions::from_mode(0o000)).unwrap();
        remove_dir_all(&dir).unwrap();
        assert!(!dir.exists() && other.exists());
    }
}
