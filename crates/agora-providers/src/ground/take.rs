//! Takes a ground: the source as it is now, under the thread's name.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agora_core::ground::{Author, Ground, Source};
use agora_core::provider::ground::GroundError;
use agora_core::provider::{Outage, Unavailable};
use agora_core::wall::Never;
use agora_core::{ContentHash, ThreadId};

use super::base::{Base, Bases, Hold, Making};
use super::copy::{self, Owner, Took};
use super::index::{self, Delta, Entry, Kind};
use super::pick::Picker;
use super::repository::{self, Repository};
use super::settled::Settling;
use super::walk::{self, Found, at};
use crate::git::Git;
use crate::git::host::line;
use crate::git::layout::{Layout, top_of};
use crate::git::store::{Closed, Store};
use crate::home::make_private;
use crate::straight;

/// What may differ from a base before a new one is made: that much is copied for every thread.
const DELTA_BYTES: u64 = 32 << 20;
const DELTA_FILES: usize = 2000;
/// More paths than a project has.
const MOST: usize = 3_000_000;
/// How many are named of what was left out.
const NAMED: usize = 1000;
/// Files of such an age may still be changed within the same tick of a file system's clock.
const TICK_NS: i64 = 2_000_000_000;

/// What grounds are taken with.
#[derive(Debug)]
pub(super) struct Taker<'a> {
    pub(super) home: &'a Path,
    pub(super) git: Option<&'a Git>,
    /// The thread's own directory, which is not there yet.
    pub(super) staged: &'a Path,
    pub(super) owner: Owner,
    /// What of the user's home is never taken.
    pub(super) never: Option<&'a Never>,
}

/// The files of a ground are below this, in the thread's directory.
pub(super) const FILES: &str = "files";
/// And what of the base is not there: paths, each with a NUL at its end.
pub(super) const GONE: &str = "gone";
/// Which base it stands on: written while that is held.
pub(super) const PIN: &str = "pin";
/// When the source was looked at, in nanoseconds of the clock that stamps files.
pub(super) const TAKEN: &str = "taken";

