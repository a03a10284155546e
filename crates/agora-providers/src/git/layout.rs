//! Where a repository keeps what.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::home::read_capped;

/// A file of git's that holds one line.
const LINE_BYTES: u64 = 8 * 1024;
/// How deep repositories borrow from one another.
const BORROWING: usize = 5;

/// A repository's own directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// What belongs to this working tree: HEAD, the index.
    pub(crate) own: PathBuf,
    /// What all its working trees share: refs, objects, configuration. Mostly the same.
    pub(crate) common: PathBuf,
}

impl Layout {
    /// Finds the repository whose working tree has its root here.
    pub(crate) fn of(top: &Path) -> io::Result<Option<Self>> {
        let git = top.join(".git");
        let own = match fs::metadata(&git) {
            Ok(meta) if meta.is_dir() => git,
            Ok(meta) if meta.is_file() => {
                let text = read_capped(&git, LINE_BYTES)?.unwrap_or_default();
                let Some(target) = text.strip_prefix(b"gitdir:") else { return Ok(None) };
                top.join(Path::new(std::ffi::OsStr::from_bytes(target.trim_ascii())))
            }
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if !own.join("HEAD").exists() {
            return Ok(None);
        }
        let common = match read_capped(&own.join("commondir"), LINE_BYTES)? {
            Some(text) => own.join(Path::new(std::ffi::OsStr::from_bytes(text.trim_ascii()))),
            None => own.clone(),
        };
        Ok(Some(Self { own: fs::canonicalize(own)?, common: fs::canonicalize(common)? }))
    }

    /// Finds the repository that somebody names: by its working tree, or by itself, if it has none.
    pub(crate) fn named(dir: &Path) -> io::Result<Option<Self>> {
        if let Some(layout) = Self::of(dir)? {
            return Ok(Some(layout));
        }
        if !dir.join("HEAD").is_file() || !dir.join("objects").is_dir() {
            return Ok(None);
        }
        let own = fs::canonicalize(dir)?;
        Ok(Some(Self { common: own.clone(), own }))
    }

    /// Returns the directories that objects are in, with those that are borrowed from.
    pub(crate) fn objects(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        collect(&self.common.join("objects"), BORROWING, &mut found);
        found
    }
}

fn collect(objects: &Path, deep: usize, found: &mut Vec<PathBuf>) {
    let Ok(objects) = fs::canonicalize(objects) else { return };
    if found.contains(&objects) {
        return;
    }
    found.push(objects.clone());
    let text = read_capped(&objects.join("info/alternates"), 1 << 20).ok().flatten().unwrap_or_default();
    if deep > 0 {
        for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty() && line[0] != b'#') {
            collect(&objects.join(Path::new(std::ffi::OsStr::from_bytes(line))), deep - 1, found);
        }
    }
}

/// Finds the root of the working tree that a directory lies in.
pub(crate) fn top_of(dir: &Path) -> io::Result<Option<PathBuf>> {
    for above in dir.ancestors() {
        if Layout::of(above)?.is_some() {
            return Ok(Some(above.to_owned()));
        }
    }
    Ok(None)
}
