//! Grounds on this machine.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use agora_core::ground::{Author, Ground, GroundRequest, Source};
use agora_core::job::Job;
use agora_core::provider::Unavailable;
use agora_core::provider::ground::{CameHome, GroundError, Grounds, GroundsSwept};
use agora_core::stale::Difference;
use agora_core::wall::Never;
use agora_core::wire::manifest::{Layers, Location, People, WorkspaceAt};
use agora_core::wire::report::Report;
use agora_core::{DispatchId, ThreadId};
use async_trait::async_trait;

use super::base::{BASES, Bases, Hold};
use super::commit;
use super::copy::Owner;
use super::moved::Looks;
use super::take::{FILES, PIN, Taker, dir_of, unavailable};
use crate::blocking::blocking;
use crate::git::Git;
use crate::git::layout::Layout;
use crate::git::store::{Closed, Store};
use crate::home::{Home, list_dir, read_capped};

/// What was staged for longer than this belongs to nobody: no source takes an hour to copy.
const ABANDONED_SECONDS: u64 = 3600;

/// Keeps grounds and bases under `$AGORA_HOME`.
#[derive(Clone, Debug)]
pub struct LocalGrounds {
    pub(super) home: Home,
    pub(super) git: Option<Git>,
    layers: Layers,
    /// Where the user's own keys and logins are.
    users_home: Option<PathBuf>,
}

impl LocalGrounds {
    /// Uses the git that these variables lead to, if there is one, and takes nothing of the keys in the home that they name.
    pub fn new(home: Home, environment: &[(OsString, OsString)]) -> Self {
        let users_home =
            environment.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
        let users_home = users_home.filter(|home| home.is_absolute());
        Self { git: Git::find(environment), home, layers: Layers::Auto, users_home }
    }

    /// Says whether workspaces may be made of layers.
    #[must_use]
    pub fn with_layers(self, layers: Layers) -> Self {
        Self { layers, ..self }
    }

    /// Returns what of the user's home is never shown.
    pub(super) fn never(&self) -> Option<Never> {
        self.users_home.as_deref().map(never_of)
    }

    pub(super) fn closed<'a>(&'a self, never: Option<&'a Never>) -> Closed<'a> {
        Closed { home: self.home.root(), never }
    }

    fn take_now(&self, request: &GroundRequest, thread: &ThreadId) -> Result<Option<Ground>, GroundError> {
        let dir = dir_of(self.home.root(), thread);
        self.home.prepare().map_err(GroundError::Unavailable)?;
        let staged = dir.with_extension("taking");
        let never = self.never();
        let taker = Taker {
            home: self.home.root(),
            git: self.git.as_ref(),
            staged: &staged,
            owner: Owner::of_this_process(),
            never: never.as_ref(),
        };
        let taken = match request {
            GroundRequest::Empty => return Ok(None),
            GroundRequest::Directory { path, base: None } => taker.take(path),
            GroundRequest::Directory { path, base: Some(rev) } => taker.take_commit(path, rev),
            GroundRequest::Url { url, rev } => taker.take_url(url, rev.as_deref()),
        };
        let named = taken.and_then(|ground| {
            let broken = |error: io::Error| GroundError::Unavailable(unavailable("write", &dir, error));
            let text = serde_json::to_vec(&ground).map_err(|error| broken(error.into()))?;
            fs::write(staged.join("ground.json"), text).map_err(broken)?;
            fs::rename(&staged, &dir).map_err(broken)?;
            Ok(ground)
        });
        if named.is_err() {
            let _ = crate::shelf::remove(&staged);
        }
        named.map(Some)
    }

    /// Returns the base that a thread's ground stands on.
    fn pinned(&self, thread_dir: &Path) -> Option<String> {
        let name = read_capped(&thread_dir.join(PIN), 4096).ok()??;
        String::from_utf8(name).ok()
    }

    fn sweep_now(&self, unknown: &[ThreadId], really: bool) -> io::Result<GroundsSwept> {
        let mut swept = GroundsSwept::default();
        let grounds = self.home.root().join("grounds");
        let mut pinned = Vec::new();
        for name in list_dir(&grounds)? {
            let dir = grounds.join(&name);
            let thread = name.to_str().and_then(|name| name.parse::<ThreadId>().ok());
            let size = crate::shelf::size_of(&dir)?;
            swept.bytes_before += size;
            if thread.is_some_and(|thread| !unknown.contains(&thread)) || !is_old(&dir) {
                pinned.extend(self.pinned(&dir));
                swept.bytes_after += size;
            } else if really {
                crate::shelf::remove(&dir)?;
            }
        }
        let bases = self.home.root().join(BASES);
        for name in list_dir(&bases)?.into_iter().filter_map(|name| name.into_string().ok()) {
            let bases = Bases::at(bases.join(&name), name);
            // Whoever takes a ground meanwhile holds them, until what pins its base is there or named by its age.
            let _alone = bases.hold(Hold::Alone)?;
            let numbers = bases.numbers()?;
            for number in &numbers {
                let dir = bases.dir_of(*number);
                let size = crate::shelf::size_of(&dir)?;
                swept.bytes_before += size;
                let newest = numbers.last() == Some(number);
                if newest || pinned.contains(&bases.name_of(*number)) || !is_old(&dir) {
                    swept.bytes_after += size;
                } else {
                    swept.bases += 1;
                    if really {
                        crate::shelf::remove(&dir)?;
                    }
                }
            }
            if really {
                bases.clear_abandoned()?;
            }
        }
        Ok(swept)
    }

