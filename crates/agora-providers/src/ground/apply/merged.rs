//! What the agent made of a file and what the user made of it, in one.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use agora_core::git::patch::PathBytes;
use agora_core::ground::Author;

use super::super::blob::{Blob, Standing};
use super::super::own::{Commit, Entry, Own, Sides, Why, said};
use super::ApplyError;
use super::written::Step;
use crate::git::host::line;

/// The bytes of working trees, merged: nothing is converted, so that what is written is what both wrote.
#[derive(Debug)]
pub(super) struct Merged {
    /// What the user has at the paths that the work is about.
    pub(super) ours: Vec<Entry>,
    pub(super) merged: Vec<Entry>,
    /// What is to be written for it.
    pub(super) steps: Vec<Step>,
}

impl Merged {
    pub(super) fn of(
        own: Own<'_>,
        top: &Path,
        paths: &BTreeSet<PathBytes>,
        sides: &Sides,
    ) -> Result<Self, ApplyError> {
        let here = paths.iter().map(|path| Blob::read(top, path).map(|blob| (path.clone(), blob)));
        let here = here.collect::<io::Result<Vec<Standing>>>();
        let here = here.map_err(|error| ApplyError::Git(error.to_string()))?;
        let ours = own.store(here.clone()).map_err(ApplyError::Git)?;
        let tree = own.tree(None, &ours).map_err(ApplyError::Git)?;
        let merged = merge(own, sides, &tree)?;
        let differs = own.differing(Some(&tree), &merged).map_err(ApplyError::Git)?;
        let new = own.blobs(&differs).map_err(ApplyError::Git)?;
        let old =
            |path: &PathBytes| here.iter().find(|(old, _)| old == path).and_then(|(_, blob)| blob.clone());
        let steps = new.into_iter().map(|(path, new)| Step { old: old(&path), path, new }).collect();
        let merged = own.entries(&merged, paths).map_err(ApplyError::Git)?;
        Ok(Self { ours, merged, steps })
    }
}

/// What git ends with when it does not know an option.
const USAGE: i32 = 129;

/// Merges, and returns the merged tree.
fn merge(own: Own<'_>, sides: &Sides, ours: &str) -> Result<String, ApplyError> {
    let commit = |tree: &str, parents: &[&str]| -> Result<String, Why> {
        let (author, committer) = (Author::nobody(), Author::nobody());
        own.commit(&Commit { tree, parents, message: "", author, committer, date: None })
    };
    let commit = |tree: &str, parents: &[&str]| commit(tree, parents).map_err(ApplyError::Git);
    let base = commit(&sides.before, &[])?;
    // Git finds the base by itself: only newer ones let it be named.
    let (ours, theirs) = (commit(ours, &[&base])?, commit(&sides.after, &[&base])?);
    let arguments = ["--write-tree", "--name-only", "-z", "--no-messages", &ours, &theirs];
    // Only paths that the work is about are in it, so that nobody can tell where a directory went.
    let call = own.call("merge-tree").set("merge.directoryRenames=false");
    let (code, out, complaint) = call.try_run(arguments).map_err(|error| ApplyError::Git(said(error)))?;
    let mut parts = out.split(|&byte| byte == 0).filter(|part| !part.is_empty());
    let tree = parts.next().map(line).unwrap_or_default();
    match code {
        Some(0) => Ok(tree),
        Some(1) => {
            Err(ApplyError::Conflicts(parts.map(|path| String::from_utf8_lossy(path).into_owned()).collect()))
        }
        Some(USAGE) => Err(ApplyError::OldGit(own.read(&["version"]).map_err(ApplyError::Git)?)),
        _ => Err(ApplyError::Git(complaint)),
    }
}
