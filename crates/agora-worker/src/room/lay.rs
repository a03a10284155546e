//! The files that a workspace is made from: the ground's own over the base's, less what is gone.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a workspace stands on. Only read.
#[derive(Debug)]
pub(super) struct Lower {
    /// The topmost first.
    pub(super) trees: Vec<PathBuf>,
    /// Paths of the base that are not there, and that nothing of the ground's own takes the place of.
    pub(super) gone: Vec<PathBuf>,
}

impl Lower {
    pub(super) fn new(ground: &Path, base: Option<PathBuf>) -> io::Result<Self> {
        let files = ground.join("files");
        let gone = fs::read(ground.join("gone"))?;
        let gone = gone.split(|&byte| byte == 0).filter(|path| !path.is_empty());
        let gone = gone.map(|path| PathBuf::from(OsStr::from_bytes(path)));
        let gone = gone.filter(|path| fs::symlink_metadata(files.join(path)).is_err()).collect();
        Ok(Self { trees: [files].into_iter().chain(base).collect(), gone })
    }

    /// Takes what is gone away from a place that has all the files.
    pub(super) fn remove_gone(&self, work: &Path) -> io::Result<()> {
        for path in &self.gone {
            remove(&work.join(path))?;
        }
        Ok(())
    }
}

/// Removes whatever has a name. Nothing need have it.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let done = match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match done {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        done => done,
    }
}
