//! The work coming home: `refs/agora/<thread>` in the repository that it was taken from, and nothing else there.
//!
//! ```text
//!  a repository of our own, objects borrowed     the user's repository
//!    the agent's loose objects, as they came
//!    HEAD then + what changed = the last tree
//!    commit on the agent's last one         ──▶  fetch, every object checked ──▶ refs/agora/<thread>
//! ```
//!
//! Everything that the agent could have written is data here: its configuration, hooks, filters and attributes are not even copied.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use agora_core::git::patch;
use agora_core::ground::{Author, Ground};
use agora_core::job::Job;
use agora_core::provider::Unavailable;
use agora_core::provider::ground::CameHome;
use agora_core::wire::report::{Artifact, Report};
use agora_core::{ContentHash, DispatchId, ThreadId};

use super::base::BASES;
use super::local::LocalGrounds;
use super::own::{Origin, Own, Why, Work, said};
use super::repository::is_id;
use super::take::{FILES, dir_of, unavailable};
use crate::dispatch_dir::DispatchDir;
use crate::git::host::line;
use crate::git::layout::Layout;

use crate::shelf::untrusted::{self, Found};

/// No patch of a worker's is larger.
pub(super) const PATCH_BYTES: u64 = 300 << 20;
/// Nor are all objects that it keeps.
const COMMITS_BYTES: u64 = 300 << 20;
/// How many commits an agent makes at most.
const COMMITS: u64 = 10_000;
const EMPTY_TREES: [&str; 2] = [
    "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
];

impl LocalGrounds {
    /// Names the note of how a dispatch's work came home.
    pub(super) fn note(&self, thread: &ThreadId, dispatch: &DispatchId) -> PathBuf {
        dir_of(self.home.root(), thread).join(format!("home-{dispatch}.json"))
    }

    pub(super) fn bring_home_now(&self, job: &Job, report: &Report) -> Result<(), Unavailable> {
        let note = self.note(&job.thread_id, &job.dispatch_id);
        let Some(ground) = &job.ground else { return Ok(()) };
        if note.exists() {
            return Ok(());
        }
        let Some(top) = ground.source.repository() else { return Ok(()) };
        let mut home = CameHome::default();
        let Some(git) = &self.git else {
            home.warnings.push(
                "there is no git on the PATH: the work is kept as a patch, and not as a ref".to_owned(),
            );
            return self.put_note(&note, &home);
        };
        let quarantine =
            dir_of(self.home.root(), &job.thread_id).join(format!("quarantine-{}", job.dispatch_id));
        let _ = crate::shelf::remove(&quarantine);
        let coming = Coming {
            own: Own { git, dir: &quarantine },
            ground,
            job,
            report,
            top: Path::new(top),
            out: DispatchDir::new(&self.home, &job.dispatch_id).out(),
            origin: Origin {
                files: dir_of(self.home.root(), &job.thread_id).join(FILES),
                base: ground
                    .base
                    .as_ref()
                    .map(|base| self.home.root().join("bases").join(base).join("files")),
            },
        };
        let came = coming.come(&mut home);
        let _ = crate::shelf::remove(&quarantine);
        if let Err(why) = came {
            home.warnings.push(format!("the work is kept as a patch, and not as a ref: {why}"));
        }
        self.put_note(&note, &home)
    }

    /// Says where the files are as they were when a ground was taken.
    pub(super) fn origin(&self, job: &Job, ground: &Ground) -> Origin {
        Origin {
            files: dir_of(self.home.root(), &job.thread_id).join(FILES),
            base: ground.base.as_ref().map(|base| self.home.root().join(BASES).join(base).join("files")),
        }
    }

    fn put_note(&self, note: &Path, home: &CameHome) -> Result<(), Unavailable> {
        let bytes = serde_json::to_vec(home).map_err(|error| unavailable("write", note, error.into()))?;
        // A thread whose ground is gone needs no note either.
        if note.parent().is_some_and(Path::is_dir) { self.home.put(note, &bytes) } else { Ok(()) }
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
}

impl Coming<'_> {
    fn come(&self, home: &mut CameHome) -> Result<(), Why> {
        let Some(patch_at) = &self.report.patch else { return Ok(()) };
        let bytes = self.left(&patch_at.artifact, PATCH_BYTES)?;
        let changes = patch::changes(&bytes).map_err(|error| error.to_string())?;
        let layout = Layout::of(self.top).map_err(|error| error.to_string())?;
        let layout = layout.ok_or_else(|| format!("`{}` is no repository any more", self.top.display()))?;
        self.own.prepare(self.top, Some(&layout))?;
        let head = self.ground.head.as_deref();
        let tip = match self.own_commits(head, home) {
            Ok(tip) => tip,
            Err(why) => {
                home.warnings
                    .push(format!("the agent's own commits are not kept, its work is one commit: {why}"));
                None
            }
        };
        if changes.is_empty() && tip.is_none() {
            return Ok(());
        }
        let work = Work::new(&bytes, &changes, &patch_at.redacted_files);
        if !work.left.is_empty() {
            home.warnings.push(format!("{} with a secret in it is not in the ref", counted(work.left.len())));
        }
        let parent = tip.as_deref().or(head);
        let tree = self.tree(&work, head, parent)?;
        let old =
            parent.map(|parent| self.own.read(&["rev-parse", &format!("{parent}^{{tree}}")])).transpose()?;
        let commit = match parent {
            Some(parent) if old.as_deref() == Some(&*tree) => parent.to_owned(),
            _ => self.commit(&tree, parent)?,
        };
        let name = format!("refs/agora/{}", self.job.thread_id);
        self.own.read(&["update-ref", &name, &commit])?;
        self.hand_over(&name)?;
        (home.git_ref, home.commit) = (Some(name), Some(commit));
        Ok(())
    }

