//! Removing what an agent left, which may be as deep and as closed as it liked.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What an owner needs to empty a directory.
const OPEN: u32 = 0o700;
/// How often a directory is emptied again that was not empty after all. Nothing runs in it any more.
const ROUNDS: u32 = 3;

/// Removes whatever has a name. Links are removed, not followed; what is gone is fine.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) => return gone_is_fine(Err(error)),
    };
    if !meta.is_dir() {
        return gone_is_fine(fs::remove_file(path));
    }
    let mut round = 1;
    loop {
        empty(path)?;
        match gone_is_fine(fs::remove_dir(path)) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && round < ROUNDS => round += 1,
            done => return done,
        }
    }
}

/// Empties a directory. Directories in directories are moved up into it first, one after another: however deep a tree is,
/// no path is long, and no call waits for another.
fn empty(root: &Path) -> io::Result<()> {
    open(root)?;
    let mut waiting = files_away(root)?;
    let mut count = 0_u64;
    while let Some(name) = waiting.pop() {
        let dir = root.join(&name);
        if !fs::symlink_metadata(&dir).is_ok_and(|meta| meta.is_dir()) {
            continue;
        }
        open(&dir)?;
        for below in files_away(&dir)? {
            let below = dir.join(below);
            // A directory that gets another parent is written to.
            open(&below)?;
            waiting.push(move_up(&below, root, &mut count)?);
        }
        gone_is_fine(fs::remove_dir(&dir))?;
    }
    Ok(())
}

/// Removes what is no directory, and returns the directories.
fn files_away(dir: &Path) -> io::Result<Vec<OsString>> {
    let mut dirs = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            dirs.push(entry.file_name());
        } else {
            gone_is_fine(fs::remove_file(entry.path()))?;
        }
    }
    Ok(dirs)
}

/// Moves a directory into the root, under a name that is free.
fn move_up(dir: &Path, root: &Path, count: &mut u64) -> io::Result<OsString> {
    loop {
        *count += 1;
        let name = OsString::from(format!(".clearing-{count}"));
        let to: PathBuf = root.join(&name);
        // Onto an empty directory a rename would succeed, too, and there would be one less to remove.
        match fs::rename(dir, to) {
            Ok(()) => return Ok(name),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty
                        | io::ErrorKind::AlreadyExists
                        | io::ErrorKind::NotADirectory
                ) => {}
            Err(error) => return Err(error),
        }
    }
}

fn open(dir: &Path) -> io::Result<()> {
    let mode = fs::symlink_metadata(dir)?.permissions().mode();
    if mode & OPEN == OPEN { Ok(()) } else { fs::set_permissions(dir, Permissions::from_mode(OPEN)) }
}

fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{Mode, OFlags, mkdirat, openat};

    use super::*;

    #[test]
    fn a_tree_goes_and_what_its_links_name_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, other) = (dir.path().join("tree"), dir.path().join("other"));
        fs::create_dir_all(tree.join("a/b/c")).unwrap();
        fs::create_dir_all(tree.join(".clearing-1/x")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("kept"), "").unwrap();
        fs::write(tree.join("a/b/file"), "").unwrap();
        symlink(&other, tree.join("a/link")).unwrap();
        symlink(&other, dir.path().join("link")).unwrap();
        for closed in ["a/b/c", "a/b", "a", ""] {
            fs::set_permissions(tree.join(closed), Permissions::from_mode(0o500)).unwrap();
        }
        remove(&tree).unwrap();
        remove(&tree).unwrap();
        remove(&dir.path().join("link")).unwrap();
        assert!(!tree.exists());
        assert!(other.join("kept").exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn no_tree_is_too_deep() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let mut at = openat(rustix::fs::CWD, &tree, OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..3000 {
            mkdirat(&at, "deeper", Mode::RWXU).unwrap();
            at = openat(&at, "deeper", OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        remove(&tree).unwrap();
        assert!(!tree.exists());
    }
}
