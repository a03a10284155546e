//! Reads what was carried across a pause. Nothing in it is taken on trust: lengths are capped before anything is kept.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::baseline::{Baseline, NAME_COST, NAMES};
use super::carry::{
    ABSENT, END, FILE, HEAD, LINK, LONGEST, LOST, ORIGINALS_BYTES, OUTSIDE, lost_from, outside_from,
};
use super::entry::{FileNode, Name, Node, Original, Sorted};
use super::walk::Outside;
use super::{FILE_BYTES, PatchError};

/// Says why bytes are not what was carried.
#[derive(Debug, thiserror::Error)]
pub enum CarriedError {
    #[error("it could not be read to its end")]
    Read { source: io::Error },
    #[error("it is not of a kind or version that this worker knows")]
    Unknown,
    #[error("it holds more than a worker writes")]
    TooLarge,
    #[error("it has a path that no workspace has")]
    Path,
}

impl From<CarriedError> for PatchError {
    fn from(source: CarriedError) -> Self {
        Self::Carried { source }
    }
}

impl Baseline {
    /// Lays over this baseline, just taken of a workspace that was put back, what was carried across the pause.
    /// Returns the baseline of the whole thread; this one stays that of the dispatch.
    pub fn resume(&self, carried: &mut dyn Read) -> Result<Self, PatchError> {
        let entries = self.entries.items().iter().cloned().collect();
        let mut laying = Laying { baseline: self, carried, entries, outside: Vec::new(), cost: 0 };
        laying.read()?;
        let outside = Sorted::new(laying.outside);
        // What was no part of the workspace when the thread began is no part of its baseline now.
        laying.entries.retain(|path, _| !outside.in_the_way(path));
        let entries = Sorted::new(laying.entries.into_iter().collect());
        Ok(Self { entries, outside, spool: self.spool.clone(), among: None, source: None })
    }
}

struct Laying<'a> {
    baseline: &'a Baseline,
    carried: &'a mut dyn Read,
    entries: BTreeMap<Name, Node>,
    outside: Vec<(Name, Outside)>,
    /// What the names cost so far.
    cost: usize,
}

impl Laying<'_> {
    fn read(&mut self) -> Result<(), PatchError> {
        if self.bytes()? != *HEAD {
            return Err(CarriedError::Unknown.into());
        }
        let mut left = ORIGINALS_BYTES;
        loop {
            let [kind] = self.bytes()?;
            match kind {
                END => return Ok(()),
                ABSENT => drop(self.path().map(|path| self.entries.remove(&path))?),
                OUTSIDE => self.outside()?,
                LINK => self.link()?,
                FILE => self.file(&mut left)?,
                LOST => self.lost()?,
                _ => return Err(CarriedError::Unknown.into()),
            }
        }
    }

    fn outside(&mut self) -> Result<(), CarriedError> {
        let path = self.name()?;
        let [code] = self.bytes()?;
        self.outside.push((path, outside_from(code).ok_or(CarriedError::Unknown)?));
        Ok(())
    }

    fn link(&mut self) -> Result<(), CarriedError> {
        let (path, target) = (self.path()?, self.short()?);
        self.entries.insert(path, Node::Link(target));
        Ok(())
    }

    fn file(&mut self, left: &mut u64) -> Result<(), PatchError> {
        let (path, executable) = (self.path()?, self.executable()?);
        let len = u64::from_be_bytes(self.bytes()?);
        *left = left.checked_sub(len).filter(|_| len <= FILE_BYTES).ok_or(CarriedError::TooLarge)?;
        let kept = self.baseline.spool.append(&mut (&mut *self.carried).take(len));
        let slice = kept.map_err(|source| PatchError::Spool { source })?;
        if slice.len != len {
            return Err(CarriedError::Read { source: io::ErrorKind::UnexpectedEof.into() }.into());
        }
        let file = FileNode { executable, seen: None, original: Original::Kept(slice) };
        self.entries.insert(path, Node::File(file));
        Ok(())
    }

    fn lost(&mut self) -> Result<(), CarriedError> {
        let (path, executable) = (self.path()?, self.executable()?);
        let [code] = self.bytes()?;
        let original = lost_from(code).ok_or(CarriedError::Unknown)?;
        self.entries.insert(path, Node::File(FileNode { executable, seen: None, original }));
        Ok(())
    }

    fn executable(&mut self) -> Result<bool, CarriedError> {
        match self.bytes()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(CarriedError::Unknown),
        }
    }

    /// Reads the path of a file or link.
    fn path(&mut self) -> Result<Name, CarriedError> {
        let path = self.name()?;
        let own = path.split(|&byte| byte == b'/').any(|part| part == b".git");
        if own { Err(CarriedError::Path) } else { Ok(path) }
    }

    /// Reads a path, of whatever is there.
    fn name(&mut self) -> Result<Name, CarriedError> {
        let path = self.short()?;
        let odd = |part: &[u8]| matches!(part, b"" | b"." | b"..") || part.contains(&0);
        if path.split(|&byte| byte == b'/').any(odd) {
            return Err(CarriedError::Path);
        }
        Ok(path)
    }

    /// Reads a path, or where a link points.
    fn short(&mut self) -> Result<Box<[u8]>, CarriedError> {
        let len = usize::from(u16::from_be_bytes(self.bytes()?));
        self.cost += len + NAME_COST;
        if len > LONGEST || self.cost > NAMES {
            return Err(CarriedError::TooLarge);
        }
        let mut bytes = vec![0; len];
        self.carried.read_exact(&mut bytes).map_err(|source| CarriedError::Read { source })?;
        Ok(bytes.into())
    }

    fn bytes<const LEN: usize>(&mut self) -> Result<[u8; LEN], CarriedError> {
        let mut bytes = [0; LEN];
        self.carried.read_exact(&mut bytes).map_err(|source| CarriedError::Read { source })?;
        Ok(bytes)
    }
}
