//! Brings work into the user's own tree: three ways, all or nothing, by the host's git.
//!
//! ```text
//!  as it was taken ──▶ what the agent made of it
//!        └──────────▶ what the user made of it ──▶ merged ──▶ what differs is applied, if nothing conflicts
//! ```

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use agora_core::git::patch::{self, Change};
use agora_core::ground::{Author, Ground, Source};
use agora_core::job::Job;
use agora_core::wire::report::Report;

use super::homecoming::{PATCH_BYTES, left};
use super::local::LocalGrounds;
use super::own::{Own, Sides, Why, Work, said};
use super::take::dir_of;
use super::walk::at;
use crate::dispatch_dir::DispatchDir;
use crate::git::Git;
use crate::git::host::line;
use crate::git::layout::Layout;

/// Where work is brought to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyTo {
    /// The files of the working tree. The index stays as it is.
    WorkingTree,
    /// A new branch, with the agent's own commits.
    Branch(String),
    /// A commit on the branch that is checked out, with the files and the index.
    Commit,
}

/// Whether files are taken that tools act upon as soon as they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSight {
    Refuse,
    Take,
}

/// What was brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppliedWork {
    pub files: Vec<String>,
    /// Not brought, because a secret was hidden in them: they are not what the agent wrote.
    pub skipped: Vec<String>,
    pub commit: Option<String>,
}

/// Why nothing was brought. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("there is nothing to apply: the agent changed no file")]
    Nothing,
    #[error("the work has no place here that it was taken from")]
    NoPlace,
    #[error("the work is not in a ref, so that there is nothing to make a branch of")]
    NoRef,
    #[error("the patch is refused: `{path}` {why}")]
    Refused { path: String, why: &'static str },
    #[error("tools act upon {} as soon as they are there", listed(.0))]
    OnSight(Vec<String>),
    #[error("{} changed here, too, and the two do not go together", listed(.0))]
    Conflicts(Vec<String>),
    #[error("there is no git on the PATH, which applies it")]
    NoGit,
    #[error("there is a branch `{0}` already, or it is no name for one")]
    Branch(String),
    #[error("it could not be applied: {0}")]
    Git(String),
}

fn listed(paths: &[String]) -> String {
    let shown: Vec<String> = paths.iter().take(10).map(|path| format!("`{path}`")).collect();
    let more = paths.len().saturating_sub(10);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

impl LocalGrounds {
    /// Brings a thread's work, as the last of its dispatches left it.
    pub fn apply(
        &self,
        job: &Job,
        report: &Report,
        git_ref: Option<&str>,
        to: &ApplyTo,
        on_sight: OnSight,
    ) -> Result<AppliedWork, ApplyError> {
        let ground = job.ground.as_deref().ok_or(ApplyError::NoPlace)?;
        let top = Path::new(ground.source.path().ok_or(ApplyError::NoPlace)?);
        let git = self.git.as_ref().ok_or(ApplyError::NoGit)?;
        let patch_at = report.patch.as_ref().ok_or(ApplyError::Nothing)?;
        let out = DispatchDir::new(&self.home, &job.dispatch_id).out();
        let bytes = left(&out, &patch_at.artifact, PATCH_BYTES).map_err(ApplyError::Git)?;
        let changes = patch::changes(&bytes).map_err(|error| ApplyError::Git(error.to_string()))?;
        let work = Work::new(&bytes, &changes, &patch_at.redacted_files);
        check(&work, top)?;
        let mut applied = AppliedWork {
            files: shown(changes.iter().filter(|change| !work.left.contains(change))),
            skipped: patch_at.redacted_files.clone(),
            commit: None,
        };
        if applied.files.is_empty() && git_ref.is_none() {
            return Err(ApplyError::Nothing);
        }
        let acted = |change: &&Change| patch::acts_on_sight(&change.path) && !change.deleted;
        let acted = shown(changes.iter().filter(acted));
        if !acted.is_empty() && on_sight == OnSight::Refuse {
            return Err(ApplyError::OnSight(acted));
        }
        if let ApplyTo::Branch(name) = to {
            applied.commit = Some(branch(git, top, ground, git_ref.ok_or(ApplyError::NoRef)?, name)?);
            return Ok(applied);
        }
        let dir = dir_of(self.home.root(), &job.thread_id).join(format!("applying-{}", std::process::id()));
        let _ = crate::shelf::remove(&dir);
        let applying = Applying { own: Own { git, dir: &dir }, top, ground, job };
        let origin = self.origin(job, ground);
        let done = applying.sides(&work, &origin).and_then(|sides| match to {
            ApplyTo::Commit => applying.commit(&work, &sides).map(Some),
            ApplyTo::WorkingTree | ApplyTo::Branch(_) => applying.files(&work, &sides).map(|()| None),
        });
        let _ = crate::shelf::remove(&dir);
        applied.commit = done?;
        Ok(applied)
    }
}

/// Sees that a patch stays in the tree, and writes through no link: not of the tree, and not of its own making.
fn check(work: &Work<'_>, top: &Path) -> Result<(), ApplyError> {
    let goes = |path: &[u8]| work.changes.iter().any(|change| change.deleted && change.path == path);
    for path in work.changes.iter().flat_map(|change| [Some(&change.path), change.from.as_ref()]).flatten() {
        let refused = |why| ApplyError::Refused { path: String::from_utf8_lossy(path).into_owned(), why };
        if patch::is_refused(path) {
            return Err(refused("leaves the tree, or is git's own"));
        }
        for cut in (0..path.len()).filter(|&at| path[at] == b'/') {
            let above = &path[..cut];
            let made =
                work.changes.iter().any(|change| change.link && !change.deleted && change.path == above);
            let is_link = fs::symlink_metadata(at(top, above)).is_ok_and(|data| data.is_symlink());
            if made || (is_link && !goes(above)) {
                return Err(refused("lies behind a symbolic link"));
            }
        }
    }
    Ok(())
}

fn shown<'a>(changes: impl Iterator<Item = &'a Change>) -> Vec<String> {
    changes.map(|change| String::from_utf8_lossy(&change.path).into_owned()).collect()
}