impl Taker<'_> {
    /// Takes a working tree, or a plain directory.
    pub(super) fn take(&self, dir: &Path) -> Result<Ground, GroundError> {
        let dir = fs::canonicalize(dir).map_err(|error| refused(dir, &error))?;
        if !dir.is_dir() {
            return Err(refused(&dir, &io::Error::other("it is not a directory")));
        }
        let top = top_of(&dir).map_err(|error| refused(&dir, &error))?;
        let root = top.clone().unwrap_or(dir);
        self.may_show(&root)?;
        if root.parent().is_none() {
            return Err(refused(&root, &io::Error::other("it is the whole machine")));
        }
        let path = root.to_str().ok_or_else(|| refused(&root, &io::Error::other("its name is no text")))?;
        let source = match top {
            Some(_) => Source::Repository { path: path.to_owned(), base: None },
            None => Source::Directory { path: path.to_owned() },
        };
        let looked_at = self.clock().map_err(failed("write", self.staged))?;
        fs::write(self.staged.join(TAKEN), looked_at.to_string()).map_err(failed("write", self.staged))?;
        let mut found = walk::walk(&root, self.home, self.never).map_err(failed("list", &root))?;
        if found.entries.len() > MOST {
            let why = io::Error::other(format!("it has more than {MOST} files"));
            return Err(refused(&root, &why));
        }
        let mut shut = Vec::new();
        let within = self.repositories(&root, &found, &mut shut)?;
        let included =
            straight::read(&root.join(".worktreeinclude"), 1 << 20).ok().flatten().unwrap_or_default();
        let picker = Picker::new(tracked(&within), &included);
        for entry in &mut found.entries {
            entry.kept = picker.takes(entry);
        }
        let bases = Bases::of(self.home, &root);
        let looked = Looked { root: &root, picker: &picker, looked_at: looked_at.saturating_sub(TICK_NS) };
        let (base, entries) = self.files(&bases, std::mem::take(&mut found.entries), &looked)?;
        let first = within.iter().find(|within| within.below.is_empty()).map(|within| within.layout.clone());
        let author = first.as_ref().and_then(|layout| self.author(&root, layout));
        for Within { below, layout, stores } in within {
            let to = at(&self.staged.join(FILES), &below);
            self.above(&self.staged.join(FILES), &below).map_err(failed("write", &to))?;
            let made =
                Repository { layout: &layout, stores: &stores, author: author.as_ref(), owner: self.owner };
            match made.make(&to.join(".git"), None) {
                Err(error) if !below.is_empty() && !is_ours(&error) => {
                    let gone = crate::shelf::remove(&to.join(".git"));
                    gone.map_err(failed("remove", &to))?;
                    shut.push(git_of(&below));
                    continue;
                }
                made => made?,
            }
            if let Some(git) = self.git {
                let (top, aside) = (&at(&root, &below), &self.staged.join("index"));
                let settling = Settling { git, top, layout: &layout, aside, owner: self.owner };
                settling
                    .settle(&to.join(".git/index"), &below, &entries, &found.passed_over)
                    .map_err(failed("write", &to))?;
            }
        }
        let head = first.as_ref().and_then(repository::head);
        let state = state(&entries, head.as_deref());
        let left_out = entries.iter().filter(|entry| !entry.kept).map(|entry| &entry.path);
        let mut left_out = found.passed_over.iter().chain(&shut).chain(left_out).map(|path| shown(path));
        Ok(Ground {
            source,
            base: Some(base),
            head,
            state,
            files: entries.iter().filter(|entry| entry.kept && entry.kind != Kind::Directory).count() as u64,
            author,
            left_out: left_out.by_ref().take(NAMED).collect(),
            left_out_more: left_out.count() as u64,
        })
    }

    /// Refuses what no agent ever sees: keys and logins of the user's home, and agora's own with all that other agents did.
    pub(super) fn may_show(&self, path: &Path) -> Result<(), GroundError> {
        let Some(holds) = self.closed().why(path) else { return Ok(()) };
        let what = format!("`{}` {holds}, which no agent ever sees", path.display());
        Err(GroundError::Refused {
            what,
            hint: Some("name a directory that holds something else".to_owned()),
        })
    }

    pub(super) fn closed(&self) -> Closed<'_> {
        Closed { home: self.home, never: self.never }
    }

    /// Finds every repository of a source that somebody can work with. Broken ones, and such as are not what they say, are `shut`; but the
    /// first, which the work is about, has to be whole.
    fn repositories(
        &self,
        root: &Path,
        found: &Found,
        shut: &mut Vec<Box<[u8]>>,
    ) -> Result<Vec<Within>, GroundError> {
        let mut within = Vec::new();
        for below in &found.repositories {
            let top = at(root, below);
            let looked = Layout::of(&top).and_then(|layout| {
                let Some(layout) = layout else { return Ok(None) };
                let stores = self.stores(&top, &layout)?;
                Ok(Some(Within { below: below.clone(), layout, stores }))
            });
            match looked {
                Ok(Some(found)) => within.push(found),
                Err(error) if below.is_empty() => return Err(refused(root, &error)),
                Ok(None) | Err(_) => shut.push(git_of(below)),
            }
        }
        Ok(within)
    }

    /// Finds what the objects of a repository are in, if it is one of ours, or git is told that it is safe.
    pub(super) fn stores(&self, top: &Path, layout: &Layout) -> io::Result<Vec<Store>> {
        let me = rustix::process::geteuid();
        let git = top.join(".git");
        let paths = [top, &git, &layout.own, &layout.common];
        let is_mine = |path: &&Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() == me.as_raw());
        // Git says which it is: told of one that is not safe, it goes on above it.
        let is_safe = || {
            let asked = self.git?.call(top, "rev-parse").run(["--absolute-git-dir"]).ok()?;
            let said = fs::canonicalize(OsStr::from_bytes(asked.trim_ascii_end())).ok()?;
            Some(said == layout.own)
        };
        // Root works for others, too.
        if !me.is_root() && !paths.iter().all(is_mine) && is_safe() != Some(true) {
            let why = format!(
                "the repository belongs to another user; if it is safe, `git config --global --add safe.directory '{}'` says so",
                top.display()
            );
            return Err(io::Error::other(why));
        }
        Store::all(layout, self.closed()).map_err(io::Error::other)
    }

    /// Finds a base for the files, or makes one, and takes what differs from it. Returns the base's name.
    fn files(
        &self,
        bases: &Bases,
        mut now: Vec<Entry>,
        looked: &Looked<'_>,
    ) -> Result<(String, Vec<Entry>), GroundError> {
        let broken = |error| GroundError::Unavailable(unavailable("make a base of", looked.root, error));
        let held = bases.hold(Hold::Shared).map_err(broken)?;
        if let Some(base) = bases.newest(&held).map_err(broken)? {
            let delta = index::compare(&base.entries, &mut now, |entry| looked.picker.doubts(entry));
            if is_little(&delta, &now) {
                let entries = self.lay(&base, &delta, now, looked).map_err(broken)?;
                return Ok((base.name, entries));
            }
        }
        drop(held);
        let alone = bases.hold(Hold::Alone).map_err(broken)?;
        // Another may have made one meanwhile.
        let newest = bases.newest(&alone).map_err(broken)?;
        let delta = newest
            .as_ref()
            .map(|base| index::compare(&base.entries, &mut now, |entry| looked.picker.doubts(entry)));
        if let (Some(base), Some(delta)) = (&newest, &delta)
            && is_little(delta, &now)
        {
            let entries = self.lay(base, delta, now, looked).map_err(broken)?;
            return Ok((base.name.clone(), entries));
        }
        let making = Making {
            source: looked.root,
            entries: now,
            picker: looked.picker,
            owner: self.owner,
            looked_at: looked.looked_at,
        };
        let base = bases.make(&alone, newest.as_ref().zip(delta.as_ref()), making).map_err(broken)?;
        self.start().map_err(broken)?;
        fs::write(self.staged.join(PIN), &base.name).map_err(broken)?;
        fs::write(self.staged.join(GONE), b"").map_err(broken)?;
        Ok((base.name, base.entries))
    }

    /// Takes what differs from a base.
    fn lay(
        &self,
        base: &Base,
        delta: &Delta,
        mut now: Vec<Entry>,
        looked: &Looked<'_>,
    ) -> io::Result<Vec<Entry>> {
        self.start()?;
        let files = self.staged.join(FILES);
        let mut gone = delta.gone.clone();
        for &number in &delta.changed {
            if !now[number].kept {
                continue;
            }
            self.above(&files, parent(&now[number].path))?;
            let (from, to) = (at(looked.root, &now[number].path), at(&files, &now[number].path));
            match copy::take(&from, &to, &now[number], looked.picker, self.owner)? {
                Took::Copied(entry) => now[number] = entry,
                Took::LeftOut(entry) => {
                    gone.push(entry.path.clone());
                    now[number] = entry;
                }
                Took::Gone => {
                    gone.push(now[number].path.clone());
                    now[number].kept = false;
                }
            }
        }
        fs::write(self.staged.join(PIN), &base.name)?;
        let gone: Vec<u8> = gone.iter().flat_map(|path| path.iter().copied().chain([0])).collect();
        fs::write(self.staged.join(GONE), gone)?;
        Ok(now)
    }

    /// Begins the thread's own directory.
    pub(super) fn start(&self) -> io::Result<()> {
        make_private(self.staged)?;
        fs::create_dir_all(self.staged.join(FILES))?;
        self.owner.set(&self.staged.join(FILES))
    }

    /// Makes the directories down to a path, as the source has them.
    fn above(&self, files: &Path, dir: &[u8]) -> io::Result<()> {
        let mut way = files.to_owned();
        for part in dir.split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
            way.push(OsStr::from_bytes(part));
            if !way.is_dir() {
                copy::directory(&way, 0o755, self.owner)?;
            }
        }
        Ok(())
    }

    /// Asks the clock that stamps files here.
    fn clock(&self) -> io::Result<i64> {
        make_private(self.staged)?;
        let probe = self.staged.join("clock");
        fs::write(&probe, b"")?;
        let meta = fs::metadata(&probe)?;
        fs::remove_file(&probe)?;
        Ok(meta.ctime().saturating_mul(1_000_000_000).saturating_add(meta.ctime_nsec()))
    }

    /// Finds out whose work it is: as git would, or by the repository's own word.
    pub(super) fn author(&self, root: &Path, layout: &Layout) -> Option<Author> {
        let asked = self.git.and_then(|git| {
            let call = || git.call(root, "config").env("GIT_DIR", &layout.own);
            let ask = |key: &str| call().run(["--get", key]).ok().map(|out| line(&out));
            Some(Author { name: ask("user.name")?, email: ask("user.email")? })
        });
        asked.or_else(|| repository::author(layout))
    }
}

