//! Where a repository keeps what.
//!
//! A `.git` that is a file or a link, and a `commondir`, say that the repository is somewhere else. Whoever made the working tree made them,
//! so they are believed only as far as the other side says the same: git writes both, for a worktree and for a submodule.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::config;
use crate::straight;

/// A file of git's that holds one line.
const LINE_BYTES: u64 = 8 * 1024;
pub(crate) const CONFIG_BYTES: u64 = 4 << 20;

/// A repository's own directories, by their true paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// What belongs to this working tree: HEAD, the index.
    pub(crate) own: PathBuf,
    /// What all its working trees share: refs, objects, configuration. Mostly the same.
    pub(crate) common: PathBuf,
    /// Somebody's word led here: it is not where a repository is that nobody says anything of.
    pub(super) is_led: bool,
}

impl Layout {
    /// Finds the repository whose working tree has its root here.
    pub(crate) fn of(top: &Path) -> io::Result<Option<Self>> {
        let git = top.join(".git");
        let kind = match fs::symlink_metadata(&git) {
            Ok(meta) => meta.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let top = fs::canonicalize(top)?;
        let (own, is_led) = if kind.is_file() {
            let text = straight::read(&top.join(".git"), LINE_BYTES)?.unwrap_or_default();
            let Some(target) = text.strip_prefix(b"gitdir:") else { return Ok(None) };
            (top.join(path_of(target)), true)
        } else {
            (git, kind.is_symlink())
        };
        if !fs::metadata(&own).is_ok_and(|meta| meta.is_dir())
            || fs::symlink_metadata(own.join("HEAD")).is_err()
        {
            return Ok(None);
        }
        let own = fs::canonicalize(own)?;
        if is_led && !own.starts_with(&top) && !says_back(&own, &top)? {
            let (own, top) = (own.display(), top.display());
            return Err(io::Error::other(format!(
                "its `.git` leads to `{own}`, which does not say that it is the repository of this tree; if it is, say so: \
                 `git worktree repair`, or `git --git-dir='{own}' config core.worktree '{top}'`"
            )));
        }
        let common = match straight::read(&own.join("commondir"), LINE_BYTES)? {
            Some(text) => fs::canonicalize(own.join(path_of(&text)))?,
            None => own.clone(),
        };
        // That is where git keeps what belongs to one of several working trees.
        if common != own && own.parent() != Some(&common.join("worktrees")) {
            let (own, common) = (own.display(), common.display());
            let why =
                format!("`{own}` says that it is a part of `{common}`, which keeps its parts elsewhere");
            return Err(io::Error::other(why));
        }
        Ok(Some(Self { own, common, is_led }))
    }

    /// Finds the repository that somebody names: by its working tree, or by itself, if it has none.
    pub(crate) fn named(dir: &Path) -> io::Result<Option<Self>> {
        if let Some(layout) = Self::of(dir)? {
            return Ok(Some(layout));
        }
        if !dir.join("HEAD").is_file() || !dir.join("objects").is_dir() {
            return Ok(None);
        }
        Ok(Some(Self::bare(fs::canonicalize(dir)?)))
    }

    /// Names the repository that is a directory itself.
    pub(crate) fn bare(dir: PathBuf) -> Self {
        Self { common: dir.clone(), own: dir, is_led: false }
    }
}

fn path_of(text: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(text.trim_ascii()))
}

/// Tells whether a repository says that a directory is a working tree of it.
fn says_back(own: &Path, top: &Path) -> io::Result<bool> {
    let is = |said: &Path, meant: &Path| fs::canonicalize(own.join(said)).is_ok_and(|said| said == meant);
    // One of several working trees.
    if let Some(text) = straight::read(&own.join("gitdir"), LINE_BYTES)?
        && is(path_of(&text), &top.join(".git"))
    {
        return Ok(true);
    }
    // A submodule.
    for file in ["config", "config.worktree"] {
        let bytes = straight::read(&own.join(file), CONFIG_BYTES)?.unwrap_or_default();
        let settings = config::parse(&String::from_utf8_lossy(&bytes));
        let mut worktrees =
            settings.iter().filter(|setting| (&*setting.section, &*setting.key) == ("core", "worktree"));
        if worktrees.any(|setting| is(Path::new(&setting.value), top)) {
            return Ok(true);
        }
    }
    Ok(false)
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