/// Makes a branch of the work's own ref, where none is.
fn branch(git: &Git, top: &Path, ground: &Ground, git_ref: &str, name: &str) -> Result<String, ApplyError> {
    if !matches!(ground.source, Source::Repository { .. }) {
        return Err(ApplyError::NoRef);
    }
    let full = format!("refs/heads/{name}");
    let taken = |_| ApplyError::Branch(name.to_owned());
    git.call(top, "check-ref-format").run(["--branch", name]).map_err(taken)?;
    let commit =
        git.call(top, "rev-parse").run(["--verify", "--quiet", git_ref]).map_err(|_| ApplyError::NoRef)?;
    let commit = line(&commit);
    let nothing = "0".repeat(commit.len());
    let message = format!("agora apply {git_ref}");
    let call = git.call(top, "update-ref").set("core.logAllRefUpdates=true");
    call.run(["-m", &message, "--", &full, &commit, &nothing]).map_err(taken)?;
    Ok(commit)
}

struct Applying<'a> {
    own: Own<'a>,
    top: &'a Path,
    ground: &'a Ground,
    job: &'a Job,
}

impl Applying<'_> {
    fn sides(&self, work: &Work<'_>, origin: &super::own::Origin) -> Result<Sides, ApplyError> {
        let layout = match &self.ground.source {
            Source::Repository { .. } => {
                Layout::of(self.top).map_err(|error| ApplyError::Git(error.to_string()))?
            }
            Source::Directory { .. } | Source::Url { .. } => None,
        };
        self.own.prepare(self.top, layout.as_ref()).map_err(ApplyError::Git)?;
        self.own.sides(work, self.ground.head.as_deref(), origin).map_err(ApplyError::Git)
    }

    /// Changes the files of the working tree.
    fn files(&self, work: &Work<'_>, sides: &Sides) -> Result<(), ApplyError> {
        let mut info = Vec::new();
        let mut files: Vec<_> = work.touched().into_iter().map(|path| (path, here(self.top, path))).collect();
        files.sort_by_key(|(_, file)| file.is_some());
        for (path, file) in files {
            self.own.entry(&mut info, path, file).map_err(ApplyError::Git)?;
        }
        let ours = self.own.tree_with(self.ground.head.as_deref(), &info).map_err(ApplyError::Git)?;
        let difference = self.merge(sides, &ours)?.1;
        self.put(&difference, &[]).map_err(ApplyError::Git)
    }

    /// Commits on the branch that is checked out, and changes files and index with it.
    fn commit(&self, work: &Work<'_>, sides: &Sides) -> Result<String, ApplyError> {
        if !matches!(self.ground.source, Source::Repository { .. }) {
            return Err(ApplyError::NoRef);
        }
        let git = |why: Why| ApplyError::Git(why);
        let head = self.own.git.call(self.top, "rev-parse").run(["--verify", "--quiet", "HEAD"]);
        let head = line(&head.map_err(|_| git("there is no commit to add to".to_owned()))?);
        let tree_of = |commit: &str| self.own.read(&["rev-parse", &format!("{commit}^{{tree}}")]);
        // Only what the patch is about differs between the two: all else is as it was then.
        let touched = work.touched();
        let entries = self.own.entries(&tree_of(&head).map_err(git)?, &touched).map_err(git)?;
        let ours = self.own.tree_with(self.ground.head.as_deref(), &entries).map_err(git)?;
        let (merged, difference) = self.merge(sides, &ours)?;
        let merged = self.own.entries(&merged, &touched).map_err(git)?;
        let tree = self.own.tree_with(Some(&head), &merged).map_err(git)?;
        let subagent = &self.job.resolved.subagent.name;
        let message = format!(
            "{subagent}: work of {}\n\nThread: {0}\nDispatch: {}\nSubagent: {subagent}\n",
            self.job.thread_id, self.job.dispatch_id
        );
        self.put(&difference, &["--check", "--index"]).map_err(git)?;
        // The objects are made where the commit is to be.
        let indexed = self.dry_index(&head, &difference).map_err(git)?;
        if indexed != tree {
            return Err(git("what git makes of it here is not what was merged".to_owned()));
        }
        let call = self.own.git.call(self.top, "commit-tree").input(message);
        let committer = Author::committer(subagent);
        let call = call.env("GIT_COMMITTER_NAME", committer.name).env("GIT_COMMITTER_EMAIL", committer.email);
        let commit = line(&call.run(["-p", &head, &tree]).map_err(|error| git(said(error)))?);
        self.put(&difference, &["--index"]).map_err(git)?;
        let call = self.own.git.call(self.top, "update-ref").set("core.logAllRefUpdates=true");
        call.run(["-m", "agora apply", "HEAD", &commit, &head]).map_err(|error| git(said(error)))?;
        Ok(commit)
    }

    /// Applies to an index of our own, and returns its tree.
    fn dry_index(&self, head: &str, difference: &[u8]) -> Result<String, Why> {
        let index = self.own.dir.join("commit.index");
        let on = |command: &str| self.own.git.call(self.top, command).env("GIT_INDEX_FILE", &index);
        on("read-tree").run([head]).map_err(said)?;
        if !difference.is_empty() {
            on("apply").input(difference).run(["--cached", "--whitespace=nowarn"]).map_err(said)?;
        }
        on("write-tree").run([""; 0]).map(|out| line(&out)).map_err(said)
    }

    /// Merges, and returns the merged tree and what it changes about ours.
    fn merge(&self, sides: &Sides, ours: &str) -> Result<(String, Vec<u8>), ApplyError> {
        let git = |error| ApplyError::Git(said(error));
        let commit = |tree: &str| {
            let someone =
                ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"];
            let call = self.own.git.call(self.own.dir, "commit-tree");
            let call = someone.into_iter().fold(call, |call, name| call.env(name, "agora"));
            call.run([tree]).map(|out| line(&out)).map_err(git)
        };
        let (base, ours_at, theirs) = (commit(&sides.before)?, commit(ours)?, commit(&sides.after)?);
        let call = self.own.git.call(self.own.dir, "merge-tree").set("merge.conflictStyle=merge");
        let base = format!("--merge-base={base}");
        let arguments = ["--write-tree", "--name-only", "-z", "--no-messages", &base, &ours_at, &theirs];
        let (code, out, complaint) = call.try_run(arguments).map_err(git)?;
        let mut parts = out.split(|&byte| byte == 0).filter(|part| !part.is_empty());
        let tree = parts.next().map(line).unwrap_or_default();
        match code {
            Some(0) => {}
            Some(1) => {
                return Err(ApplyError::Conflicts(
                    parts.map(|path| String::from_utf8_lossy(path).into_owned()).collect(),
                ));
            }
            _ => return Err(ApplyError::Git(complaint)),
        }
        let difference = self.own.git.call(self.own.dir, "diff-tree");
        let difference =
            difference.run(["-p", "--binary", "--full-index", "--no-renames", ours, &tree]).map_err(git)?;
        Ok((tree, difference))
    }

    fn put(&self, difference: &[u8], how: &[&str]) -> Result<(), Why> {
        if difference.is_empty() {
            return Ok(());
        }
        let call = self.own.git.call(self.top, "apply").input(difference);
        call.run(["--whitespace=nowarn"].iter().chain(how)).map(drop).map_err(said)
    }
}

/// Reads what stands at a path of the user's now.
fn here(top: &Path, path: &[u8]) -> Option<(&'static str, Vec<u8>)> {
    let path = at(top, path);
    let data = fs::symlink_metadata(&path).ok()?;
    if data.is_symlink() {
        return Some(("120000", fs::read_link(path).ok()?.into_os_string().into_vec()));
    }
    let mode = if data.permissions().mode() & 0o100 == 0 { "100644" } else { "100755" };
    data.is_file().then(|| fs::read(path).ok()).flatten().map(|bytes| (mode, bytes))
}
