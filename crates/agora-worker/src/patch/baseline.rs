//! The workspace as it was before the agent started.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::fstat;

use super::among::Among;
use super::entry::{FileNode, Fingerprint, Name, Node, Original, Slice, Sorted, Stock, above, executable};
use super::root::Root;
use super::source::Source;
use super::walk::{Found, Kind, Outside, Visitor, walk};
use super::{FILE_BYTES, PatchError};

/// How many bytes of names a baseline holds, with what each costs beside its bytes: two million of usual length.
pub(super) const NAMES: usize = 512 << 20;
pub(super) const NAME_COST: usize = 192;

/// Stands at the beginning of the spool. Writing it also tells the time by the clock that stamps files.
const SPOOL_HEAD: &[u8] = b"agora originals\n";

/// What was written into the workspace from packs, so that it need not be read again.
#[derive(Debug, Default)]
pub struct Known {
    files: HashMap<Vec<u8>, KnownFile>,
    latest: Option<i128>,
}

/// A file that was written from a part of a pack.
#[derive(Clone, Debug)]
pub struct KnownFile {
    pub pack: Arc<File>,
    pub offset: u64,
    pub len: u64,
    pub sha256: [u8; 32],
    /// How the file looked once it was written.
    pub fingerprint: Fingerprint,
}

impl Known {
    /// Adds a file by its path from the root.
    pub fn add(&mut self, path: impl Into<Vec<u8>>, file: KnownFile) {
        self.latest = self.latest.max(Some(file.fingerprint.ctime_ns));
        self.files.insert(path.into(), file);
    }

    /// Returns where the content lies, if the file is certainly still what was written. A file of the very last tick
    /// of the clock could have been changed within that tick, by whatever ran after all were written: it is read
    /// instead.
    fn find(&self, path: &[u8], fingerprint: &Fingerprint) -> Option<Slice> {
        let known = self.files.get(path)?;
        let same = known.fingerprint == *fingerprint && known.len == fingerprint.size;
        let settled = Some(fingerprint.ctime_ns) < self.latest;
        let slice = || Slice {
            file: Stock::Open(Arc::clone(&known.pack)),
            offset: known.offset,
            len: known.len,
            sha256: Some(known.sha256),
        };
        (same && settled).then(slice)
    }
}

/// The workspace as it was: every file and link that counts, and where its original content lies.
#[derive(Debug)]
pub struct Baseline {
    pub(super) entries: Sorted<Node>,
    /// What was there and does not count.
    pub(super) outside: Sorted<Outside>,
    pub(super) spool: Spool,
    /// The only paths that can have changed. `None`: any may have.
    pub(super) among: Option<Among>,
    /// What a patch must fit. `None`: the baseline itself.
    pub(super) source: Option<Source>,
}

impl Baseline {
    /// Looks at a tree that nobody changes any more, and only at those paths of it that differ in the workspace, perhaps.
    /// Originals stay where they are.
    pub fn of_tree(tree: &Path, among: Among, spool: File) -> Result<Self, PatchError> {
        let root = Root::open(tree).map_err(|source| PatchError::Root { source })?;
        let (spool, now) = Spool::begin(spool).map_err(|source| PatchError::Spool { source })?;
        let known = &Known::default();
        let (entries, outside) = (Vec::new(), Vec::new());
        let mut taking = Taking { known, spool, now, tree: Some(tree), entries, outside, cost: 0 };
        walk(&root, Some(&among), &mut taking)?;
        let (entries, outside) = (Sorted::new(taking.entries), Sorted::new(taking.outside));
        Ok(Self { entries, outside, spool: taking.spool, among: Some(among), source: None })
    }

    /// Looks at the whole workspace once. Originals that are in no pack are copied to the spool, a file that the agent
    /// cannot reach.
    pub fn take(root: &Path, spool: File, known: &Known) -> Result<Self, PatchError> {
        let root = Root::open(root).map_err(|source| PatchError::Root { source })?;
        let (spool, now) = Spool::begin(spool).map_err(|source| PatchError::Spool { source })?;
        let (entries, outside) = (Vec::new(), Vec::new());
        let mut taking = Taking { known, spool, now, tree: None, entries, outside, cost: 0 };
        walk(&root, None, &mut taking)?;
        let (entries, outside) = (Sorted::new(taking.entries), Sorted::new(taking.outside));
        Ok(Self { entries, outside, spool: taking.spool, among: None, source: None })
    }

    /// Lets patches fit what the workspace was made from, which is not what the agent was given where something was laid over it.
    #[must_use]
    pub fn standing_on(self, source: Source) -> Self {
        Self { source: Some(source), ..self }
    }

    /// Returns how many files and links it holds.
    pub fn files(&self) -> usize {
        self.entries.items().len()
    }

    /// Returns what git ignored, as paths from the root: files, and directories with nothing in them that counts.
    pub fn ignored(&self) -> impl Iterator<Item = &[u8]> {
        let ignored = self.outside.items().iter().filter(|(_, what)| *what == Outside::Ignored);
        ignored.map(|(path, _)| &**path)
    }
}

/// Links that are followed before Linux and git give up.
const HOPS: usize = 40;

