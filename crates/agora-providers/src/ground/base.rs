//! Cached copies of sources: immutable files, and an index by which the next thread knows what it need not read.
//!
//! ```text
//!  bases/<source>/lock           shared while somebody compares, alone while somebody makes or takes away
//!  bases/<source>/<n>/files      the files
//!  bases/<source>/<n>/index      how they looked in the source
//!  bases/<source>/tmp-…          one that is being made, or was when its maker died
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use agora_core::ContentHash;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat, syncfs};

use super::copy::{self, Owner, Took};
use super::index::{self, Delta, Entry, Kind};
use super::pick::Picker;
use super::walk::at;
use crate::home::make_private;

pub(super) const BASES: &str = "bases";
const MAKING: &str = "tmp-";

/// All bases of one source.
#[derive(Debug)]
pub(super) struct Bases {
    dir: PathBuf,
    name: String,
}

/// A base that is there.
#[derive(Debug)]
pub(super) struct Base {
    /// Its name among all bases: `<source>/<n>`.
    pub(super) name: String,
    pub(super) dir: PathBuf,
    pub(super) entries: Vec<Entry>,
}

/// Keeps others from taking bases away, or from making one. Given back when it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    _lock: File,
}

/// Why somebody holds the bases of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Shared,
    Alone,
}

impl Bases {
    /// Names the bases of a source by where it is.
    pub(super) fn of(home: &Path, source: &Path) -> Self {
        let hash = ContentHash::of(source.as_os_str().as_encoded_bytes()).to_string();
        let name = hash.rsplit(':').next().unwrap_or_default().chars().take(20).collect::<String>();
        Self { dir: home.join(BASES).join(&name), name }
    }

    pub(super) fn at(dir: PathBuf, name: String) -> Self {
        Self { dir, name }
    }

    pub(super) fn hold(&self, hold: Hold) -> io::Result<Held> {
        make_private(&self.dir)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let lock = openat(CWD, self.dir.join("lock"), flags, Mode::RUSR | Mode::WUSR)?;
        let operation = match hold {
            Hold::Shared => FlockOperation::LockShared,
            Hold::Alone => FlockOperation::LockExclusive,
        };
        flock(&lock, operation)?;
        Ok(Held { _lock: lock.into() })
    }

    /// Returns their numbers, the oldest first.
    pub(super) fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut numbers: Vec<u64> = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    pub(super) fn dir_of(&self, number: u64) -> PathBuf {
        self.dir.join(number.to_string())
    }

    pub(super) fn name_of(&self, number: u64) -> String {
        format!("{}/{number}", self.name)
    }

    /// Returns the newest that can be read.
    pub(super) fn newest(&self, _held: &Held) -> io::Result<Option<Base>> {
        for number in self.numbers()?.into_iter().rev() {
            let dir = self.dir_of(number);
            // One that is damaged is as good as none.
            if let Ok(entries) = fs::read(dir.join("index")).and_then(|bytes| index::decode(&bytes)) {
                return Ok(Some(Base { name: self.name_of(number), dir: dir.join("files"), entries }));
            }
        }
        Ok(None)
    }

    /// Makes a base of what is in the source now. Whatever is unchanged is the old base's, under another name.
    pub(super) fn make(
        &self,
        _alone: &Held,
        old: Option<(&Base, &Delta)>,
        making: Making<'_>,
    ) -> io::Result<Base> {
        self.clear_abandoned()?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let staged = self.dir.join(format!("{MAKING}{:016x}", u64::from_ne_bytes(random)));
        let made = making.fill(&staged, old).and_then(|entries| {
            let number = self.numbers()?.last().map_or(1, |last| last + 1);
            let dir = self.dir_of(number);
            // Its name is there only when everything else is.
            syncfs(File::open(&staged)?)?;
            fs::rename(&staged, &dir)?;
            syncfs(File::open(&self.dir)?)?;
            Ok(Base { name: self.name_of(number), dir: dir.join("files"), entries })
        });
        if made.is_err() {
            let _ = crate::shelf::remove(&staged);
        }
        made
    }

    /// Takes away what makers left that died: whoever is alone here knows that nobody makes one.
    pub(super) fn clear_abandoned(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(MAKING)) {
                crate::shelf::remove(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// What a base is made with.
#[derive(Debug)]
pub(super) struct Making<'a> {
    pub(super) source: &'a Path,
    pub(super) entries: Vec<Entry>,
    pub(super) picker: &'a Picker,
    pub(super) owner: Owner,
    /// When the source was looked at, by the clock that stamps files.
    pub(super) looked_at: i64,
}

impl Making<'_> {
    fn fill(self, staged: &Path, old: Option<(&Base, &Delta)>) -> io::Result<Vec<Entry>> {
        let files = staged.join("files");
        make_private(staged)?;
        fs::create_dir(&files)?;
        self.owner.set(&files)?;
        let changed = |number: usize| match old {
            Some((_, delta)) => delta.changed.binary_search(&number).is_ok(),
            None => true,
        };
        let mut taken = Vec::with_capacity(self.entries.len());
        for (number, entry) in self.entries.iter().enumerate() {
            if !entry.kept {
                taken.push(entry.clone());
                continue;
            }
            let to = at(&files, &entry.path);
            if let Some((old, _)) = old.filter(|_| !changed(number) && entry.kind != Kind::Directory) {
                fs::hard_link(at(&old.dir, &entry.path), &to)?;
                taken.push(entry.clone());
                continue;
            }
            match copy::take(&at(self.source, &entry.path), &to, entry, self.picker, self.owner)? {
                Took::Copied(entry) | Took::LeftOut(entry) => taken.push(entry),
                Took::Gone => {}
            }
        }
        for entry in &mut taken {
            if entry.ctime_ns >= self.looked_at {
                entry.doubt();
            }
        }
        fs::write(staged.join("index"), index::encode(&taken))?;
        Ok(taken)
    }
}