struct Looked<'a> {
    root: &'a Path,
    picker: &'a Picker,
    looked_at: i64,
}

fn is_little(delta: &Delta, now: &[Entry]) -> bool {
    let bytes: u64 = delta.changed.iter().map(|&number| now[number].size).sum();
    bytes <= DELTA_BYTES && delta.changed.len() + delta.gone.len() <= DELTA_FILES
}

/// A repository of a source, by where it is in it.
struct Within {
    below: Box<[u8]>,
    layout: Layout,
    stores: Vec<Store>,
}

fn git_of(below: &[u8]) -> Box<[u8]> {
    if below.is_empty() { Box::from(*b".git") } else { [below, b"/.git"].concat().into() }
}

/// Tells whether it is our own disk that something failed for.
fn is_ours(error: &GroundError) -> bool {
    matches!(error, GroundError::Unavailable(Unavailable { outage: Outage::Full | Outage::ReadOnly, .. }))
}

fn tracked(within: &[Within]) -> Vec<Box<[u8]>> {
    let of = |Within { below, layout, .. }: &Within| {
        let prefix = if below.is_empty() { Vec::new() } else { [below, &b"/"[..]].concat() };
        repository::tracked(layout).into_iter().map(move |path| [&prefix, &*path].concat().into())
    };
    within.iter().flat_map(of).collect()
}

fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|&byte| byte == b'/').map_or(&b""[..], |cut| &path[..cut])
}

/// Hashes everything that was seen. A file that looks the same is the same.
pub(super) fn state(entries: &[Entry], head: Option<&str>) -> ContentHash {
    let mut bytes = index::encode(entries);
    bytes.extend(head.unwrap_or_default().bytes());
    ContentHash::of(&bytes)
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

pub(super) fn refused(path: &Path, error: &io::Error) -> GroundError {
    let what = format!("`{}` cannot be worked on: {error}", path.display());
    GroundError::Refused { what, hint: Some("name a directory, or a repository's URL".to_owned()) }
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> GroundError {
    let path: PathBuf = path.to_owned();
    move |error| GroundError::Unavailable(unavailable(doing, &path, error))
}

pub(super) fn unavailable(doing: &str, path: &Path, error: io::Error) -> Unavailable {
    let outage = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Outage::Full,
        io::ErrorKind::ReadOnlyFilesystem => Outage::ReadOnly,
        io::ErrorKind::PermissionDenied => Outage::Denied,
        _ => Outage::Failed,
    };
    Unavailable { doing: format!("{doing} `{}`", path.display()), outage, source: Box::new(error) }
}

/// Names the directory of a thread's ground.
pub(super) fn dir_of(home: &Path, thread: &ThreadId) -> PathBuf {
    home.join("grounds").join(thread.as_str())
}
