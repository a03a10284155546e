//! Files that went to where the patch does not show them as they are: they stay where they were, or nobody would have them any more.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read};

use super::FILE_BYTES;
use super::baseline::Baseline;
use super::compare::Here;
use super::entry::{FileNode, Name, Node, Original};
use super::root::Root;
use super::text::lines;

/// What is in the workspace and, as it is, not in the patch.
#[derive(Clone, Debug)]
pub(super) struct Unshown {
    pub(super) path: Name,
    pub(super) here: Here,
    /// The number of the baseline's entry, if something was there before.
    pub(super) was: Option<usize>,
}

/// Returns which files that went, by their numbers, are in one of these now. Of `left` it takes what it reads; after that, names and
/// sizes tell.
pub(super) fn into(
    baseline: &Baseline,
    root: &Root,
    gone: impl IntoIterator<Item = usize>,
    unshown: &[Unshown],
    left: &mut u64,
) -> io::Result<BTreeSet<usize>> {
    let mut gone: BTreeSet<usize> = gone.into_iter().collect();
    let mut found = BTreeSet::new();
    let mut reading = Reading { baseline, root, left };
    for unshown in unshown {
        if gone.is_empty() {
            break;
        }
        let now = reading.now(unshown);
        let before = unshown.was.map(|number| reading.before(number)).transpose()?.flatten();
        let shares = [now.as_deref(), before.as_deref()].map(|bytes| bytes.map(Pieces::of));
        for &number in &gone {
            if reading.is_in(number, unshown, &shares)? {
                found.insert(number);
            }
        }
        gone.retain(|number| !found.contains(number));
    }
    Ok(found)
}

struct Reading<'a> {
    baseline: &'a Baseline,
    root: &'a Root,
    left: &'a mut u64,
}

impl Reading<'_> {
    /// Tells whether what is there now has half or more of what a file was, and had not before.
    fn is_in(
        &mut self,
        number: usize,
        unshown: &Unshown,
        [now, before]: &[Option<Pieces<'_>>; 2],
    ) -> io::Result<bool> {
        let (path, node) = &self.baseline.entries.items()[number];
        let Some(len) = len(node).filter(|&len| len > 0) else { return Ok(false) };
        let size = match unshown.here {
            Here::File { size, .. } => size,
            Here::Link => u64::MAX,
        };
        if size < len / 2 {
            return Ok(false);
        }
        let was = if now.is_some() { self.before(number)? } else { None };
        Ok(match (now, was) {
            (Some(now), Some(was)) => {
                now.have_half_of(&was) && !before.as_ref().is_some_and(|before| before.have_half_of(&was))
            }
            _ => size == len || file_name(path) == file_name(&unshown.path),
        })
    }

    fn spend(&mut self, bytes: u64) -> Option<()> {
        *self.left = self.left.checked_sub(bytes)?;
        Some(())
    }

    /// Reads what stands there, as much of it as a file may have that was kept.
    fn now(&mut self, unshown: &Unshown) -> Option<Vec<u8>> {
        match unshown.here {
            Here::Link => self.root.link(&unshown.path).ok().map(Vec::from),
            Here::File { size, .. } => {
                self.spend(size.min(FILE_BYTES))?;
                let (file, _) = self.root.file(&unshown.path).ok()?;
                let mut bytes = Vec::new();
                file.take(FILE_BYTES).read_to_end(&mut bytes).ok().map(|_| bytes)
            }
        }
    }

    fn before(&mut self, number: usize) -> io::Result<Option<Vec<u8>>> {
        match &self.baseline.entries.items()[number].1 {
            Node::Link(target) => Ok(Some(target.to_vec())),
            Node::File(FileNode { original: Original::Kept(slice), .. }) => {
                self.spend(slice.len).map(|()| slice.read()).transpose()
            }
            Node::File(_) => Ok(None),
        }
    }
}

fn len(node: &Node) -> Option<u64> {
    match node {
        Node::Link(target) => Some(target.len() as u64),
        Node::File(FileNode { original: Original::Kept(slice), .. }) => Some(slice.len),
        // What there was of it cannot be in the patch, not even that it went.
        Node::File(_) => None,
    }
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// A content, and how often it has each line.
struct Pieces<'a> {
    bytes: &'a [u8],
    lines: HashMap<&'a [u8], u32>,
}

impl<'a> Pieces<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let mut counted = HashMap::new();
        for line in lines(bytes) {
            *counted.entry(line).or_default() += 1;
        }
        Self { bytes, lines: counted }
    }

    /// Tells whether half of another content is here: by lines, or, where there are none to speak of, by how both begin and end.
    fn have_half_of(&self, other: &[u8]) -> bool {
        let begin = self.bytes.iter().zip(other).take_while(|(one, other)| one == other).count();
        let (here, there) = (self.bytes.iter().rev(), other.iter().rev());
        let end = here.zip(there).take_while(|(one, other)| one == other).count();
        let end = end.min(self.bytes.len().min(other.len()) - begin);
        if 2 * (begin + end) >= other.len() {
            return true;
        }
        let mut taken: HashMap<&[u8], u32> = HashMap::new();
        let mut shared = 0;
        for line in lines(other) {
            let taken = taken.entry(line).or_default();
            if self.lines.get(line).is_some_and(|have| *taken < *have) {
                *taken += 1;
                shared += line.len();
            }
        }
        2 * shared >= other.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::Known;

    /// What stays is in the way of others, which may be where yet others went: an agent makes that go on for as many files as there are.
    #[test]
    fn however_often_it_is_asked_no_more_is_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("old"), "one\ntwo\nthree\n").unwrap();
        let spool = tempfile::tempfile().unwrap();
        let baseline = Baseline::take(dir.path(), spool, &Known::default()).unwrap();
        std::fs::rename(dir.path().join("old"), dir.path().join("new")).unwrap();
        std::fs::write(dir.path().join("new"), "one\ntwo\nthree\nfour\n").unwrap();
        let root = Root::open(dir.path()).unwrap();
        let here = Here::File { size: 19, executable: false };
        let unshown = [Unshown { path: (*b"new").into(), here, was: None }];
        let mut left = 40;
        let mut found = || into(&baseline, &root, [0], &unshown, &mut left).unwrap().len();
        assert_eq!([found(), found()], [1, 0]);
        assert_eq!(left, 40 - 14 - 19);
    }

    #[test]
    fn half_is_enough() {
        for (now, was, is) in [
            ("a\nb\nc\n", "a\nb\nc\n", true),
            ("x\nb\ny\nd\n", "a\nb\nc\nd\n", true),
            ("x\nb\ny\nz\n", "a\nb\nc\nd\n", false),
            ("b\n", "b\nb\nb\n", false),
            ("12345-78", "12345678", true),
            ("new 5678", "12345678", true),
            ("", "a", false),
        ] {
            assert_eq!(Pieces::of(now.as_bytes()).have_half_of(was.as_bytes()), is, "{now:?} {was:?}");
        }
    }
}
