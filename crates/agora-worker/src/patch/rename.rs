//! Files that only have another path now.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};

use sha2::{Digest, Sha256};

use super::FILE_BYTES;
use super::baseline::Baseline;
use super::compare::{Changes, Here};
use super::entry::{FileNode, Node, Original, Slice};
use super::root::Root;
use super::section::{Mode, Section};
use super::source::Source;
use crate::redact::Redactor;

/// How many bytes are read at most to find out which files are the same.
const READ_BYTES: u64 = 4 << 30;

const PIECE: usize = 64 << 10;

type Sha = [u8; 32];

/// A file that went from one path to another, as the patch says it.
#[derive(Debug)]
pub(super) struct Rename {
    /// The number of the baseline's entry.
    pub(super) from: usize,
    /// The number of the new path.
    pub(super) to: usize,
    pub(super) text: Vec<u8>,
}

/// Pairs files that went with files that came and have the same content, as long as there is room to say so. A new
/// path that needs another one to be gone is not paired: a rename depends on nothing.
pub(super) fn find(
    baseline: &Baseline,
    changes: &Changes,
    root: &Root,
    redactor: &Redactor,
    mut room: u64,
) -> io::Result<Vec<Rename>> {
    let mut gone = Gone::new(baseline, changes);
    let mut renames = Vec::new();
    for (to, (path, here)) in changes.added.iter().enumerate() {
        let Here::File { executable, size } = *here else { continue };
        let covers = |source: &Source| source.has(path) || source.is_in_the_way(path, &baseline.entries);
        if !gone.has_size(size)
            || baseline.entries.in_the_way(path)
            || baseline.source.as_ref().is_some_and(covers)
        {
            continue;
        }
        let Some(sha) = gone.hash_new(root, path, size) else { continue };
        let Some(from) = gone.take(size, sha, path)? else { continue };
        let (old_path, node) = &baseline.entries.items()[from];
        let old_mode = matches!(node, Node::File(FileNode { executable: true, .. }));
        let mut section = Section::new(room, 0);
        let written = section.rename((old_path, Mode::of_file(old_mode)), (path, Mode::of_file(executable)));
        let Ok(text) = written.and_then(|()| section.finish(redactor)) else { continue };
        room -= text.len() as u64;
        renames.push(Rename { from, to, text });
    }
    Ok(renames)
}

/// The files that went, by size, and by content once somebody asks.
struct Gone<'a> {
    baseline: &'a Baseline,
    /// Those whose content nobody asked for yet. A size stays when they went from here.
    by_size: HashMap<u64, Vec<usize>>,
    by_content: HashMap<Sha, Vec<usize>>,
    by_name: HashMap<(Sha, &'a [u8]), Vec<usize>>,
    taken: HashSet<usize>,
    /// How many bytes may still be read.
    left: u64,
}

impl<'a> Gone<'a> {
    fn new(baseline: &'a Baseline, changes: &Changes) -> Self {
        let mut by_size: HashMap<u64, Vec<usize>> = HashMap::new();
        // What the source has there goes to the new path, whatever somebody else had made of it.
        let goes = |number: usize| {
            let path = &baseline.entries.items()[number].0;
            baseline.source.as_ref().is_none_or(|source| source.has_file(path))
        };
        // The last is taken first, so the first path stands last.
        for &number in changes.removed.iter().rev().filter(|number| goes(**number)) {
            if let Some(slice) = kept(baseline, number)
                && slice.len > 0
            {
                by_size.entry(slice.len).or_default().push(number);
            }
        }
        let (by_content, by_name) = (HashMap::new(), HashMap::new());
        Self { baseline, by_size, by_content, by_name, taken: HashSet::new(), left: READ_BYTES }
    }

    fn has_size(&self, size: u64) -> bool {
        size <= FILE_BYTES && self.by_size.contains_key(&size)
    }

    fn hash_new(&mut self, root: &Root, path: &[u8], size: u64) -> Option<Sha> {
        self.left = self.left.checked_sub(size)?;
        let (file, _) = root.file(path).ok()?;
        hash(&mut file.take(FILE_BYTES)).ok().filter(|(len, _)| *len == size).map(|(_, sha)| sha)
    }

    /// Takes a file of this content that nobody took yet, preferably of the same name.
    fn take(&mut self, size: u64, sha: Sha, path: &'a [u8]) -> io::Result<Option<usize>> {
        self.hash_old(size)?;
        let namesakes = self.by_name.get_mut(&(sha, file_name(path)));
        for alike in [namesakes, self.by_content.get_mut(&sha)].into_iter().flatten() {
            while let Some(number) = alike.pop() {
                if self.taken.insert(number) {
                    return Ok(Some(number));
                }
            }
        }
        Ok(None)
    }

    fn hash_old(&mut self, size: u64) -> io::Result<()> {
        for number in self.by_size.get_mut(&size).map(std::mem::take).unwrap_or_default() {
            let Some(slice) = kept(self.baseline, number) else { continue };
            let sha = match slice.sha256 {
                Some(sha) => sha,
                None => hash(&mut slice.reader())?.1,
            };
            self.by_content.entry(sha).or_default().push(number);
            let name = file_name(&self.baseline.entries.items()[number].0);
            self.by_name.entry((sha, name)).or_default().push(number);
        }
        Ok(())
    }
}

fn kept(baseline: &Baseline, number: usize) -> Option<&Slice> {
    match &baseline.entries.items()[number].1 {
        Node::File(FileNode { original: Original::Kept(slice), .. }) => Some(slice),
        Node::File(_) | Node::Link(_) => None,
    }
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Returns how many bytes there were, and their hash.
fn hash(from: &mut impl Read) -> io::Result<(u64, Sha)> {
    let (mut hash, mut len, mut piece) = (Sha256::new(), 0, vec![0; PIECE]);
    loop {
        match from.read(&mut piece)? {
            0 => return Ok((len, hash.finalize().into())),
            read => {
                hash.update(&piece[..read]);
                len += read as u64;
            }
        }
    }
}
