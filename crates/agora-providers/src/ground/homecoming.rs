//! The work coming home: `refs/agora/<thread>` in the repository that it was taken from, and nothing else there. Work that began without
//! what the thread did before comes beside that, to a ref of its own.
//!
//! ```text
//!  a repository of our own, objects borrowed     the user's repository
//!    the agent's loose objects, as they came
//!    HEAD then + what changed = the last tree
//!    commit on the agent's last one         ──▶  fetch, every object checked ──▶ refs/agora/<thread>
//!    (and on HEAD then, if that is no part of it)
//! ```
//!
//! Everything that the agent could have written is data here: its configuration, hooks, filters and attributes are not even copied.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use agora_core::git::patch::PathBytes;
use agora_core::ground::{Author, Ground};
use agora_core::job::Job;
use agora_core::provider::Unavailable;
use agora_core::provider::ground::CameHome;
use agora_core::wire::report::{Artifact, PatchReport, Report};
use agora_core::{ContentHash, DispatchId, ThreadId};

use super::keeping::{Keeping, listed, told};
use super::local::LocalGrounds;
use super::own::{Commit, Entry, Own, Why, said};
use super::repository::is_id;
use super::take::{dir_of, unavailable};
use super::work::{Origin, Work};
use crate::dispatch_dir::DispatchDir;
use crate::git::Git;
use crate::git::host::line;
use crate::git::layout::Layout;
use crate::git::store::Closed;
use crate::home::read_capped;
use crate::shelf::untrusted::{self, Found};

/// No objects that a worker keeps are more.
const COMMITS_BYTES: u64 = 300 << 20;
/// How many commits an agent makes at most.
const COMMITS: u64 = 10_000;
const REWRITTEN: &str = "the agent's commits do not stand on the commit that it began at: it rewrote history, or went on with another branch. \
    The last commit of the ref stands on both, and is the work";

impl LocalGrounds {
    /// Names the note of how a dispatch's work came home.
    fn note(&self, thread: &ThreadId, dispatch: &DispatchId) -> PathBuf {
        dir_of(self.home.root(), thread).join(format!("home-{dispatch}.json"))
    }

    /// Reads how a dispatch's work came home, if it did.
    pub(super) fn came_home_now(
        &self,
        thread: &ThreadId,
        dispatch: &DispatchId,
    ) -> Result<Option<CameHome>, Unavailable> {
        let path = self.note(thread, dispatch);
        let bytes = read_capped(&path, 1 << 20).map_err(|error| unavailable("read", &path, error))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Brings work home, unless it is there: what did not come the last time is tried again.
    pub(super) fn bring_home_now(&self, job: &Job, report: &Report) -> Result<CameHome, Unavailable> {
        let Some(ground) = &job.ground else { return Ok(CameHome::default()) };
        let Some(top) = ground.source.repository() else { return Ok(CameHome::default()) };
        if let Some(home) = self.came_home_now(&job.thread_id, &job.dispatch_id)?
            && !home.unfinished
        {
            return Ok(home);
        }
        let mut home = CameHome::default();
        let failed = match &self.git {
            None => {
                Some("there is no git on the PATH: the work is kept as a patch, and not as a ref".to_owned())
            }
            Some(git) => {
                let came = self.come(git, job, ground, Path::new(top), report, &mut home);
                came.err().map(|why| format!("the work is kept as a patch, and not as a ref: {why}"))
            }
        };
        if let Some(why) = failed {
            home = CameHome { unfinished: true, warnings: vec![why], ..CameHome::default() };
        }
        home.warnings.extend(self.not_in(job, report)?);
        if let Some(name) = home.git_ref.as_ref().filter(|_| !report.leaves_workspace()) {
            home.warnings.push(format!(
                "the thread goes on without this work, whose workspace could not be kept: it stays in `{name}`"
            ));
        }
        let note = self.note(&job.thread_id, &job.dispatch_id);
        let bytes = serde_json::to_vec(&home).map_err(|error| unavailable("write", &note, error.into()))?;
        // A thread whose ground is gone needs no note either.
        if note.parent().is_some_and(Path::is_dir) {
            self.home.put(&note, &bytes)?;
        }
        Ok(home)
    }

    /// Says what of its thread's work is not in that of a dispatch, and where it stays.
    pub fn not_in(&self, job: &Job, report: &Report) -> Result<Option<String>, Unavailable> {
        let Some(lacks) = &report.lacks else { return Ok(None) };
        let earlier = self.came_home_now(&job.thread_id, lacks)?.and_then(|home| home.git_ref);
        let place = earlier.map_or_else(
            || format!("`agora logs {lacks} --part patch` shows it"),
            |earlier| format!("it stays in `{earlier}`"),
        );
        Ok(Some(format!("what `{lacks}` did is not in this work: {place}")))
    }

    fn come(
        &self,
        git: &Git,
        job: &Job,
        ground: &Ground,
        top: &Path,
        report: &Report,
        home: &mut CameHome,
    ) -> Result<(), Why> {
        let Some(patch) = &report.patch else { return Ok(()) };
        let thread_dir = dir_of(self.home.root(), &job.thread_id);
        let quarantine = thread_dir.join(format!("quarantine-{}", job.dispatch_id));
        let _ = crate::shelf::remove(&quarantine);
        let origin = Origin::of(self.home.root(), &thread_dir, ground).map_err(|error| error.to_string())?;
        let out = DispatchDir::new(&self.home, &job.dispatch_id).out();
        let own = Own { git, dir: &quarantine };
        let never = self.never();
        let closed = self.closed(never.as_ref());
        let came = Coming { own, ground, job, report, top, out, origin, closed }.come(patch, home);
        let _ = crate::shelf::remove(&quarantine);
        came
    }
}

struct Coming<'a> {
    own: Own<'a>,
    ground: &'a Ground,
    job: &'a Job,
    report: &'a Report,
    top: &'a Path,
    out: PathBuf,
    origin: Origin,
    closed: Closed<'a>,
}

