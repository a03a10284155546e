//! From the bytes of a working tree to those that git keeps: line endings, encodings, `$Id$`.
//!
//! What converts is git itself, in an index of our own: told by the user's settings, and by the attributes of the commit that the work
//! stands on, never by those that an agent wrote. A filter is a program, and none runs: paths with one stay apart, as do those of a
//! submodule, which has commits of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use agora_core::git::patch::PathBytes;

use super::blob::{LINK, PROGRAM, SUBMODULE, Standing, above};
use super::own::{Entry, Own, Why, listed_entries, only, said};
use super::walk::at;
use crate::git::host::{Call, line};
use crate::git::layout::Layout;

const ATTRIBUTES: &[u8] = b".gitattributes";
/// How many are named before the rest is only counted.
const NAMED: usize = 5;

/// Why no commit of ours holds a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Apart {
    /// It belongs to the submodule at this path.
    Submodule(String),
    /// This program would make of it what git keeps.
    Filter(String),
}

/// What no commit of ours holds.
pub(super) type AllApart = BTreeMap<PathBytes, Apart>;

/// How git keeps what is in the working tree of one commit.
#[derive(Debug)]
pub(super) struct Keeping<'a> {
    own: Own<'a>,
    commit: Option<&'a str>,
    /// Of the user's settings, what says how lines end.
    settings: Vec<String>,
    submodules: BTreeSet<PathBytes>,
    /// There are attributes.
    has_attributes: bool,
}

impl<'a> Keeping<'a> {
    pub(super) fn of(
        own: Own<'a>,
        top: &Path,
        layout: &Layout,
        commit: Option<&'a str>,
    ) -> Result<Self, Why> {
        let mut settings = Vec::new();
        for key in ["core.autocrlf", "core.eol"] {
            // One that is not set is no failure.
            if let Ok(value) = own.git.call(top, "config").run(["--get", key]) {
                settings.push(format!("{key}={}", line(&value)));
            }
        }
        let all = commit.map(|commit| own.all(commit)).transpose()?.unwrap_or_default();
        let local = layout.common.join("info/attributes");
        let has_local = local.is_file();
        if has_local {
            let info = own.dir.join("info");
            let copied = fs::create_dir_all(&info).and_then(|()| fs::copy(&local, info.join("attributes")));
            copied.map_err(|error| format!("`{}` could not be read: {error}", local.display()))?;
        }
        let is_submodule = |entry: &&Entry| entry.object.as_ref().is_some_and(|(mode, _)| mode == SUBMODULE);
        Ok(Self {
            own,
            commit,
            settings,
            submodules: all.iter().filter(is_submodule).map(|entry| entry.path.clone()).collect(),
            has_attributes: has_local || all.iter().any(|entry| name(&entry.path) == ATTRIBUTES),
        })
    }

    /// Returns which of some paths no commit of ours holds.
    pub(super) fn apart(&self, paths: &BTreeSet<PathBytes>) -> Result<AllApart, Why> {
        let mut apart = AllApart::new();
        if self.has_attributes {
            let index = self.own.index(self.commit, "keep.index", &[])?;
            let asked: Vec<u8> = paths.iter().flat_map(|path| path.iter().copied().chain([0])).collect();
            let call = self.own.call("check-attr").env("GIT_INDEX_FILE", index).input(asked);
            let out = call.run(["--cached", "-z", "--stdin", "filter"]).map_err(said)?;
            let mut parts = out.split(|&byte| byte == 0);
            while let (Some(path), Some(_), Some(value)) = (parts.next(), parts.next(), parts.next()) {
                if !matches!(value, b"unspecified" | b"unset") {
                    apart.insert(path.to_vec(), Apart::Filter(line(value)));
                }
            }
        }
        for path in paths {
            if let Some(submodule) = above(path).find(|above| self.submodules.contains(*above)) {
                let submodule = String::from_utf8_lossy(submodule).into_owned();
                apart.insert(path.clone(), Apart::Submodule(submodule));
            }
        }
        Ok(apart)
    }

