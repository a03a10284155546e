//! A file that has no name until it is whole.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};

/// A new file. When it is dropped without a name, nothing is left of it.
#[derive(Debug)]
pub(crate) struct Unnamed {
    pub(crate) file: File,
    /// Where the file system has no files without a name, it has one that nobody looks for.
    staged: Option<PathBuf>,
}

impl Unnamed {
    /// Makes one on the file system of a directory.
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        match openat(CWD, dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
            Ok(file) => Ok(Self { file: file.into(), staged: None }),
            Err(_) => Self::staged(dir),
        }
    }

    fn staged(dir: &Path) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!(".unnamed-{}-{count}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        Ok(Self { file, staged: Some(path) })
    }

    /// Gives it its name, which nothing else may have.
    pub(crate) fn link(self, path: &Path) -> io::Result<File> {
        match &self.staged {
            Some(staged) => fs::hard_link(staged, path)?,
            None => {
                let itself = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                linkat(CWD, itself, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
            }
        }
        self.file.try_clone()
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        if let Some(staged) = &self.staged {
            let _ = fs::remove_file(staged);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_gets_its_name_when_it_is_whole_and_only_one_does() {
        for make in [Unnamed::new, Unnamed::staged] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("named");
            let mut unnamed = make(dir.path()).unwrap();
            unnamed.file.write_all(b"whole").unwrap();
            assert!(!path.exists());
            unnamed.link(&path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
            let second = make(dir.path()).unwrap().link(&path).unwrap_err();
            assert_eq!(second.kind(), io::ErrorKind::AlreadyExists);
            drop(make(dir.path()).unwrap());
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
        }
    }
}
