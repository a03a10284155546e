//! Which paths git would ignore, and which it tracks all the same.
//!
//! Rules come from `.gitignore` in every directory and from a repository's `info/exclude`, but for what agora wrote there; nobody's own
//! configuration counts. Rules that are too large to be read are no rules: then more is shown, never less.

use std::ffi::OsStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use std::rc::Rc;

use agora_core::git::pattern::{Pattern, Steps};
use agora_core::git::{index, rules, says};

use super::entry::Sorted;
use super::root::{Root, file_in, read_up_to};

/// One file of rules, and all of one walk. The largest of the well-known collections has 20 KiB.
const RULES_BYTES: u64 = 256 << 10;
const ALL_RULES_BYTES: u64 = 4 << 20;

/// How much matching there may be in one walk: some ten seconds. A hundred thousand files and a hundred rules are a
/// hundredth of it.
const STEPS: u64 = 4_000_000_000;

/// All indexes of one walk: two million files.
const ALL_INDEX_BYTES: u64 = 256 << 20;

/// How much may still be read of what the agent could have written.
#[derive(Debug)]
pub(super) struct Allowance {
    rules: u64,
    index: u64,
    steps: Rc<Steps>,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { rules: ALL_RULES_BYTES, index: ALL_INDEX_BYTES, steps: Rc::new(Steps::new(STEPS)) }
    }
}

/// The rules of one directory, before those of the directories that it lies in.
#[derive(Debug)]
pub(super) struct Rules {
    outer: Option<Rc<Self>>,
    /// How much of a path to leave away: rules are about paths from their own directory.
    prefix: usize,
    here: Vec<Pattern>,
    exclude: Vec<Pattern>,
    tracked: Option<Sorted<()>>,
    steps: Rc<Steps>,
}

impl Rules {
    /// Reads what the directory adds; `None` where there are no rules at all.
    pub(super) fn enter(
        outer: Option<Rc<Self>>,
        root: &Root,
        path: &[u8],
        dir: BorrowedFd<'_>,
        allowance: &mut Allowance,
    ) -> Option<Rc<Self>> {
        let here = file_in(dir, ".gitignore").ok().map(|(file, stat)| {
            let most = RULES_BYTES.min(allowance.rules);
            read_up_to(&file, &stat, most).unwrap_or_default()
        });
        let repository = repository(root, path, dir);
        if here.is_none() && repository.is_none() {
            return outer;
        }
        let exclude = repository
            .as_deref()
            .and_then(|git| root.read(&join(git, b"info/exclude"), RULES_BYTES.min(allowance.rules)).ok());
        for read in [&here, &exclude].into_iter().flatten() {
            allowance.rules = allowance.rules.saturating_sub(read.len() as u64);
        }
        let mut of_git = |name: &str| {
            let read = root.read(&join(repository.as_deref()?, name.as_bytes()), allowance.index).ok()?;
            allowance.index = allowance.index.saturating_sub(read.len() as u64);
            Some(read)
        };
        let tracked = of_git("index").and_then(|index| index::tracked(&index, of_git).ok());
        Some(Rc::new(Self {
            outer,
            prefix: if path.is_empty() { 0 } else { path.len() + 1 },
            here: rules(&here.unwrap_or_default()),
            exclude: rules(&crate::room::not_laid(&exclude.unwrap_or_default())),
            tracked: tracked.map(sorted),
            steps: Rc::clone(&allowance.steps),
        }))
    }

    /// Tells what the rules say of a path, the nearest first.
    pub(super) fn ignores(&self, path: &[u8], is_dir: bool) -> bool {
        self.chain().find_map(|rules| rules.says(path, is_dir)).unwrap_or(false)
    }

    pub(super) fn tracks(&self, path: &[u8]) -> bool {
        let is_in = |rules: &Self| {
            rules.tracked.as_ref().is_some_and(|all| all.find(&path[rules.prefix..]).is_some())
        };
        self.chain().any(is_in)
    }

    pub(super) fn tracks_beneath(&self, path: &[u8]) -> bool {
        let is_in =
            |rules: &Self| rules.tracked.as_ref().is_some_and(|all| all.beneath(&path[rules.prefix..]));
        self.chain().any(is_in)
    }

    fn says(&self, path: &[u8], is_dir: bool) -> Option<bool> {
        let path = &path[self.prefix..];
        let decides = |rules: &[Pattern]| says(rules, path, is_dir, &self.steps);
        decides(&self.here).or_else(|| decides(&self.exclude))
    }

    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |rules| rules.outer.as_deref())
    }
}

fn sorted(names: Vec<Box<[u8]>>) -> Sorted<()> {
    Sorted::new(names.into_iter().map(|name| (name, ())).collect())
}

/// Finds a repository's own directory: `.git`, or where a file of that name points, as long as that is below the root.
fn repository(root: &Root, path: &[u8], dir: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let git = join(path, b".git");
    let (file, stat) = match file_in(dir, ".git") {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(_) => return root.dir(&git).ok().map(|_| git),
    };
    let text = read_up_to(&file, &stat, 4096 + 16).ok()?;
    let target = text.strip_prefix(b"gitdir:")?.trim_ascii();
    let mut resolved: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).collect();
    for component in Path::new(OsStr::from_bytes(target)).components() {
        match component {
            Component::Normal(part) => resolved.push(part.as_bytes()),
            Component::ParentDir => drop(resolved.pop()?),
            Component::CurDir => {}
            // What the agent calls `/` is not what it is here.
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    let resolved = resolved.join(&b'/');
    (!resolved.is_empty() && root.dir(&resolved).is_ok()).then_some(resolved)
}

pub(super) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() }
}
