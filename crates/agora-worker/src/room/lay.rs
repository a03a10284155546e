//! The files that a workspace is made from: the ground's own over the base's, less what is gone.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::archive::remove;

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

/// The paths that were found, and whether those are all.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) found: Vec<Vec<u8>>,
    /// Nothing is missing: no directory was closed to us, or deeper than any program opens.
    pub(super) whole: bool,
}

impl Default for Paths {
    fn default() -> Self {
        Self { found: Vec::new(), whole: true }
    }
}

impl Paths {
    pub(super) fn push(&mut self, path: &Path) {
        self.found.push(path.as_os_str().as_bytes().to_vec());
    }

    /// Lists a directory of the agent's, which may be as deep and as closed as it liked. One that is not there is empty.
    pub(super) fn list(&mut self, dir: &Path) -> io::Result<Vec<fs::DirEntry>> {
        match fs::read_dir(dir).and_then(Iterator::collect) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(Vec::new())
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidFilename
                ) =>
            {
                self.whole = false;
                Ok(Vec::new())
            }
            listed => listed,
        }
    }
}