    fn location(path: &Path) -> Result<Location, Unavailable> {
        let wrong = |error| unavailable("name", path, io::Error::other(error));
        Location::file(path).map_err(wrong)
    }
}

/// Tells whether something is older than anybody takes to finish it.
fn is_old(dir: &Path) -> bool {
    let age = fs::metadata(dir).and_then(|meta| meta.modified()).ok().and_then(|then| then.elapsed().ok());
    age.is_none_or(|age| age.as_secs() > ABANDONED_SECONDS)
}

#[async_trait]
impl Grounds for LocalGrounds {
    async fn take(&self, request: &GroundRequest, thread: &ThreadId) -> Result<Option<Ground>, GroundError> {
        if *request == GroundRequest::Empty {
            return Ok(None);
        }
        let (this, request, thread) = (self.clone(), request.clone(), thread.clone());
        blocking(move || this.take_now(&request, &thread)).await
    }

    fn locate(&self, ground: &Ground, job: &Job) -> Result<WorkspaceAt, Unavailable> {
        let dir = dir_of(self.home.root(), &job.thread_id);
        let borrowed =
            match &ground.source {
                Source::Url { url, rev } => {
                    let store = commit::borrow_again(self.home.root(), url, rev, &dir.join(FILES));
                    vec![store.map_err(|error| {
                        unavailable("find the repository that was fetched for", &dir, error)
                    })?]
                }
                source @ (Source::Repository { .. } | Source::Directory { .. }) => {
                    let never = self.never();
                    borrowed(&dir.join(FILES), source.path().map(Path::new), self.closed(never.as_ref()))
                }
            };
        let base = ground.base.as_ref().map(|name| self.home.root().join(BASES).join(name).join("files"));
        let people = ground.source.is_git().then(|| People {
            author: ground.author.clone().unwrap_or_else(Author::nobody),
            committer: Author::committer(&job.resolved.subagent.name),
        });
        Ok(WorkspaceAt {
            base: base.as_deref().map(Self::location).transpose()?,
            borrowed: borrowed.iter().map(|store| Self::location(store.path())).collect::<Result<_, _>>()?,
            ground: Self::location(&dir)?,
            layers: self.layers,
            people,
        })
    }

    async fn bring_home(&self, job: &Job, report: &Report) -> Result<(), Unavailable> {
        if job.ground.is_none() {
            return Ok(());
        }
        let (this, job, report) = (self.clone(), job.clone(), report.clone());
        blocking(move || this.bring_home_now(&job, &report).map(drop)).await
    }

    async fn came_home(
        &self,
        thread: &ThreadId,
        dispatch: &DispatchId,
    ) -> Result<Option<CameHome>, Unavailable> {
        self.came_home_now(thread, dispatch)
    }

    async fn moved(&self, of: &[(ThreadId, Ground)]) -> Vec<Vec<Difference>> {
        if of.is_empty() {
            return Vec::new();
        }
        let (this, of) = (self.clone(), of.to_vec());
        blocking(move || {
            let mut looks = Looks::default();
            of.iter().map(|(thread, ground)| this.moved_now(ground, thread, &mut looks)).collect()
        })
        .await
    }

    async fn forget(&self, thread: &ThreadId) -> Result<(), Unavailable> {
        let dir = dir_of(self.home.root(), thread);
        blocking(move || crate::shelf::remove(&dir).map_err(|error| unavailable("remove", &dir, error))).await
    }

    async fn sweep(&self, unknown: &[ThreadId], really: bool) -> Result<GroundsSwept, Unavailable> {
        let (this, unknown) = (self.clone(), unknown.to_vec());
        let swept = blocking(move || this.sweep_now(&unknown, really)).await;
        swept.map_err(|error| unavailable("sweep", self.home.root(), error))
    }

    async fn list(&self) -> Result<Vec<ThreadId>, Unavailable> {
        let dir = self.home.root().join("grounds");
        let names = list_dir(&dir).map_err(|error| unavailable("list", &dir, error))?;
        Ok(names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
    }
}

fn never_of(home: &Path) -> Never {
    Never::of(home, |path| fs::canonicalize(path).ok())
}

/// Returns the directories of objects that an agent would borrow from, which works on the repository whose root this is.
pub fn objects_of(top: &Path, agoras_home: &Path, users_home: Option<&Path>) -> Vec<PathBuf> {
    let never = users_home.map(never_of);
    let closed = Closed { home: agoras_home, never: never.as_ref() };
    let stores = Layout::of(top).ok().flatten().and_then(|layout| Store::all(&layout, closed).ok());
    stores.into_iter().flatten().map(|store| store.path().to_owned()).collect()
}

/// Returns every directory of objects that the made repositories borrow from, as far as it may still be shown.
fn borrowed(files: &Path, source: Option<&Path>, closed: Closed<'_>) -> Vec<Store> {
    // Also of those below it: each has its own `alternates`.
    let mut found = Vec::new();
    let Ok(files) = fs::canonicalize(files) else { return found };
    let mut waiting = vec![files.clone()];
    while let Some(dir) = waiting.pop() {
        let list = dir.join(".git/objects/info/alternates");
        if list.is_file() {
            let below = dir.strip_prefix(&files).ok();
            let layout =
                source.zip(below).and_then(|(source, below)| Layout::of(&source.join(below)).ok()?);
            found.extend(Store::still(&list, layout.as_ref(), closed));
        }
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        let dirs = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        waiting.extend(dirs.filter(|entry| entry.file_name() != ".git").map(|entry| entry.path()));
    }
    found.sort();
    found.dedup();
    found
}