impl Coming<'_> {
    fn come(&self, patch: &PatchReport, home: &mut CameHome) -> Result<(), Why> {
        let work = Work::read(&self.out, patch)?;
        let layout = Layout::named(self.top).map_err(|error| error.to_string())?;
        let layout = layout.ok_or_else(|| format!("`{}` is no repository any more", self.top.display()))?;
        self.own.prepare(self.top, Some(&layout), self.closed)?;
        let head = self.ground.head.as_deref();
        let tip = self.own_commits(head, home).unwrap_or_else(|why| {
            home.warnings.push(not_kept(&why));
            None
        });
        home.warnings.extend(self.left_elsewhere(tip.as_deref().or(head)));
        let hidden = work.hidden();
        if !hidden.is_empty() {
            let (are, them) = if hidden.len() == 1 { ("is", "it") } else { ("are", "them") };
            let (hidden, thread) = (listed(&hidden), &self.job.thread_id);
            home.warnings.push(format!(
                "{hidden} {are} not in the ref: a secret is hidden in {them}; `agora apply {thread} --patch` shows the rest of {them}"
            ));
        }
        if tip.is_none() && work.touched().is_empty() {
            return Ok(());
        }
        let tree = self.tree(&work, &layout, home)?;
        if let Some(tip) = tip {
            match self.bring_commits(&tip, &tree, &work, home) {
                Err(why) => {
                    home.own_commits = 0;
                    home.warnings.push(not_kept(&why));
                }
                came => return came,
            }
        }
        self.bring(head.as_slice(), &tree, home)
    }

    /// Brings the work with the agent's own commits, unless they say what is not so.
    fn bring_commits(&self, tip: &str, tree: &str, work: &Work, home: &mut CameHome) -> Result<(), Why> {
        let mut back = self.taken_back(tip, tree, work)?;
        if !back.is_empty() && self.has_others(tip)? {
            // Whoever merges that later never gets what was taken back: git takes it for merged.
            return Err(
                "there is a merge among them, or what others committed, with more in it than in the patch"
                    .to_owned(),
            );
        }
        match self.ground.head.as_deref() {
            // Git would compare with where the two parted, and take the user's own commits for work, or leave out what is gone.
            Some(head) if self.is_beyond(head, Some(tip))? => {
                self.bring(&[head, tip], tree, home)?;
                home.warnings.push(REWRITTEN.to_owned());
                // What is not there was never committed on this side.
                back.retain(|entry| entry.object.is_some());
            }
            Some(_) | None => self.bring(&[tip], tree, home)?,
        }
        let back: Vec<String> =
            back.iter().map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect();
        if !back.is_empty() {
            let back = listed(&back);
            home.warnings
                .push(format!("the agent committed {back}, not in its patch: the last commit takes it back"));
        }
        Ok(())
    }

    /// Lets the user's repository have a tree, as a commit on others, or the only other one itself if it has that tree.
    fn bring(&self, parents: &[&str], tree: &str, home: &mut CameHome) -> Result<(), Why> {
        let commit = match parents {
            [parent] if self.tree_of(parent)? == tree => (*parent).to_owned(),
            [] if self.own.all(tree)?.is_empty() => return Ok(()),
            parents => self.commit(tree, parents)?,
        };
        if Some(&*commit) == self.ground.head.as_deref() {
            return Ok(());
        }
        let name = self.name();
        self.own.read(&["update-ref", &name, &commit])?;
        self.own.hand_over(self.top, &format!("+{name}:{name}"))?;
        (home.git_ref, home.commit) = (Some(name), Some(commit));
        Ok(())
    }

    /// Names the ref. Work without what the thread did before never takes the place of that.
    fn name(&self) -> String {
        let without = self.report.lacks.as_ref().map(|lacks| format!("-without-{lacks}"));
        format!("refs/agora/{}{}", self.job.thread_id, without.unwrap_or_default())
    }

    /// Lists commits, as `rev-list` does, without those that another one stands on.
    fn listed(&self, words: &[&str], without: Option<&str>) -> Result<String, Why> {
        let not = without.map(|without| format!("^{without}"));
        let arguments = words.iter().copied().chain(not.as_deref());
        self.own.call("rev-list").run(arguments).map(|out| line(&out)).map_err(said)
    }

    /// Tells whether another commit does not stand on this one.
    fn is_beyond(&self, commit: &str, other: Option<&str>) -> Result<bool, Why> {
        Ok(!self.listed(&["--max-count=1", commit], other)?.is_empty())
    }

    /// Tells whether more than the agent's own commits came with them: by a merge, or because it went on where somebody else was.
    fn has_others(&self, tip: &str) -> Result<bool, Why> {
        let is_own = |id: &str| is_id(id) && self.own.loose(id).is_file();
        let commits = self.listed(&["--parents", tip], self.ground.head.as_deref())?;
        // Each with its parents.
        Ok(commits.lines().any(|commit| {
            let mut ids = commit.split(' ');
            !ids.next().is_some_and(is_own) || ids.count() > 1
        }))
    }

    fn tree_of(&self, commit: &str) -> Result<String, Why> {
        self.own.read(&["rev-parse", &format!("{commit}^{{tree}}")])
    }

    /// Returns what the agent committed that is no part of its work: agora's own files, what git ignores, a submodule's new commit.
    fn taken_back(&self, tip: &str, tree: &str, work: &Work) -> Result<Vec<Entry>, Why> {
        let touched = work.touched();
        let mut differs = self.own.differing(Some(tree), tip)?;
        differs.retain(|entry| !touched.contains(&entry.path));
        Ok(differs)
    }

    /// Takes in the agent's own commits. Returns the last one, if there is one beyond where it began.
    fn own_commits(&self, head: Option<&str>, home: &mut CameHome) -> Result<Option<String>, Why> {
        let Some(commits) = &self.report.commits else { return Ok(None) };
        let is_where_it_began = !is_id(&commits.head) || Some(&*commits.head) == head;
        if is_where_it_began && commits.others.is_empty() {
            return Ok(None);
        }
        let bytes = left(&self.out, &commits.artifact, COMMITS_BYTES)?;
        self.unpack(&bytes).map_err(|error| error.to_string())?;
        if is_where_it_began {
            return Ok(None);
        }
        let most = format!("--max-count={}", COMMITS + 1);
        let count = self.listed(&["--count", &most, &commits.head], head)?;
        let count: u64 = count.parse().unwrap_or(u64::MAX);
        if count > COMMITS {
            return Err(format!("there are more than {COMMITS}"));
        }
        // Of what is new, and not of all that was there before: that may be a large history, or one that was fetched in part.
        self.listed(&["--objects", "--quiet", &commits.head], head)?;
        if count == 0 {
            return Ok(None);
        }
        home.own_commits = count;
        Ok(Some(commits.head.clone()))
    }

    /// Says where the agent left commits that the one its work ended with does not stand on.
    fn left_elsewhere(&self, ended: Option<&str>) -> Option<String> {
        let commits = self.report.commits.as_ref()?;
        let is_elsewhere = |commit: &str| self.is_beyond(commit, ended).unwrap_or(true);
        let others =
            commits.others.iter().filter(|other| is_id(&other.commit) && is_elsewhere(&other.commit));
        let names: Vec<String> = others.map(|other| other.name.clone()).collect();
        let said = format!(
            "the agent left commits on {}, where its work did not end: they are in the thread's workspace, and not in the ref",
            listed(&names)
        );
        (!names.is_empty()).then_some(said)
    }

    /// Puts loose objects where git looks for them. Whether each is what its name says is for git to find out.
    fn unpack(&self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (mut name_len, mut len) = ([0; 1], [0; 8]);
            rest.read_exact(&mut name_len)?;
            let (name, after) =
                rest.split_at_checked(name_len[0].into()).ok_or(io::ErrorKind::UnexpectedEof)?;
            rest = after;
            rest.read_exact(&mut len)?;
            let len = usize::try_from(u64::from_le_bytes(len)).map_err(io::Error::other)?;
            let (object, after) = rest.split_at_checked(len).ok_or(io::ErrorKind::UnexpectedEof)?;
            rest = after;
            let name =
                str::from_utf8(name).ok().filter(|name| is_id(name)).ok_or(io::ErrorKind::InvalidData)?;
            let loose = self.own.loose(name);
            loose.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(loose, object)?;
        }
        Ok(())
    }

    /// Builds the tree that the work ended with: the one that it began with, with every file that the patch is about as it ended, and
    /// nothing else. Whatever else the agent committed is no part of what anybody sees before they take it.
    fn tree(&self, work: &Work, layout: &Layout, home: &mut CameHome) -> Result<String, Why> {
        let head = self.ground.head.as_deref();
        let mut paths: BTreeSet<PathBytes> = work.touched();
        let keeping = Keeping::of(self.own, self.top, layout, head)?;
        let apart = keeping.apart(&paths)?;
        home.warnings.extend(told(&apart, "in the patch, and not in the ref"));
        paths.retain(|path| !apart.contains_key(path));
        if paths.is_empty() {
            return self.own.tree(head, &[]);
        }
        let sides = self.own.sides(work, &self.origin)?;
        let kept = keeping.keep(self.own.entries(&sides.after, &paths)?)?;
        self.own.tree(head, &kept)
    }

    fn commit(&self, tree: &str, parents: &[&str]) -> Result<String, Why> {
        let Job { thread_id, dispatch_id, resolved, .. } = self.job;
        let subagent = &resolved.subagent.name;
        let what = match parents {
            [] | [_] => "what was not committed",
            [..] => "its work, on the commit that it began at",
        };
        let message = format!(
            "{subagent}: {what}\n\nThread: {thread_id}\nDispatch: {dispatch_id}\nSubagent: {subagent}\n"
        );
        self.own.commit(&Commit {
            tree,
            parents,
            message: &message,
            author: self.ground.author.clone().unwrap_or_else(Author::nobody),
            committer: Author::committer(subagent),
            // By the time of the worker's end, so that whoever does it again makes the same commit.
            date: Some(format!("@{} +0000", self.report.ended_at.as_millis() / 1000)),
        })
    }
}

fn not_kept(why: &str) -> String {
    format!("the agent's own commits are not kept, its work is one commit: {why}")
}

/// Reads what the worker left, if it is what the worker signed.
pub(super) fn left(out: &Path, artifact: &Artifact, most: u64) -> Result<Vec<u8>, Why> {
    let found = untrusted::open(&out.join(&artifact.path)).map_err(|error| error.to_string())?;
    let Found::File(file) = found else { return Err(format!("`{}` is not there", artifact.path)) };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > most || ContentHash::of(&bytes) != artifact.sha256 {
        return Err(format!("`{}` is not what the worker left", artifact.path));
    }
    Ok(bytes)
}
