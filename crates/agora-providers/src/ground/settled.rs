//! An index that leaves nothing to be read again for which a filter would be needed.
//!
//! Git reads a file again that is as young as the index, or younger: it may have been changed within the same tick of the clock, and a
//! fresh clone is full of such files. What it reads goes through the file's filter (Git LFS), which an agent does not have: it would
//! see changes that nobody made. So the host's git looks first, and notes what it saw in the agent's own index. That runs filters of the
//! user's own settings, as their `git status` does. What a repository configures for itself never runs.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::copy::{self, Owner};
use super::index::{Entry, Kind};
use super::repository;
use crate::git::layout::Layout;
use crate::git::{Git, GitError};

/// A repository whose index is copied.
#[derive(Debug)]
pub(super) struct Settling<'a> {
    pub(super) git: &'a Git,
    pub(super) top: &'a Path,
    pub(super) layout: &'a Layout,
    /// A file of our own that git can write meanwhile. It is not there before, nor after.
    pub(super) aside: &'a Path,
    pub(super) owner: Owner,
}

/// A file that git would read again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Young<'a> {
    path: &'a [u8],
    seconds: u64,
}

impl Settling<'_> {
    /// Settles the copy of an index, if a file of the working tree wants it. What git cannot do stays as it was copied.
    ///
    /// `entries` are below the root of the working tree that lies at `below`, and `unseen` is what nobody opens there.
    pub(super) fn settle(
        &self,
        copied: &Path,
        below: &[u8],
        entries: &[Entry],
        unseen: &[Box<[u8]>],
    ) -> io::Result<()> {
        let Some(written) = seconds_of(&self.layout.own.join("index")) else { return Ok(()) };
        let young = entries.iter().filter(|entry| entry.kept && entry.kind == Kind::File);
        let young = young.filter_map(|entry| {
            let seconds = u64::try_from(entry.mtime_ns).ok()? / 1_000_000_000;
            let path = inside(below, &entry.path)?;
            (seconds >= written).then_some(Young { path, seconds })
        });
        let mut young: Vec<Young<'_>> = young.collect();
        if young.is_empty() || !self.has_attributes(below, entries) {
            return Ok(());
        }
        let tracked = repository::tracked(self.layout);
        young.retain(|young| tracked.binary_search_by(|path| (**path).cmp(young.path)).is_ok());
        let hidden =
            |path: &[u8]| unseen.iter().any(|unseen| *path == **unseen || inside(unseen, path).is_some());
        let full = |path: &[u8]| if below.is_empty() { path.to_vec() } else { [below, b"/", path].concat() };
        // Git would open all of them.
        if young.is_empty() || (!unseen.is_empty() && tracked.iter().any(|path| hidden(&full(path)))) {
            return Ok(());
        }
        // Whoever reads an index that stands on another file stamps that, which is the user's.
        let is_split = fs::read_dir(&self.layout.own)?
            .any(|entry| entry.is_ok_and(|entry| entry.file_name().as_bytes().starts_with(b"sharedindex.")));
        if !is_split && self.has_filters(&young).unwrap_or(false) {
            let done = self.look(copied, &young);
            let _ = fs::remove_file(self.aside);
            return done;
        }
        Ok(())
    }

    fn has_attributes(&self, below: &[u8], entries: &[Entry]) -> bool {
        let is_attributes = |path: &[u8]| path.rsplit(|&byte| byte == b'/').next() == Some(b".gitattributes");
        self.layout.common.join("info/attributes").is_file()
            || entries.iter().any(|entry| inside(below, &entry.path).is_some_and(is_attributes))
    }

    /// Tells whether some of these files go through a filter, and all that there are are the user's own.
    fn has_filters(&self, young: &[Young<'_>]) -> Result<bool, GitError> {
        let listing = ["-z", "--show-scope", "--name-only", "--get-regexp", "^filter\\."];
        // That there is none is what git calls a failure.
        let (_, filters, _) = self.git.call(self.top, "config").try_run(listing)?;
        let mut scopes = filters.split(|&byte| byte == 0).step_by(2).filter(|scope| !scope.is_empty());
        if filters.is_empty() || !scopes.all(|scope| matches!(scope, b"global" | b"system")) {
            return Ok(false);
        }
        let asked: Vec<u8> = young.iter().flat_map(|young| young.path.iter().copied().chain([0])).collect();
        let attributes =
            self.git.call(self.top, "check-attr").input(asked).run(["-z", "--stdin", "filter"])?;
        // A path, the name of the attribute, its value.
        let mut values = attributes.split(|&byte| byte == 0).skip(2).step_by(3);
        Ok(values.any(|value| !matches!(value, b"unspecified" | b"unset")))
    }

    /// Lets the host's git look at the files, and writes down that it did.
    fn look(&self, copied: &Path, young: &[Young<'_>]) -> io::Result<()> {
        copy::plain(copied, self.aside, self.owner)?;
        let call = self.git.call(self.top, "update-index").env("GIT_INDEX_FILE", self.aside);
        // The other file that an index may stand on would be written beside the user's own.
        // And what looks the same to the agent's git must look the same here: only then is a file marked that is another all the same.
        let settings = ["core.splitIndex=false", "core.checkStat=minimal", "core.trustctime=false"];
        let call = settings.into_iter().fold(call, |call, setting| call.set(setting));
        let looked = call.run(["-q", "--unmerged", "--force-write-index", "--refresh"]);
        if looked.is_err() {
            return Ok(());
        }
        // Git has just looked at each: none is as young as that any more, also within the same second.
        let youngest = young.iter().map(|young| young.seconds).max().unwrap_or_default();
        let index = File::options().write(true).open(self.aside)?;
        let after = SystemTime::UNIX_EPOCH + Duration::from_secs(youngest.saturating_add(1));
        index.set_modified(after.max(index.metadata()?.modified()?))?;
        self.owner.set(self.aside)?;
        fs::rename(self.aside, copied)
    }
}

/// Returns what of a path is below a directory.
fn inside<'a>(dir: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    if dir.is_empty() { Some(path) } else { path.strip_prefix(dir)?.strip_prefix(b"/") }
}

fn seconds_of(path: &Path) -> Option<u64> {
    let modified = fs::metadata(path).and_then(|data| data.modified()).ok()?;
    modified.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
}
