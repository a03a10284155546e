//! Brings work into the user's own tree: three ways, all or nothing, by the host's git.
//!
//! ```text
//!  as it was taken ──▶ what the agent made of it
//!        └──────────▶ what the user made of it ──▶ merged ──▶ what differs is written, if nothing conflicts
//! ```
//!
//! What was brought before takes the place of what was taken, wherever the user still has it: `earlier` remembers, and finds out. `seen` is
//! what a person must have seen before, `merged` the merge, `written` the files, `journal` what somebody leaves who is killed meanwhile,
//! `committed` the commit.

mod committed;
mod earlier;
mod error;
mod journal;
mod merged;
mod seen;
mod written;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use agora_core::git::patch::PathBytes;
use agora_core::ground::{Ground, Source};
use agora_core::job::Job;
use agora_core::wire::report::{PatchReport, Report};
use rustix::fs::{FlockOperation, flock};

use super::local::LocalGrounds;
use super::own::{Entry, Own, Sides};
use super::take::dir_of;
use super::work::{Origin, Work};
use crate::dispatch_dir::DispatchDir;
use crate::git::host::line;
use crate::git::layout::Layout;
use crate::home::Home;

use earlier::{Brought, Earlier, stood_on};
pub use error::ApplyError;
use journal::{Journal, recover};
use merged::{Merged, Ours};
use written::Written;

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

/// Whether files are taken that tools act upon as soon as they are there, and links that lead out of the tree.
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
    /// Every file was already as the work has it.
    pub there_already: bool,
    /// The commit that has it, if it was to be one and was not there already.
    pub commit: Option<String>,
    /// The branch that the commit is on. `None`: HEAD is detached, or there is no commit.
    pub branch: Option<String>,
    /// What a person should know of what was not brought, or not committed.
    pub warnings: Vec<String>,
}

impl LocalGrounds {
    /// Brings a thread's work, as the last of its dispatches left it. Somebody may want it stopped, as long as not all of it is there.
    pub fn apply(
        &self,
        job: &Job,
        report: &Report,
        to: &ApplyTo,
        on_sight: OnSight,
        stop: &AtomicBool,
    ) -> Result<AppliedWork, ApplyError> {
        let ground = job.ground.as_deref().ok_or(ApplyError::NoPlace)?;
        let top = place(&ground.source, to)?;
        let git = self.git.as_ref().ok_or(ApplyError::NoGit)?;
        let patch = report.patch.as_ref().ok_or(ApplyError::Nothing)?;
        let layout = layout(ground, top)?;
        let failed = |error: std::io::Error| ApplyError::Git(error.to_string());
        let thread_dir = dir_of(self.home.root(), &job.thread_id);
        let dir = thread_dir.join("applying");
        std::fs::create_dir_all(&thread_dir).map_err(failed)?;
        // One at a time: what is there beside the lock belongs to somebody who died.
        let alone = std::fs::File::create(thread_dir.join("applying.lock")).map_err(failed)?;
        flock(&alone, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        let own = Own { git, dir: &dir };
        let recovered = recover(own, top);
        let _ = crate::shelf::remove(&dir);
        let out = DispatchDir::new(&self.home, &job.dispatch_id).out();
        let earlier = Earlier::read(&thread_dir).map_err(failed)?;
        let home = &self.home;
        let applying = Applying { own, top, layout, ground, job, patch, on_sight, home, earlier, stop };
        let work = Work::read(&out, patch).map_err(ApplyError::Git)?;
        let never = self.never();
        let prepared = own.prepare(top, applying.layout.as_ref(), self.closed(never.as_ref()));
        let done = prepared.map_err(ApplyError::Git).and_then(|()| match to {
            ApplyTo::Branch(name) => {
                let home =
                    self.bring_home_now(job, report).map_err(|error| ApplyError::Git(error.to_string()))?;
                let mut applied = applying.branch(home.git_ref.as_deref().ok_or(ApplyError::NoRef)?, name)?;
                applied.warnings = home.warnings;
                Ok(applied)
            }
            ApplyTo::WorkingTree | ApplyTo::Commit => {
                let origin = Origin::of(self.home.root(), &thread_dir, ground).map_err(failed)?;
                let mut applied = applying.tree(&work, &origin, to)?;
                let not_in = self.not_in(job, report);
                applied.warnings.extend(not_in.map_err(|error| ApplyError::Git(error.to_string()))?);
                Ok(applied)
            }
        });
        let _ = crate::shelf::remove(&dir);
        // Whoever presses Ctrl-C interrupts git, too, and it then fails at something.
        let stopped = |why| if stop.load(Ordering::Relaxed) { ApplyError::Interrupted } else { why };
        let mut applied = done.map_err(stopped)?;
        applied.skipped.clone_from(&patch.redacted_files);
        applied.warnings.splice(0..0, recovered);
        applied.warnings.extend(patch.told());
        Ok(applied)
    }
}

/// Finds the place that work is brought to. Files can only come where files were taken from.
fn place<'a>(source: &'a Source, to: &ApplyTo) -> Result<&'a Path, ApplyError> {
    let place = match (to, source.path(), source.repository()) {
        (_, Some(path), _) | (ApplyTo::Branch(_), None, Some(path)) => path,
        (ApplyTo::WorkingTree | ApplyTo::Commit, None, Some(path)) => {
            return Err(ApplyError::NoTree(path.to_owned()));
        }
        (_, None, None) => return Err(ApplyError::NoPlace),
    };
    Ok(Path::new(place))
}

