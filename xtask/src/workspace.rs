//! Where the files of the project are.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use crate::{environment, failure::Failure, process::Program};

/// What is never part of the project, where git cannot be asked.
const NOT_OURS: [&str; 3] = [".git", ".parts", "target"];

/// Returns the root of the workspace: `xtask` is directly below it.
pub(crate) fn root() -> PathBuf {
    let own = environment::manifest_directory();
    own.parent().map_or_else(|| own.clone(), Path::to_path_buf)
}

/// Returns the project's files relative to the root, including those that git does not know yet.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    // The directory may belong to another user, as in many CI containers; git would refuse to read it.
    let listed = Program::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .directory(root)
        .run_quietly();
    let mut files = match listed {
        Ok(names) => names.split_terminator('\0').map(PathBuf::from).collect(),
        // An unpacked archive has no history, and is checked all the same.
        Err(_) => walk(root)?,
    };
    // A file may be deleted but still known to git.
    files.retain(|file| root.join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

fn walk(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let entries =
            fs::read_dir(&directory).map_err(|source| Failure::file("list", &directory, &source))?;
        for entry in entries {
            let entry = entry.map_err(|source| Failure::file("list", &directory, &source))?;
            let kind =
                entry.file_type().map_err(|source| Failure::file("look at", &entry.path(), &source))?;
            if kind.is_dir() && !NOT_OURS.map(OsStr::new).contains(&entry.file_name().as_os_str()) {
                directories.push(entry.path());
            } else if kind.is_file() {
                files.extend(entry.path().strip_prefix(root).map(Path::to_path_buf));
            }
        }
    }
    Ok(files)
}

/// Reads a file of the project.
pub(crate) fn read(root: &Path, file: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(root.join(file)).map_err(|source| Failure::file("read", file, &source))
}

/// Returns whether a file's name ends in this.
pub(crate) fn name_ends_with(file: &Path, end: &str) -> bool {
    file.as_os_str().as_bytes().ends_with(end.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{Path, fs, walk};

    #[test]
    fn an_unpacked_archive_is_walked_without_what_is_built() {
        let root = tempfile::tempdir().unwrap();
        for directory in ["target/debug", "crates/a"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        fs::write(root.path().join("target/debug/a.rs"), "").unwrap();
        fs::write(root.path().join("crates/a/b.rs"), "").unwrap();
        assert_eq!(walk(root.path()).unwrap(), [Path::new("crates/a/b.rs")]);
    }
}