    /// Turns what stands in a working tree, stored as it is, into what git keeps of it.
    pub(super) fn keep(&self, raw: Vec<Entry>) -> Result<Vec<Entry>, Why> {
        let converts = |setting: &String| matches!(&**setting, "core.autocrlf=true" | "core.autocrlf=input");
        if !self.has_attributes && !self.settings.iter().any(converts) {
            return Ok(raw);
        }
        let tree = self.own.dir.join("kept");
        let _ = crate::shelf::remove(&tree);
        fs::create_dir_all(&tree).map_err(|error| error.to_string())?;
        let is_file = |entry: &Entry| entry.object.as_ref().is_some_and(|(mode, _)| mode != LINK);
        let (files, others): (Vec<Entry>, Vec<Entry>) = raw.into_iter().partition(is_file);
        // What is there by itself: a link says what it says. It comes first, so that nothing is in the way of a file.
        let index = self.own.index(self.commit, "keep.index", &others)?;
        let on = |command: &str| self.call(&tree, command).env("GIT_INDEX_FILE", &index);
        // New attributes come last: until then, those of the commit count.
        let is_attributes = |file: &&Standing| name(&file.0) == ATTRIBUTES;
        let blobs = self.own.blobs(&files)?;
        let (attributes, plain): (Vec<&Standing>, Vec<&Standing>) = blobs.iter().partition(is_attributes);
        for some in [plain, attributes] {
            let mut names = Vec::new();
            for (path, blob) in some {
                let Some(blob) = blob else { continue };
                let file = at(&tree, path);
                let written = file.parent().map_or(Ok(()), fs::create_dir_all);
                let mode = if blob.mode == PROGRAM { 0o755 } else { 0o644 };
                let written = written.and_then(|()| fs::write(&file, &blob.bytes));
                let written =
                    written.and_then(|()| fs::set_permissions(&file, fs::Permissions::from_mode(mode)));
                written.map_err(|error| error.to_string())?;
                names.extend(path.iter().copied().chain([0]));
            }
            on("update-index").input(names).run(["-z", "--add", "--replace", "--stdin"]).map_err(said)?;
        }
        let paths = files.iter().chain(&others).map(|entry| entry.path.clone()).collect();
        let listed = on("ls-files").run(["-s", "-z"]).map_err(said)?;
        Ok(only(listed_entries(&listed), &paths))
    }

    /// Prepares a call that looks at a working tree of our own.
    fn call(&self, tree: &Path, command: &str) -> Call {
        let ours = ["core.fileMode=true", "core.safecrlf=false", "core.bare=false"];
        let call = self.own.call(command).env("GIT_WORK_TREE", tree).within(tree);
        let settings = self.settings.iter().map(String::as_str).chain(ours);
        settings.fold(call, |call, setting| call.set(setting))
    }
}

fn name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Says what stayed apart, and where it is instead.
pub(super) fn told(apart: &AllApart, instead: &str) -> Vec<String> {
    let submodules: BTreeSet<&String> = apart
        .values()
        .filter_map(|why| match why {
            Apart::Submodule(path) => Some(path),
            Apart::Filter(_) => None,
        })
        .collect();
    let mut filters: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    for (path, why) in apart {
        if let Apart::Filter(filter) = why {
            filters.entry(filter).or_default().push(String::from_utf8_lossy(path).into_owned());
        }
    }
    let submodules =
        submodules.into_iter().map(|path| format!("changes in the submodule `{path}` are {instead}"));
    let filters = filters.into_iter().map(|(filter, paths)| {
        let are = if paths.len() == 1 { "is" } else { "are" };
        format!(
            "{} {are} {instead}: the filter `{filter}` is a program, which agora does not run",
            listed(&paths)
        )
    });
    submodules.chain(filters).collect()
}

/// Names paths for a person.
pub(super) fn listed(paths: &[String]) -> String {
    let shown: Vec<String> = paths.iter().take(NAMED).map(|path| format!("`{path}`")).collect();
    let more = paths.len().saturating_sub(NAMED);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}