/// Finds the repository there. It may have been moved since the work was taken from it.
fn layout(ground: &Ground, top: &Path) -> Result<Option<Layout>, ApplyError> {
    let gone = || ApplyError::Gone(top.display().to_string());
    match &ground.source {
        Source::Repository { .. } | Source::Url { .. } => {
            let layout = Layout::named(top).map_err(|error| ApplyError::Git(error.to_string()))?;
            layout.ok_or_else(gone).map(Some)
        }
        Source::Directory { .. } if top.is_dir() => Ok(None),
        Source::Directory { .. } => Err(gone()),
    }
}

struct Applying<'a> {
    own: Own<'a>,
    top: &'a Path,
    layout: Option<Layout>,
    ground: &'a Ground,
    job: &'a Job,
    patch: &'a PatchReport,
    on_sight: OnSight,
    home: &'a Home,
    earlier: Earlier,
    stop: &'a AtomicBool,
}

impl Applying<'_> {
    /// Makes a branch of the work's own ref, where none is.
    fn branch(&self, git_ref: &str, name: &str) -> Result<AppliedWork, ApplyError> {
        let git = self.own.git;
        let full = format!("refs/heads/{name}");
        let taken = |_| ApplyError::Branch(name.to_owned());
        git.call(self.top, "check-ref-format").run(["--branch", name]).map_err(taken)?;
        let commit = git.call(self.top, "rev-parse").run(["--verify", "--quiet", git_ref]);
        let commit = line(&commit.map_err(|_| ApplyError::NoRef)?);
        // What the ref has, whatever the patch says: that is what a checkout brings.
        let brought = self.own.differing(self.ground.head.as_deref(), &commit).map_err(ApplyError::Git)?;
        seen::names(brought.iter().map(|entry| &entry.path))?;
        seen::on_sight(self.own, &brought, self.on_sight)?;
        let commit = self.on_the_last_branch(commit).map_err(ApplyError::Git)?;
        self.remember(Some(commit.clone()))?;
        let nothing = "0".repeat(commit.len());
        let message = format!("agora apply {git_ref}");
        let call = git.call(self.top, "update-ref").set("core.logAllRefUpdates=true");
        call.run(["-m", &message, "--", &full, &commit, &nothing]).map_err(taken)?;
        Ok(AppliedWork {
            files: shown(&brought),
            commit: Some(commit),
            branch: Some(name.to_owned()),
            ..AppliedWork::default()
        })
    }

    /// Changes the files of the working tree, and commits them if that is wanted.
    fn tree(&self, work: &Work, origin: &Origin, to: &ApplyTo) -> Result<AppliedWork, ApplyError> {
        let git = ApplyError::Git;
        let before = self.earlier.works(self.home);
        // What was brought before and is not in the work any more goes back to what it was.
        let paths: BTreeSet<PathBytes> = before.iter().chain([work]).flat_map(Work::touched).collect();
        if paths.is_empty() {
            return Err(ApplyError::Nothing);
        }
        seen::names(&paths)?;
        let own = self.own;
        let taken = own.before(&paths, origin).map_err(git)?;
        let after = own.after(&taken, work).map_err(git)?;
        let mut states = vec![taken.clone()];
        for work in &before {
            states.push(own.after(&taken, work).map_err(git)?);
        }
        let ours = Ours::read(own, self.top, &paths)?;
        let sides = Sides { before: stood_on(own, &states, &ours.tree, &paths)?, after };
        let mut brought = own.differing(Some(&taken), &sides.after).map_err(git)?;
        brought.extend(own.differing(Some(&sides.before), &sides.after).map_err(git)?);
        brought.sort_by(|one, other| one.path.cmp(&other.path));
        brought.dedup();
        if brought.is_empty() {
            return Err(ApplyError::Nothing);
        }
        seen::links(&brought, self.top)?;
        seen::on_sight(own, &brought, self.on_sight)?;
        let merged = Merged::of(own, &paths, &ours, &sides)?;
        let mut applied = AppliedWork { files: shown(&brought), ..AppliedWork::default() };
        if *to == ApplyTo::Commit {
            self.commit(&ours, &merged, &paths, &mut applied)?;
        } else {
            self.remember(None)?;
            self.write(&merged)?;
            applied.there_already = merged.steps.is_empty();
        }
        Ok(applied)
    }

    /// Writes the files, and nothing with them.
    fn write(&self, merged: &Merged) -> Result<(), ApplyError> {
        let _journal = Journal::write(self.own, self.top, merged, None).map_err(ApplyError::Git)?;
        Written::write(self.top, &merged.steps, self.stop)?.keep();
        Ok(())
    }

    /// Remembers what is about to be brought.
    fn remember(&self, commit: Option<String>) -> Result<(), ApplyError> {
        // Only what it takes to read it again.
        let (merged, whole, left_out) = (Vec::new(), Vec::new(), Vec::new());
        let patch = PatchReport { merged, whole, left_out, ..self.patch.clone() };
        let dispatch_id = self.job.dispatch_id.clone();
        self.earlier.remember(self.home, Brought { dispatch_id, patch, commit })
    }
}

fn shown(brought: &[Entry]) -> Vec<String> {
    brought.iter().map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect()
}