impl Baseline {
    /// Tells whether a path lies beneath a link that leads only to itself. Git cannot look past such a link, not even
    /// when the patch takes it away first.
    pub(super) fn is_beneath_loop(&self, path: &[u8]) -> bool {
        let mut at = path.to_vec();
        for _ in 0..HOPS {
            let link = above(&at).chain([&*at]).find_map(|dir| self.link(dir));
            let Some(next) = link.and_then(|(dir, target)| resolved(dir, target)) else { return false };
            at = next;
        }
        true
    }

    fn link<'p>(&self, path: &'p [u8]) -> Option<(&'p [u8], &[u8])> {
        match &self.entries.items()[self.entries.find(path)?].1 {
            Node::Link(target) => Some((path, target)),
            Node::File(_) => None,
        }
    }
}

/// Returns where a link points, by its text alone; `None` when that is not below the root.
fn resolved(link: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    let mut parts: Vec<&[u8]> = link.split(|&byte| byte == b'/').collect();
    parts.pop();
    if target.starts_with(b"/") {
        return None;
    }
    for part in target.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join(&b'/'))
}

struct Taking<'a> {
    known: &'a Known,
    spool: Spool,
    /// When the walk began. A file that was changed since then could be changed again and look the same.
    now: i128,
    /// Where originals can be read later, if nobody changes them there.
    tree: Option<&'a Path>,
    entries: Vec<(Name, Node)>,
    outside: Vec<(Name, Outside)>,
    cost: usize,
}

impl Visitor for Taking<'_> {
    fn wants(&self, _dir: &[u8]) -> bool {
        false
    }

    fn found(&mut self, found: &Found<'_>) -> Result<(), PatchError> {
        if found.ignored && !found.tracked() {
            return self.outside(found.path, Outside::Ignored);
        }
        self.pay(found.path)?;
        let node = match found.kind {
            Kind::File => Node::File(self.file(found)?),
            Kind::Link => match found.target() {
                Ok(target) => Node::Link(target),
                Err(_) => return Ok(()),
            },
        };
        self.entries.push((found.path.into(), node));
        Ok(())
    }

    fn outside(&mut self, path: &[u8], what: Outside) -> Result<(), PatchError> {
        self.pay(path)?;
        self.outside.push((path.into(), what));
        Ok(())
    }
}

impl Taking<'_> {
    fn pay(&mut self, path: &[u8]) -> Result<(), PatchError> {
        self.cost += path.len() + NAME_COST;
        if self.cost > NAMES { Err(PatchError::TooManyFiles) } else { Ok(()) }
    }

    fn file(&mut self, found: &Found<'_>) -> Result<FileNode, PatchError> {
        if let Some(tree) = self.tree {
            return Ok(in_place(tree, found));
        }
        let fingerprint = Fingerprint::of(found.stat);
        let (original, fingerprint) = if fingerprint.size > FILE_BYTES {
            (Original::TooLarge, fingerprint)
        } else if let Some(slice) = self.known.find(found.path, &fingerprint) {
            (Original::Kept(slice), fingerprint)
        } else {
            match found.open() {
                // What is read is what is open, whatever stood there before.
                Ok((file, stat)) => (self.keep(&file)?, Fingerprint::of(&stat)),
                Err(_) => (Original::Unreadable, fingerprint),
            }
        };
        let seen = (fingerprint.ctime_ns < self.now).then_some(fingerprint);
        Ok(FileNode { executable: executable(found.stat), seen, original })
    }

    fn keep(&mut self, file: &File) -> Result<Original, PatchError> {
        let kept = self.spool.append(&mut file.take(FILE_BYTES + 1));
        let slice = kept.map_err(|source| PatchError::Spool { source })?;
        Ok(if slice.len > FILE_BYTES { Original::TooLarge } else { Original::Kept(slice) })
    }
}

/// Takes a file whose original stays where it is. It is another one than the workspace's, so that looks tell nothing.
fn in_place(tree: &Path, found: &Found<'_>) -> FileNode {
    let size = Fingerprint::of(found.stat).size;
    let original = if size > FILE_BYTES {
        Original::TooLarge
    } else if found.open().is_err() {
        Original::Unreadable
    } else {
        let file = Stock::At(tree.join(OsStr::from_bytes(found.path)).into());
        Original::Kept(Slice { file, offset: 0, len: size, sha256: None })
    };
    FileNode { executable: executable(found.stat), seen: None, original }
}

/// One file with originals one after the other.
#[derive(Clone, Debug)]
pub(super) struct Spool(Arc<File>);

impl Spool {
    /// Returns the spool, and the time by the clock that stamps files.
    fn begin(file: File) -> io::Result<(Self, i128)> {
        (&file).seek(SeekFrom::End(0))?;
        (&file).write_all(SPOOL_HEAD)?;
        let now = Fingerprint::of(&fstat(&file)?).ctime_ns;
        Ok((Self(Arc::new(file)), now))
    }

    pub(super) fn append(&self, from: &mut impl Read) -> io::Result<Slice> {
        let offset = (&*self.0).seek(SeekFrom::End(0))?;
        // The standard library lets the kernel copy where both are files.
        let len = io::copy(from, &mut &*self.0)?;
        Ok(Slice { file: Stock::Open(Arc::clone(&self.0)), offset, len, sha256: None })
    }
}
