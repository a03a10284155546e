//! What an agent made of what: its patch, and the files as they were when they were taken.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use agora_core::git::patch::{self, Change, PathBytes, quoted};
use agora_core::ground::Ground;
use agora_core::wire::report::PatchReport;

use super::base::BASES;
use super::blob::{Blob, Standing, above};
use super::homecoming::left;
use super::own::Why;
use super::take::{FILES, GONE};
use super::walk::at;

/// No patch of a worker's is larger.
const PATCH_BYTES: u64 = 300 << 20;

/// A patch, and what of it counts.
#[derive(Debug)]
pub(super) struct Work {
    patch: Vec<u8>,
    changes: Vec<Change>,
    /// Files that are in it without their secret, and so are not what the agent wrote. As a patch writes their names.
    redacted: BTreeSet<String>,
}

impl Work {
    /// Reads a patch that a worker left.
    pub(super) fn read(out: &Path, report: &PatchReport) -> Result<Self, Why> {
        let patch = left(out, &report.artifact, PATCH_BYTES)?;
        let changes = patch::changes(&patch).map_err(|error| error.to_string())?;
        Ok(Self { patch, changes, redacted: report.redacted_files.iter().cloned().collect() })
    }

    fn is_redacted(&self, change: &Change) -> bool {
        self.redacted.contains(&quoted("", &change.path))
    }

    /// Returns the files that do not count, as a patch writes their names.
    pub(super) fn hidden(&self) -> Vec<String> {
        let hidden = self.changes.iter().filter(|change| self.is_redacted(change));
        let hidden: BTreeSet<&PathBytes> = hidden.map(|change| &change.path).collect();
        hidden.into_iter().map(|path| quoted("", path)).collect()
    }

    fn counting(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| !self.is_redacted(change))
    }

    /// Returns what of the patch counts.
    pub(super) fn patch(&self) -> Vec<u8> {
        let texts: Vec<&[u8]> = self.counting().map(|change| &self.patch[change.text.clone()]).collect();
        texts.concat()
    }

    /// Returns every path that something happens to.
    pub(super) fn touched(&self) -> BTreeSet<PathBytes> {
        self.counting()
            .flat_map(|change| [Some(&change.path), change.from.as_ref()])
            .flatten()
            .cloned()
            .collect()
    }
}

/// Where files are as they were when the ground was taken.
#[derive(Debug)]
pub(super) struct Origin {
    files: PathBuf,
    base: Option<PathBuf>,
    /// What of the base is not there.
    gone: BTreeSet<PathBytes>,
}

impl Origin {
    pub(super) fn of(home: &Path, thread_dir: &Path, ground: &Ground) -> io::Result<Self> {
        let gone = match fs::read(thread_dir.join(GONE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            gone => gone?,
        };
        Ok(Self {
            files: thread_dir.join(FILES),
            base: ground.base.as_ref().map(|base| home.join(BASES).join(base).join(FILES)),
            gone: gone.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect(),
        })
    }

    /// Finds files as they were.
    pub(super) fn read(&self, paths: &BTreeSet<PathBytes>) -> Result<Vec<Standing>, Why> {
        let all = paths.iter().map(|path| self.find(path).map(|blob| (path.clone(), blob)));
        all.collect::<io::Result<_>>().map_err(|error| error.to_string())
    }

    fn find(&self, path: &[u8]) -> io::Result<Option<Blob>> {
        if let Some(own) = Blob::read(&self.files, path)? {
            return Ok(Some(own));
        }
        let Some(base) = &self.base else { return Ok(None) };
        let hidden = above(path).chain([path]).any(|path| self.gone.contains(path));
        let covered = above(path)
            .any(|above| fs::symlink_metadata(at(&self.files, above)).is_ok_and(|data| !data.is_dir()));
        if hidden || covered { Ok(None) } else { Blob::read(base, path) }
    }
}
