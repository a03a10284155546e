//! A copy of all heads in one file, so that listing a thousand names is one read and not a thousand.
//!
//! The copy proves by itself that it is fresh: it carries the change time of the directory of heads, which every
//! registration changes by its rename. Two changes within one tick of the file system's clock carry one time, so a
//! copy is believed only if it was written well after that time. Nobody has to remember to invalidate it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agora_core::provider::registry::Version;
use agora_core::{ContentHash, Name};
use sha2::{Digest, Sha256};

use super::line::{self, VersionLine};

/// A file system's clock ticks at least this often; the slowest in use ticks each 10 ms.
const TICK_NANOS: i128 = 100_000_000;

/// A copy of a million names is smaller.
const CACHE_BYTES: u64 = 512 * 1024 * 1024;

/// The least that a line has: what follows the name.
const LINE_BYTES: u64 = 100;

/// What is read at once: memory that was never used before costs more than what is read into it.
const PIECE_BYTES: usize = 16 * 1024;

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
    let file = File::open(&path).ok()?;
    let size = file.metadata().ok().map(|data| data.len()).filter(|size| *size <= CACHE_BYTES)?;
    believed(BufReader::with_capacity(PIECE_BYTES, file.take(CACHE_BYTES)), size, now)
}

/// Reads a copy piece by piece, and returns what it holds if every byte of it is as it was written, with this stamp.
fn believed(mut lines: impl BufRead, size: u64, now: Stamp) -> Option<Vec<(Name, Version)>> {
    let mut line = Vec::with_capacity(PIECE_BYTES / 16);
    lines.read_until(b'\n', &mut line).ok()?;
    let (stamp, hash) = str::from_utf8(&line).ok()?.strip_suffix('\n')?.split_once(' ')?;
    let promised: ContentHash = hash.parse().ok()?;
    if stamp.parse() != Ok(now.0) {
        return None;
    }
    let mut names = Vec::with_capacity(usize::try_from(size / LINE_BYTES).ok()?);
    let mut hash = Sha256::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).ok()? == 0 {
            break;
        }
        hash.update(&line);
        let (name, rest) = line::word(str::from_utf8(&line).ok()?.strip_suffix('\n')?);
        names.push((name.parse().ok()?, line::version(rest)?.0));
    }
    // Nothing of it is believed before.
    (ContentHash::from_digest(hash.finalize().into()) == promised).then_some(names)
}

#[cfg(test)]
mod tests {
    use agora_core::Timestamp;

    use super::*;

    #[test]
    fn a_copy_is_believed_whole_and_to_the_letter_or_not_at_all() {
        let version = |seq| Version {
            seq,
            content_hash: ContentHash::of(&[1]),
            registered_at: Timestamp::from_millis(1_763_233_200_000),
        };
        let names: Vec<(Name, Version)> =
            (1..=3).map(|seq| (format!("name-{seq}").parse().unwrap(), version(seq))).collect();
        let copy = encode(Stamp(7), &names).into_bytes();
        let read = |bytes: &[u8], now| believed(bytes, bytes.len() as u64, Stamp(now));
        assert_eq!(read(&copy, 7), Some(names));
        assert_eq!(read(&copy, 8), None, "it is of another time");
        assert_eq!(read(&encode(Stamp(7), &[]).into_bytes(), 7), Some(Vec::new()));
        for place in 0..copy.len() {
            assert_eq!(read(&copy[..place], 7), None, "cut at {place}");
            let mut changed = copy.clone();
            // Another digit or letter, so that it still reads well.
            changed[place] ^= 1;
            assert_eq!(read(&changed, 7), None, "changed at {place}");
        }
        assert_eq!(read(&[&copy[..], b"name-4 v1\n"].concat(), 7), None);
    }
}
