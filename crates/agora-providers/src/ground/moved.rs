//! Whether a source is still what a ground was taken from. What that costs is bounded: a commit's id, and a stat of each file where
//! there are few thousand of them. Nothing is read, fetched or written.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use agora_core::ThreadId;
use agora_core::ground::{Ground, Source};
use agora_core::stale::Difference;

use super::base::BASES;
use super::commit::resolve;
use super::index::{self, Kind};
use super::local::LocalGrounds;
use super::repository;
use super::take::{FILES, TAKEN, dir_of};
use super::walk::at;
use crate::git::layout::Layout;
use crate::home::read_capped;

/// A list of files that is larger is not gone through: some five thousand paths, which are looked at in a few milliseconds.
const LIST_BYTES: u64 = 512 * 1024;
/// How many changed files are named.
const NAMED: usize = 5;

/// What is known of sources, so that several threads of one source look at it once.
#[derive(Debug, Default)]
pub(super) struct Looks {
    files: BTreeMap<String, Vec<Look>>,
}

/// A file of a source, as it looks now.
#[derive(Debug)]
struct Look {
    path: Box<[u8]>,
    /// When it was last changed. `None`: it is not there.
    changed_at: Option<i64>,
}

impl LocalGrounds {
    /// Returns what of a ground's source is another now.
    pub(super) fn moved_now(&self, ground: &Ground, thread: &ThreadId, looks: &mut Looks) -> Vec<Difference> {
        match &ground.source {
            // The other side would have to be asked.
            Source::Url { .. } => Vec::new(),
            source @ (Source::Directory { path } | Source::Repository { path, .. }) => {
                if !Path::new(path).is_dir() {
                    return vec![Difference::SourceGone { path: path.clone() }];
                }
                let base = match source {
                    Source::Repository { base, .. } => base.as_deref(),
                    Source::Directory { .. } | Source::Url { .. } => None,
                };
                let mut moved: Vec<Difference> = self.commit(ground, path, base).into_iter().collect();
                if base.is_none() {
                    // What cannot be looked at is not said to have changed.
                    moved.extend(self.files(ground, path, thread, looks).ok().flatten());
                }
                moved
            }
        }
    }

    /// Compares the commit: HEAD's, or that of the name which the thread began with.
    fn commit(&self, ground: &Ground, path: &str, base: Option<&str>) -> Option<Difference> {
        let layout = Layout::of(Path::new(path)).ok().flatten();
        let is = match (base, &layout) {
            (None, Some(layout)) => repository::head(layout),
            (Some(rev), Some(layout)) => Some(
                self.git.as_ref().and_then(|git| resolve(git.call(&layout.own, "rev-parse"), rev).ok())?,
            ),
            (_, None) => None,
        };
        let was = ground.head.clone();
        (was != is).then(|| Difference::SourceCommit { path: path.to_owned(), was, is })
    }

    fn files(
        &self,
        ground: &Ground,
        path: &str,
        thread: &ThreadId,
        looks: &mut Looks,
    ) -> io::Result<Option<Difference>> {
        let Some(taken_at) = self.taken_at(thread)? else { return Ok(None) };
        if !looks.files.contains_key(path) {
            let looked = self.look(ground, Path::new(path))?;
            looks.files.insert(path.to_owned(), looked);
        }
        let was_there = |file: &[u8]| {
            let bases = self.home.root().join(BASES);
            let own = dir_of(self.home.root(), thread).join(FILES);
            let roots = ground.base.iter().map(|name| bases.join(name).join("files")).chain([own]);
            roots.into_iter().any(|root| fs::symlink_metadata(at(&root, file)).is_ok())
        };
        let changed = |look: &&Look| match look.changed_at {
            Some(changed_at) => changed_at > taken_at,
            None => was_there(&look.path),
        };
        let changed: Vec<&Look> = looks.files.get(path).into_iter().flatten().filter(changed).collect();
        if changed.is_empty() {
            return Ok(None);
        }
        let named = changed.iter().take(NAMED).map(|look| String::from_utf8_lossy(&look.path).into_owned());
        let more = changed.len().saturating_sub(NAMED) as u64;
        Ok(Some(Difference::SourceFiles { path: path.to_owned(), files: named.collect(), more }))
    }

    /// Returns when a ground's source was looked at, by the clock that stamps files.
    fn taken_at(&self, thread: &ThreadId) -> io::Result<Option<i64>> {
        let text = read_capped(&dir_of(self.home.root(), thread).join(TAKEN), 64)?;
        Ok(text.and_then(|text| str::from_utf8(&text).ok()?.trim().parse().ok()))
    }

    /// Looks at each file that a repository tracks, or that a plain directory had. Of more than some thousand: none.
    fn look(&self, ground: &Ground, source: &Path) -> io::Result<Vec<Look>> {
        let paths = match Layout::of(source)? {
            Some(layout) => repository::tracked_up_to(&layout, LIST_BYTES),
            None => {
                let Some(base) = &ground.base else { return Ok(Vec::new()) };
                let listed = self.home.root().join(BASES).join(base).join("index");
                let listed = read_capped(&listed, LIST_BYTES).ok().flatten().unwrap_or_default();
                let entries = index::decode(&listed).unwrap_or_default();
                let files = entries.into_iter().filter(|entry| entry.kept && entry.kind != Kind::Directory);
                files.map(|entry| entry.path).collect()
            }
        };
        let look = |path: Box<[u8]>| {
            let meta = fs::symlink_metadata(at(source, &path)).ok();
            let nanos = |meta: fs::Metadata| {
                meta.ctime().saturating_mul(1_000_000_000).saturating_add(meta.ctime_nsec())
            };
            Look { changed_at: meta.map(nanos), path }
        };
        Ok(paths.into_iter().map(look).collect())
    }
}