    fn left(&self, artifact: &Artifact, most: u64) -> Result<Vec<u8>, Why> {
        left(&self.out, artifact, most)
    }

    /// Takes in the agent's own commits. Returns the last one, if there is one beyond where it began.
    fn own_commits(&self, head: Option<&str>, home: &mut CameHome) -> Result<Option<String>, Why> {
        let Some(commits) = &self.report.commits else { return Ok(None) };
        if !is_id(&commits.head) || Some(&*commits.head) == head {
            return Ok(None);
        }
        let bytes = self.left(&commits.artifact, COMMITS_BYTES)?;
        self.unpack(&bytes).map_err(|error| error.to_string())?;
        let range = |command: &str, more: &[&str]| {
            let not: Vec<String> = head.map(|head| format!("^{head}")).into_iter().collect();
            let arguments =
                more.iter().copied().chain([&*commits.head]).chain(not.iter().map(String::as_str));
            self.own.git.call(self.own.dir, command).run(arguments).map(|out| line(&out)).map_err(said)
        };
        let most = format!("--max-count={}", COMMITS + 1);
        let count: u64 = range("rev-list", &["--count", &most])?.parse().unwrap_or(u64::MAX);
        if count > COMMITS {
            return Err(format!("there are more than {COMMITS}"));
        }
        self.own.read(&[
            "fsck",
            "--strict",
            "--no-dangling",
            "--no-progress",
            "--connectivity-only",
            &commits.head,
        ])?;
        if count == 0 {
            return Ok(None);
        }
        home.own_commits = count;
        Ok(Some(commits.head.clone()))
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
            let dir = self.own.dir.join("objects").join(&name[..2]);
            fs::create_dir_all(&dir)?;
            fs::write(dir.join(&name[2..]), object)?;
        }
        Ok(())
    }

    /// Builds the tree that the work ended with: the parent's, with every file that the patch is about as it ended.
    fn tree(&self, work: &Work<'_>, head: Option<&str>, parent: Option<&str>) -> Result<String, Why> {
        let touched = work.touched();
        if touched.is_empty() {
            return parent.map_or(Ok(EMPTY_TREES[0].to_owned()), |parent| {
                self.own.read(&["rev-parse", &format!("{parent}^{{tree}}")])
            });
        }
        let sides = self.own.sides(work, head, &self.origin)?;
        let after = self.own.entries(&sides.after, &touched)?;
        self.own.tree_with(parent, &after)
    }

    fn commit(&self, tree: &str, parent: Option<&str>) -> Result<String, Why> {
        let Job { thread_id, dispatch_id, resolved, .. } = self.job;
        let subagent = &resolved.subagent.name;
        let message = format!(
            "{subagent}: what was not committed\n\nThread: {thread_id}\nDispatch: {dispatch_id}\nSubagent: {subagent}\n"
        );
        let author = self.ground.author.clone().unwrap_or_else(Author::nobody);
        let committer = Author::committer(subagent);
        // By the time of the worker's end, so that whoever does it again makes the same commit.
        let date = format!("@{} +0000", self.report.ended_at.as_millis() / 1000);
        let call = self.own.git.call(self.own.dir, "commit-tree").input(message);
        let call = call.env("GIT_AUTHOR_NAME", author.name).env("GIT_AUTHOR_EMAIL", author.email);
        let call = call.env("GIT_COMMITTER_NAME", committer.name).env("GIT_COMMITTER_EMAIL", committer.email);
        let call = call.env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date);
        let parents = parent.into_iter().flat_map(|parent| ["-p", parent]);
        call.run([tree].into_iter().chain(parents)).map(|out| line(&out)).map_err(said)
    }

    /// Lets the user's repository fetch it: every object is checked on the way in.
    fn hand_over(&self, name: &str) -> Result<(), Why> {
        let arguments =
            ["--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--no-recurse-submodules"];
        let refs = format!("+{name}:{name}");
        let from = self.own.dir.to_string_lossy();
        self.own
            .git
            .call(self.top, "fetch")
            .set("fetch.fsckObjects=true")
            .set("transfer.fsckObjects=true")
            .set("protocol.file.allow=always")
            .set("fetch.writeCommitGraph=false")
            .run(arguments.into_iter().chain(["--", &*from, &*refs]))
            .map(drop)
            .map_err(said)
    }
}

fn counted(files: usize) -> String {
    if files == 1 { "1 file".to_owned() } else { format!("{files} files") }
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
