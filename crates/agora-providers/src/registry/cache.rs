//! A copy of all heads in one file, so that listing a thousand names is one read and not a thousand.
//!
//! The copy proves by itself that it is fresh: it carries the change time of the directory of heads, which every
//! registration changes by its rename. Two changes within one tick of the file system's clock carry one time, so a
//! copy is believed only if it was written well after that time. Nobody has to remember to invalidate it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agora_core::provider::registry::Version;
use agora_core::{ContentHash, Name};

use super::line::{self, VersionLine};
use crate::home::read_capped;

/// A file system's clock ticks at least this often; the slowest in use ticks each 10 ms.
const TICK_NANOS: i128 = 100_000_000;

/// A copy of a million names is smaller.
const CACHE_BYTES: u64 = 512 * 1024 * 1024;

/// The least that a line has: what follows the name.
const LINE_BYTES: usize = 100;

/// A directory's change time, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp(i128);

pub(super) fn path(dir: &Path) -> PathBuf {
    dir.join("catalogue")
}

/// Returns when the names in a directory last changed. `None`: there is no such directory.
pub(super) fn stamp(heads: &Path) -> Option<Stamp> {
    let meta = fs::metadata(heads).ok()?;
    Some(Stamp(i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec())))
}

/// Writes the copy: the stamp and a hash of what follows, then a line for each name.
pub(super) fn encode(stamp: Stamp, names: &[(Name, Version)]) -> String {
    let body: String =
        names.iter().map(|(name, version)| format!("{name} {}\n", VersionLine(*version))).collect();
    format!("{} {}\n{body}", stamp.0, ContentHash::of(body.as_bytes()))
}

/// Reads the copy, if it is there, whole and fresh. Whatever is wrong with it, the heads are read instead.
pub(super) fn read(dir: &Path) -> Option<Vec<(Name, Version)>> {
    let now = stamp(&dir.join("heads"))?;
    let path = path(dir);
    let written = stamp(&path)?;
    if written.0 - now.0 < TICK_NANOS {
        return None;
    }
    let text = String::from_utf8(read_capped(&path, CACHE_BYTES).ok()??).ok()?;
    let (first, body) = text.split_once('\n')?;
    let (stamp, hash) = first.split_once(' ')?;
    if stamp.parse() != Ok(now.0) || hash.parse() != Ok(ContentHash::of(body.as_bytes())) {
        return None;
    }
    let mut names = Vec::with_capacity(body.len() / LINE_BYTES);
    for line in body.lines() {
        let (name, rest) = line::word(line);
        names.push((name.parse().ok()?, line::version(rest)?.0));
    }
    Some(names)
}
