//! The work as one commit on what is checked out, with the files and the index.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use agora_core::git::patch::PathBytes;
use agora_core::ground::Author;

use super::super::keeping::{Keeping, told};
use super::super::own::{Commit, Entry, Why, listed_entries, only, said};
use super::journal::{Committing, Journal};
use super::merged::{Merged, Ours};
use super::written::Written;
use super::{AppliedWork, ApplyError, Applying};
use crate::git::host::line;
use crate::git::reserved::Reserved;

/// The ref of our own repository that the user's fetches from.
const COMMITTED: &str = "refs/agora-apply/commit";

impl Applying<'_> {
    /// Commits on what is checked out, and changes files and index with it. All three, or none.
    pub(super) fn commit(
        &self,
        ours: &Ours,
        merged: &Merged,
        paths: &BTreeSet<PathBytes>,
        applied: &mut AppliedWork,
    ) -> Result<(), ApplyError> {
        let git = |why: Why| ApplyError::Git(why);
        let layout = self.layout.as_ref().ok_or(ApplyError::NoRepository)?;
        let head = self.own.git.call(self.top, "rev-parse").run(["--verify", "--quiet", "HEAD"]);
        // Before the first commit there is none: this becomes it.
        let head = head.ok().map(|head| line(&head));
        let head = head.as_deref();
        let keeping = Keeping::of(self.own, self.top, layout, head).map_err(git)?;
        let apart = keeping.apart(paths).map_err(git)?;
        let held: BTreeSet<PathBytes> =
            paths.iter().filter(|path| !apart.contains_key(*path)).cloned().collect();
        if held.is_empty() {
            return Err(ApplyError::Apart);
        }
        applied.warnings.extend(told(&apart, "in the files, and not in the commit"));
        let of = |entries: &[Entry]| only(entries.to_vec(), &held);
        let committed = match head {
            Some(head) => self.own.entries(head, &held).map_err(git)?,
            None => only(Vec::new(), &held),
        };
        self.check_clean(&committed, &keeping.keep(of(&ours.entries)).map_err(git)?, &held)?;
        let kept = keeping.keep(of(&merged.entries)).map_err(git)?;
        self.remember(None)?;
        if kept == committed {
            return self.write(merged);
        }
        let tree = self.own.tree(head, &kept).map_err(git)?;
        let commit = self.make(&tree, head.as_slice()).map_err(git)?;
        let committing = Committing {
            commit: commit.clone(),
            before: self.own.tree(None, &committed).map_err(git)?,
            after: self.own.tree(None, &kept).map_err(git)?,
        };
        // From here on the branch is nobody else's, and a way back is there until the very last step.
        let reason = format!("agora apply {}", self.job.thread_id);
        let call = self.own.git.call(self.top, "update-ref").set("core.logAllRefUpdates=true");
        let nothing = "0".repeat(commit.len());
        let reserved = Reserved::take(call, "HEAD", &commit, head.unwrap_or(&nothing), &reason)
            .map_err(|error| git(said(error)))?;
        let _journal = Journal::write(self.own, self.top, merged, Some(&committing)).map_err(git)?;
        let written = Written::write(self.top, &merged.steps, self.stop)?;
        let done = self.index(&kept).and_then(|()| {
            let stopped = self.stop.load(Ordering::Relaxed);
            if stopped { Err(ApplyError::Interrupted.to_string()) } else { reserved.commit().map_err(said) }
        });
        if let Err(why) = done {
            // What could not be taken back here is what the user's index says and HEAD does not.
            let _ = self.index(&committed);
            return Err(git(why));
        }
        written.keep();
        let branch = self.own.git.call(self.top, "symbolic-ref").run(["--quiet", "--short", "HEAD"]);
        (applied.commit, applied.branch) = (Some(commit), branch.ok().map(|name| line(&name)));
        Ok(())
    }

    /// Sees that the user has not changed anything that the work is about: a commit of it would take that along, or lose it.
    fn check_clean(
        &self,
        committed: &[Entry],
        here: &[Entry],
        paths: &BTreeSet<PathBytes>,
    ) -> Result<(), ApplyError> {
        let listed = self.own.git.call(self.top, "ls-files").run(["-s", "-z", "--full-name"]);
        let staged = only(listed_entries(&listed.map_err(|error| ApplyError::Git(said(error)))?), paths);
        // In a merge, an index has more than one at a path.
        let alone =
            |all: &[Entry], entry: &&Entry| all.iter().filter(|one| one.path == entry.path).eq([*entry]);
        let dirty = committed.iter().filter(|entry| !alone(here, entry) || !alone(&staged, entry));
        let dirty: Vec<String> =
            dirty.map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect();
        if dirty.is_empty() { Ok(()) } else { Err(ApplyError::Dirty(dirty)) }
    }

    /// Lets a branch stand on the last one that was made of this thread, too, so that whoever merged that is not asked about it again.
    pub(super) fn on_the_last_branch(&self, commit: String) -> Result<String, Why> {
        let Some(last) = self.earlier.commit() else { return Ok(commit) };
        let beyond = self.own.call("rev-list").run(["--max-count=1", last, &format!("^{commit}")]);
        // Whoever deleted it does not have to have it any more.
        let Ok(beyond) = beyond else { return Ok(commit) };
        if beyond.is_empty() {
            return Ok(commit);
        }
        let tree = self.own.read(&["rev-parse", &format!("{commit}^{{tree}}")])?;
        self.make(&tree, &[&commit, last])
    }

    /// Makes a commit, and lets the user's repository have it. Nothing names it there yet.
    fn make(&self, tree: &str, parents: &[&str]) -> Result<String, Why> {
        let subagent = &self.job.resolved.subagent.name;
        let message = format!(
            "{subagent}: work of {}\n\nThread: {0}\nDispatch: {}\nSubagent: {subagent}\n",
            self.job.thread_id, self.job.dispatch_id
        );
        let commit = self.own.commit(&Commit {
            tree,
            parents,
            message: &message,
            author: self.ground.author.clone().unwrap_or_else(Author::nobody),
            committer: Author::committer(subagent),
            date: None,
        })?;
        self.own.read(&["update-ref", COMMITTED, &commit])?;
        self.own.hand_over(self.top, COMMITTED)?;
        Ok(commit)
    }

    /// Changes some entries of the user's index.
    fn index(&self, entries: &[Entry]) -> Result<(), Why> {
        let call = self.own.git.call_disarmed(self.top, "update-index").map_err(said)?;
        call.input(self.own.info(entries)).run(["-z", "--index-info"]).map(drop).map_err(said)
    }
}
