//! What the agent made of a file and what the user made of it, in one.

use std::collections::BTreeSet;
use std::path::Path;

use agora_core::git::patch::PathBytes;
use agora_core::ground::Author;

use super::super::blob::{Blob, Standing};
use super::super::own::{Commit, Entry, Own, Sides, Why, said};
use super::ApplyError;
use super::written::Step;
use crate::git::host::line;

/// What the user has at the paths that the work is about: the bytes of the working tree.
#[derive(Debug)]
pub(super) struct Ours {
    standing: Vec<Standing>,
    pub(super) entries: Vec<Entry>,
    pub(super) tree: String,
}

impl Ours {
    pub(super) fn read(own: Own<'_>, top: &Path, paths: &BTreeSet<PathBytes>) -> Result<Self, ApplyError> {
        let here = paths.iter().map(|path| match Blob::read(top, path) {
            Ok(blob) => Ok((path.clone(), blob)),
            Err(error) => Err(ApplyError::Unreadable(String::from_utf8_lossy(path).into_owned(), error)),
        });
        let standing = here.collect::<Result<Vec<Standing>, _>>()?;
        let entries = own.store(standing.clone()).map_err(ApplyError::Git)?;
        let tree = own.tree(None, &entries).map_err(ApplyError::Git)?;
        Ok(Self { standing, entries, tree })
    }
}

/// The bytes of working trees, merged: nothing is converted, so that what is written is what both wrote.
#[derive(Debug)]
pub(super) struct Merged {
    /// The trees of what the user had, and of what comes of it.
    pub(super) ours: String,
    pub(super) tree: String,
    pub(super) entries: Vec<Entry>,
    /// What is to be written for it.
    pub(super) steps: Vec<Step>,
}

impl Merged {
    pub(super) fn of(
        own: Own<'_>,
        paths: &BTreeSet<PathBytes>,
        ours: &Ours,
        sides: &Sides,
    ) -> Result<Self, ApplyError> {
        let (tree, conflicts) = merge(own, &sides.before, &ours.tree, &sides.after, Renames::Followed)?;
        if !conflicts.is_empty() {
            let names = conflicts.iter().map(|path| String::from_utf8_lossy(path).into_owned());
            return Err(ApplyError::Conflicts(names.collect()));
        }
        let differs = own.differing(Some(&ours.tree), &tree).map_err(ApplyError::Git)?;
        let new = own.blobs(&differs).map_err(ApplyError::Git)?;
        let old = |path: &PathBytes| {
            ours.standing.iter().find(|(old, _)| old == path).and_then(|(_, blob)| blob.clone())
        };
        let steps =
            new.into_iter().map(|(path, new)| Step { old: old(&path), path, new, access: None }).collect();
        let entries = own.entries(&tree, paths).map_err(ApplyError::Git)?;
        Ok(Self { ours: ours.tree.clone(), tree, entries, steps })
    }
}

/// Whether a file that one side moved is looked for at its new place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renames {
    Followed,
    Unseen,
}

/// What git ends with when it does not know an option.
const USAGE: i32 = 129;

/// Merges two trees that stand on a third. Returns the merged one, and where it conflicts.
pub(super) fn merge(
    own: Own<'_>,
    base: &str,
    ours: &str,
    theirs: &str,
    renames: Renames,
) -> Result<(String, BTreeSet<PathBytes>), ApplyError> {
    let commit = |tree: &str, parents: &[&str]| -> Result<String, Why> {
        let (author, committer) = (Author::nobody(), Author::nobody());
        own.commit(&Commit { tree, parents, message: "", author, committer, date: None })
    };
    let commit = |tree: &str, parents: &[&str]| commit(tree, parents).map_err(ApplyError::Git);
    let base = commit(base, &[])?;
    // Git finds the base by itself: only newer ones let it be named.
    let (ours, theirs) = (commit(ours, &[&base])?, commit(theirs, &[&base])?);
    let arguments = ["--write-tree", "--name-only", "-z", "--no-messages", &ours, &theirs];
    // Only paths that the work is about are in it, so that nobody can tell where a directory went.
    let call = own.call("merge-tree").set("merge.directoryRenames=false");
    let call = call.set(format!("merge.renames={}", renames == Renames::Followed));
    let (code, out, complaint) = call.try_run(arguments).map_err(|error| ApplyError::Git(said(error)))?;
    let mut parts = out.split(|&byte| byte == 0).filter(|part| !part.is_empty());
    let tree = parts.next().map(line).unwrap_or_default();
    match code {
        Some(0) => Ok((tree, BTreeSet::new())),
        Some(1) => Ok((tree, parts.map(<[u8]>::to_vec).collect())),
        Some(USAGE) => Err(ApplyError::OldGit(own.read(&["version"]).map_err(ApplyError::Git)?)),
        _ => Err(ApplyError::Git(complaint)),
    }
}
