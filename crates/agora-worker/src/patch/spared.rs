//! What of a workspace a snapshot can do without, when all of it would be too much: what git ignores, and then what no patch holds.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::among::Among;
use super::baseline::{Baseline, NAME_COST, NAMES};
use super::entry::{Name, Sorted};
use super::left_out::shown;
use super::root::Root;
use super::walk::{Found, Kind, Outside, Visitor, walk};
use super::{FILE_BYTES, PatchError};
use crate::redact::Redactor;

/// How much a snapshot does without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spare {
    Nothing,
    /// What git ignores: it is no part of the work.
    Ignored,
    /// That, and every file that is too large for a patch.
    Large,
}

impl Spare {
    /// From all to least.
    pub(crate) const ALL: [Self; 3] = [Self::Nothing, Self::Ignored, Self::Large];
}

/// Paths that a snapshot does without, each with what lies below it.
#[derive(Debug)]
pub(crate) struct Spared(Sorted<()>);

impl Spared {
    pub(crate) fn nothing() -> Self {
        Self(Sorted::new(Vec::new()))
    }

    /// Finds them. What a baseline knows is work, whatever git's rules say of it by now.
    pub(crate) fn find(
        tree: &Path,
        among: Option<&Among>,
        known: Option<&Baseline>,
        spare: Spare,
    ) -> Result<Self, PatchError> {
        let root = Root::open(tree).map_err(|source| PatchError::Root { source })?;
        let mut finding = Finding { known, spare, found: Vec::new(), cost: 0 };
        walk(&root, among, &mut finding)?;
        Ok(Self(Sorted::new(finding.found.into_iter().map(|path| (path, ())).collect())))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.items().len()
    }

    pub(crate) fn has(&self, path: &[u8]) -> bool {
        self.0.at_or_above(path).is_some()
    }

    /// Returns each path as people read it, with how much was there, the largest first.
    pub(crate) fn weighed(
        &self,
        tree: &Path,
        among: Option<&Among>,
        redactor: &Redactor,
    ) -> Vec<(String, u64)> {
        let at = |path: &[u8]| tree.join(OsStr::from_bytes(path));
        let mut sizes = vec![0_u64; self.count()];
        match among {
            Some(among) => {
                for path in among.paths() {
                    if let Some(number) = self.0.at_or_above(path) {
                        sizes[number] += fs::symlink_metadata(at(path)).map_or(0, |data| file_size(&data));
                    }
                }
            }
            None => {
                for ((path, ()), size) in self.0.items().iter().zip(&mut sizes) {
                    *size = below(&at(path)).unwrap_or(0);
                }
            }
        }
        let named = self.0.items().iter().map(|(path, ())| shown(redactor, path));
        let mut weighed: Vec<(String, u64)> = named.zip(sizes).collect();
        weighed.sort_by_key(|(_, size)| Reverse(*size));
        weighed
    }
}

fn file_size(data: &fs::Metadata) -> u64 {
    if data.is_file() { data.len() } else { 0 }
}

/// Adds up the files at and below a path. No link is followed.
fn below(path: &Path) -> io::Result<u64> {
    let mut waiting = vec![path.to_owned()];
    let mut size = 0_u64;
    while let Some(path) = waiting.pop() {
        let data = fs::symlink_metadata(&path)?;
        size = size.saturating_add(file_size(&data));
        if data.is_dir() {
            for entry in fs::read_dir(&path)? {
                waiting.push(entry?.path());
            }
        }
    }
    Ok(size)
}

struct Finding<'a> {
    known: Option<&'a Baseline>,
    spare: Spare,
    found: Vec<Name>,
    cost: usize,
}

impl Finding<'_> {
    fn add(&mut self, path: &[u8]) -> Result<(), PatchError> {
        self.cost += path.len() + NAME_COST;
        if self.cost > NAMES {
            return Err(PatchError::TooManyFiles);
        }
        self.found.push(path.into());
        Ok(())
    }
}

impl Visitor for Finding<'_> {
    fn wants(&self, dir: &[u8]) -> bool {
        self.known.is_some_and(|known| known.entries.beneath(dir))
    }

    fn found(&mut self, found: &Found<'_>) -> Result<(), PatchError> {
        let is_known = || self.known.is_some_and(|known| known.entries.find(found.path).is_some());
        let is_ignored = found.ignored && !found.tracked() && !is_known();
        let size = u64::try_from(found.stat.st_size).unwrap_or(0);
        let is_large = self.spare == Spare::Large && found.kind == Kind::File && size > FILE_BYTES;
        if is_ignored || is_large { self.add(found.path) } else { Ok(()) }
    }

    fn outside(&mut self, path: &[u8], what: Outside) -> Result<(), PatchError> {
        if what == Outside::Ignored { self.add(path) } else { Ok(()) }
    }
}
