//! Takes a baseline across a pause.
//!
//! A thread goes on in a workspace that was put back as it was at the pause. There a new baseline is taken, and what
//! was carried is laid over it: what the thread had added was not there, and what it had changed was different. What
//! it had not changed need not be carried.

use std::io::{self, Write};
use std::path::Path;

use super::baseline::Baseline;
use super::compare::{Here, compare};
use super::entry::{Name, Node, Original, Slice};
use super::root::Root;
use super::walk::Outside;
use super::{FILE_BYTES, PatchError};

/// What every stream begins with; the last byte is the version.
pub(super) const HEAD: &[u8; 12] = b"agora-carry\x01";

/// The originals in one stream have at most as many bytes as this, like the workspace that is kept across a pause.
pub(super) const ORIGINALS_BYTES: u64 = 1 << 30;

/// The longest path that Linux opens; also the longest target of a link.
pub(super) const LONGEST: usize = 4095;

/// What a record is about. Numbers, because they are stored.
pub(super) const END: u8 = 0;
pub(super) const ABSENT: u8 = 1;
pub(super) const FILE: u8 = 2;
pub(super) const LINK: u8 = 3;
pub(super) const LOST: u8 = 4;
pub(super) const OUTSIDE: u8 = 5;

impl Baseline {
    /// Writes what the baseline of the next dispatch will not know about this one.
    pub fn carry(&self, root: &Path, out: &mut dyn Write) -> Result<(), PatchError> {
        let root = Root::open(root).map_err(|source| PatchError::Root { source })?;
        let changes = compare(self, &root)?;
        let mut numbers = changes.removed;
        numbers.extend(&changes.hidden);
        for (number, here) in changes.changed {
            if self.differs(&root, number, here).map_err(|source| PatchError::Spool { source })? {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        let mut records = Records { out, left: ORIGINALS_BYTES };
        let added = changes.added.iter().map(|(path, _)| path);
        records.all(self, added, &numbers).map_err(|source| PatchError::Carry { source })
    }

    fn differs(&self, root: &Root, number: usize, here: Here) -> io::Result<bool> {
        let (path, node) = &self.entries.items()[number];
        let (Node::File(file), Here::File { executable, size }) = (node, here) else { return Ok(true) };
        let Original::Kept(slice) = &file.original else { return Ok(true) };
        if file.executable != executable || slice.len != size {
            return Ok(true);
        }
        let old = slice.read()?;
        Ok(root.read(path, FILE_BYTES).map_or(true, |new| new != old))
    }
}

/// Writes records, each with the lengths of its parts before them.
struct Records<'a> {
    out: &'a mut dyn Write,
    left: u64,
}

impl Records<'_> {
    fn all<'n>(
        &mut self,
        baseline: &Baseline,
        added: impl Iterator<Item = &'n Name>,
        numbers: &[usize],
    ) -> io::Result<()> {
        self.out.write_all(HEAD)?;
        for path in added {
            self.path(ABSENT, path)?;
        }
        // A path that is too long to be read back could only be in the way of something.
        for (path, what) in baseline.outside.items().iter().filter(|(path, _)| path.len() <= LONGEST) {
            self.path(OUTSIDE, path)?;
            self.out.write_all(&[outside_code(*what)])?;
        }
        for &number in numbers {
            let (path, node) = &baseline.entries.items()[number];
            self.original(path, node)?;
        }
        self.out.write_all(&[END])?;
        self.out.flush()
    }

    fn path(&mut self, kind: u8, path: &[u8]) -> io::Result<()> {
        self.out.write_all(&[kind])?;
        self.short(path)
    }

    fn short(&mut self, bytes: &[u8]) -> io::Result<()> {
        let len = u16::try_from(bytes.len()).map_err(io::Error::other)?;
        self.out.write_all(&len.to_be_bytes())?;
        self.out.write_all(bytes)
    }

    fn original(&mut self, path: &[u8], node: &Node) -> io::Result<()> {
        let file = match node {
            Node::Link(target) => {
                self.path(LINK, path)?;
                return self.short(target);
            }
            Node::File(file) => file,
        };
        let executable = u8::from(file.executable);
        let lost = match &file.original {
            Original::Kept(slice) if slice.len <= self.left => {
                self.left -= slice.len;
                return self.file(path, executable, slice);
            }
            Original::TooLarge => 0,
            Original::Unreadable => 1,
            Original::NotCarried | Original::Kept(_) => 2,
        };
        self.path(LOST, path)?;
        self.out.write_all(&[executable, lost])
    }

    fn file(&mut self, path: &[u8], executable: u8, slice: &Slice) -> io::Result<()> {
        self.path(FILE, path)?;
        self.out.write_all(&[executable])?;
        self.out.write_all(&slice.len.to_be_bytes())?;
        io::copy(&mut slice.reader(), &mut self.out).map(drop)
    }
}

pub(super) fn lost_from(code: u8) -> Option<Original> {
    [Original::TooLarge, Original::Unreadable, Original::NotCarried].into_iter().nth(code.into())
}

fn outside_code(what: Outside) -> u8 {
    match what {
        Outside::Ignored => 0,
        Outside::Special => 1,
        Outside::Git => 2,
        Outside::Unreadable => 3,
        Outside::TooLong => 4,
        Outside::TooMany => 5,
    }
}

pub(super) fn outside_from(code: u8) -> Option<Outside> {
    use Outside::{Git, Ignored, Special, TooLong, TooMany, Unreadable};
    [Ignored, Special, Git, Unreadable, TooLong, TooMany].into_iter().find(|what| outside_code(*what) == code)
}
