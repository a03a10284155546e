//! Writes a patch.
//!
//! What goes and is in the way of something new is written first, then what has another path, then what is different or new. So it is
//! known, when something new is to be written, whether all that was in its way is gone. What else goes comes last: then it is known
//! whether it only went to where the patch does not show it.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use super::baseline::Baseline;
use super::compare::{Changes, Here, compare};
use super::entry::{FileNode, Name, Node, Original, Sorted};
use super::left_out::{List, Why, shown};
use super::moved::{self, Unshown};
use super::name::refused;
use super::rename::{self, Rename};
use super::root::{Root, Unread};
use super::section::{Mode, Section, Side};
use super::source::{self, Brought};
use super::text::ALL_PAIRS;
use super::{FILE_BYTES, PATCH_BYTES, PatchError, PatchSummary};
use crate::redact::Redactor;

/// How many bytes of files are read at most. A file can be mostly holes, and cost nothing but the time to read it.
const READ_BYTES: u64 = 4 << 30;

/// How many files with secrets are listed. `apply` must know them all, so one more is not written.
const REDACTED: usize = 10_000;

/// How many files that are not only the agent's are listed.
const NOTED: usize = 10_000;

impl Baseline {
    /// Writes what differs between this and the workspace as it is now.
    pub fn patch(
        &self,
        root: &Path,
        redactor: &Redactor,
        out: &mut dyn Write,
    ) -> Result<PatchSummary, PatchError> {
        self.patch_of(PATCH_BYTES, root, redactor, out)
    }

    /// Writes a patch of at most so many bytes.
    fn patch_of(
        &self,
        most: u64,
        root: &Path,
        redactor: &Redactor,
        out: &mut dyn Write,
    ) -> Result<PatchSummary, PatchError> {
        let root = Root::open(root).map_err(|source| PatchError::Root { source })?;
        let mut changes = compare(self, &root)?;
        let mut writing = Writing {
            baseline: self,
            root: &root,
            redactor,
            out,
            summary: PatchSummary::default(),
            left_out: std::mem::take(&mut changes.left_out),
            unshown: Vec::new(),
            patch_left: most,
            read_left: READ_BYTES,
            moved_left: READ_BYTES,
            effort: ALL_PAIRS,
        };
        let kept = writing.sort_out(&mut changes);
        writing.write(&changes, kept)?;
        let (left_out, left_out_more) = writing.left_out.shown(redactor);
        let mut summary = PatchSummary { left_out, left_out_more, ..writing.summary };
        for list in [&mut summary.redacted_files, &mut summary.merged, &mut summary.whole] {
            list.sort();
        }
        Ok(summary)
    }
}

struct Writing<'a> {
    baseline: &'a Baseline,
    root: &'a Root,
    redactor: &'a Redactor,
    out: &'a mut dyn Write,
    summary: PatchSummary,
    left_out: List,
    unshown: Vec<Unshown>,
    patch_left: u64,
    read_left: u64,
    /// What may still be read to find what was moved: however often that is asked.
    moved_left: u64,
    /// What comparing lines may still cost.
    effort: u64,
}

/// What the patch has of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Whole,
    /// Without a secret.
    Hidden,
    Not,
}

/// Why a change was not written: the file is left out, or all ends.
enum Unwritten {
    LeftOut(Why),
    Failed(PatchError),
}

impl From<Why> for Unwritten {
    fn from(why: Why) -> Self {
        Self::LeftOut(why)
    }
}

/// A change that is not a removal or a rename.
#[derive(Clone, Copy)]
enum Change {
    /// With the number of the baseline's entry.
    Changed(usize, Here),
    Added(Here),
}

impl Change {
    /// Says what is there that the patch does not show as it is.
    fn unshown(self, path: &[u8]) -> Unshown {
        let (here, was) = match self {
            Self::Changed(number, here) => (here, Some(number)),
            Self::Added(here) => (here, None),
        };
        Unshown { path: path.into(), here, was }
    }
}

impl Writing<'_> {
    /// Leaves out the paths that cannot be shown. Returns those of them that stay where they are.
    fn sort_out(&mut self, changes: &mut Changes) -> Vec<(Name, ())> {
        let mut kept = Vec::new();
        let entries = self.baseline.entries.items();
        changes.removed.retain(|&number| {
            let (path, node) = &entries[number];
            // Somebody else's, and gone: in the source it never was.
            if self.baseline.source.as_ref().is_some_and(|source| !source.has(path)) {
                return false;
            }
            let fine = self.is_showable(path, matches!(node, Node::Link(_)));
            if !fine {
                kept.push((path.clone(), ()));
            }
            fine
        });
        changes.changed.retain(|(number, here)| {
            let (path, node) = &entries[*number];
            let fine = self.is_showable(path, matches!(node, Node::Link(_)) || *here == Here::Link);
            self.unshown.extend((!fine).then(|| Change::Changed(*number, *here).unshown(path)));
            fine
        });
        changes.added.retain(|(path, here)| {
            let fine = self.is_showable(path, *here == Here::Link);
            self.unshown.extend((!fine).then(|| Change::Added(*here).unshown(path)));
            fine
        });
        kept
    }

    fn is_showable(&mut self, path: &[u8], is_link: bool) -> bool {
        let why = if self.redactor.holds(path) {
            Why::Secret
        } else if refused(path, is_link) {
            Why::Refused
        } else {
            return true;
        };
        self.leave_out(path, why);
        false
    }

    fn leave_out(&mut self, path: &[u8], why: Why) {
        if why == Why::Secret && self.summary.redacted_files.len() < REDACTED {
            self.summary.redacted_files.push(shown(self.redactor, path));
        }
        self.left_out.add(path, why);
    }

    fn write(&mut self, changes: &Changes, mut kept: Vec<(Name, ())>) -> Result<(), PatchError> {
        // Renames are written whatever else does not fit, so there must not be too many of them.
        let room = self.patch_left / 4;
        let renames = rename::find(self.baseline, changes, self.root, self.redactor, room)
            .map_err(|source| PatchError::Spool { source })?;
        let reserved: u64 = renames.iter().map(|rename| rename.text.len() as u64).sum();
        self.patch_left -= reserved;
        let mut from: Vec<usize> = renames.iter().map(|rename| rename.from).collect();
        let mut to: Vec<usize> = renames.iter().map(|rename| rename.to).collect();
        from.sort_unstable();
        to.sort_unstable();

        let added = changes.added.iter().enumerate().filter(|(number, _)| to.binary_search(number).is_err());
        let added = added.map(|(_, (path, here))| (path, Change::Added(*here)));
        let changed = changes
            .changed
            .iter()
            .map(|&(number, here)| (&self.baseline.entries.items()[number].0, Change::Changed(number, here)));
        let mut rest: Vec<(&Name, Change)> = changed.chain(added).collect();
        rest.sort_unstable_by_key(|(path, _)| *path);

        let new = Sorted::new(changes.added.iter().map(|(path, _)| (path.clone(), ())).collect());
        let gone = changes.removed.iter().copied().filter(|number| from.binary_search(number).is_err());
        let (first, last): (Vec<usize>, Vec<usize>) =
            gone.partition(|&number| new.in_the_way(&self.baseline.entries.items()[number].0));
        let stay = self.foreseen(&first, &rest, &kept)?;
        let stayed = self.removals(&first, &stay)?;
        kept.extend(stayed);
        self.renames(&renames)?;
        self.rest(&rest, &Sorted::new(kept))?;
        let unshown = std::mem::take(&mut self.unshown);
        let stay = self.moved(last.iter().copied(), &unshown)?;
        self.removals(&last, &stay)?;
        Ok(())
    }

    /// Writes what goes, but for what is to stay. Returns what is still there.
    fn removals(&mut self, gone: &[usize], stay: &BTreeSet<usize>) -> Result<Vec<(Name, ())>, PatchError> {
        let mut kept = Vec::new();
        for &number in gone {
            let path = &self.baseline.entries.items()[number].0;
            if stay.contains(&number) {
                self.leave_out(path, Why::Moved);
            } else if self.attempt(path, |this, section| this.removal(section, number))? == Written::Whole {
                continue;
            }
            kept.push((path.clone(), ()));
        }
        Ok(kept)
    }

    /// Returns which files that went are in what the patch does not show.
    fn moved(
        &mut self,
        gone: impl IntoIterator<Item = usize>,
        unshown: &[Unshown],
    ) -> Result<BTreeSet<usize>, PatchError> {
        moved::into(self.baseline, self.root, gone, unshown, &mut self.moved_left)
            .map_err(|source| PatchError::Spool { source })
    }

    /// Returns which files will have gone to where the patch does not show them, before the rest is written.
    fn foreseen(
        &mut self,
        gone: &[usize],
        rest: &[(&Name, Change)],
        kept: &[(Name, ())],
    ) -> Result<BTreeSet<usize>, PatchError> {
        let mut stay = BTreeSet::new();
        if gone.is_empty() {
            return Ok(stay);
        }
        let mut left: Vec<(&Name, Change)> = Vec::new();
        let mut unshown = self.unshown.clone();
        for (path, change) in rest {
            match self.is_shown(path, *change)? {
                true => left.push((path, *change)),
                false => unshown.push(change.unshown(path)),
            }
        }
        // What stays is in the way of others, which are not shown then.
        loop {
            let more = self.moved(gone.iter().copied().filter(|number| !stay.contains(number)), &unshown)?;
            stay.extend(more);
            let paths = stay.iter().map(|&number| self.baseline.entries.items()[number].0.clone());
            let kept = Sorted::new(paths.map(|path| (path, ())).chain(kept.iter().cloned()).collect());
            let covered =
                |path: &Name, change: &Change| matches!(change, Change::Added(_)) && kept.in_the_way(path);
            unshown = left
                .extract_if(.., |(path, change)| covered(path, change))
                .map(|(path, change)| change.unshown(path))
                .collect();
            if unshown.is_empty() {
                return Ok(stay);
            }
        }
    }

    /// Tells whether a change can be written as it is, without writing it.
    fn is_shown(&mut self, path: &[u8], change: Change) -> Result<bool, PatchError> {
        let (mut section, read_left) = (Section::new(self.patch_left, self.effort), self.read_left);
        let filled = self.fill(&mut section, path, change);
        self.read_left = read_left;
        let redacted = section.redacted;
        match filled.and_then(|()| Ok(section.finish(self.redactor)?)) {
            Ok(_) => Ok(!redacted),
            Err(Unwritten::LeftOut(_)) => Ok(false),
            Err(Unwritten::Failed(error)) => Err(error),
        }
    }

    fn renames(&mut self, renames: &[Rename]) -> Result<(), PatchError> {
        for rename in renames {
            self.emit(&rename.text)?;
        }
        Ok(())
    }

    fn rest(&mut self, rest: &[(&Name, Change)], kept: &Sorted<()>) -> Result<(), PatchError> {
        for (path, change) in rest {
            let is_new = matches!(change, Change::Added(_));
            if is_new && (kept.in_the_way(path) || self.baseline.is_beneath_loop(path)) {
                self.leave_out(path, Why::InTheWay);
            } else if self.attempt(path, |this, section| this.fill(section, path, *change))? == Written::Whole
            {
                continue;
            }
            self.unshown.push(change.unshown(path));
        }
        Ok(())
    }

    fn fill(&mut self, section: &mut Section, path: &[u8], change: Change) -> Result<(), Unwritten> {
        match change {
            Change::Added(here) => self.addition(section, path, here),
            Change::Changed(number, here) => self.difference(section, number, here),
        }
    }

    /// Writes a section, or leaves the file out.
    fn attempt(
        &mut self,
        path: &[u8],
        fill: impl FnOnce(&mut Self, &mut Section) -> Result<(), Unwritten>,
    ) -> Result<Written, PatchError> {
        let mut section = Section::new(self.patch_left, self.effort);
        let filled = fill(self, &mut section);
        self.effort = section.effort;
        let counts = (section.insertions, section.deletions, section.redacted);
        let brought = section.brought;
        let written = filled.and_then(|()| Ok(section.finish(self.redactor)?));
        let (text, (insertions, deletions, redacted)) = match written {
            Ok(_) if counts.2 && self.summary.redacted_files.len() >= REDACTED => {
                self.leave_out(path, Why::TooMany);
                return Ok(Written::Not);
            }
            Ok(text) => (text, counts),
            Err(Unwritten::LeftOut(why)) => {
                self.leave_out(path, why);
                return Ok(Written::Not);
            }
            Err(Unwritten::Failed(error)) => return Err(error),
        };
        // What only looked different is as it was.
        if !text.is_empty() {
            self.emit(&text)?;
            self.patch_left -= text.len() as u64;
            self.summary.insertions += insertions;
            self.summary.deletions += deletions;
            if redacted {
                self.summary.redacted_files.push(shown(self.redactor, path));
            }
            self.note(path, brought);
        }
        Ok(if redacted { Written::Hidden } else { Written::Whole })
    }

    /// Notes a file that is not only the agent's, as far as a person reads on.
    fn note(&mut self, path: &[u8], brought: Brought) {
        let list = match brought {
            Brought::Plain => return,
            Brought::Merged => &mut self.summary.merged,
            Brought::Whole => &mut self.summary.whole,
        };
        if list.len() < NOTED {
            list.push(shown(self.redactor, path));
        }
    }

    fn emit(&mut self, text: &[u8]) -> Result<(), PatchError> {
        self.out.write_all(text).map_err(|source| PatchError::Write { source })?;
        self.summary.bytes += text.len() as u64;
        self.summary.files += 1;
        Ok(())
    }

    fn removal(&mut self, section: &mut Section, number: usize) -> Result<(), Unwritten> {
        let (old, path) = (self.old(number)?, &self.baseline.entries.items()[number].0);
        let source = self.source(path)?;
        if source.as_ref().is_some_and(|source| *source != old) {
            section.brought = Brought::Whole;
        }
        Ok(section.change(path, Some(&source.unwrap_or(old)), None, self.redactor)?)
    }

    fn addition(&mut self, section: &mut Section, path: &[u8], here: Here) -> Result<(), Unwritten> {
        let new = self.new_side(path, here)?;
        match self.source(path)? {
            // Somebody else took it away before the agent began.
            Some(old) => {
                section.brought = Brought::Whole;
                Ok(section.difference(path, &old, &new, self.redactor)?)
            }
            None => self.new_file(section, path, &new),
        }
    }

    fn difference(&mut self, section: &mut Section, number: usize, here: Here) -> Result<(), Unwritten> {
        let (old, path) = (self.old(number)?, &self.baseline.entries.items()[number].0);
        let new = self.new_side(path, here)?;
        if self.baseline.source.is_none() || old == new {
            return Ok(section.difference(path, &old, &new, self.redactor)?);
        }
        match self.source(path)? {
            Some(source) => {
                let (new, brought) = source::merged(&old, &source, new, &mut section.effort);
                section.brought = brought;
                Ok(section.difference(path, &source, &new, self.redactor)?)
            }
            // Somebody else made it before the agent began.
            None => {
                section.brought = Brought::Whole;
                self.new_file(section, path, &new)
            }
        }
    }

    /// Writes a file that is not in the source.
    fn new_file(&mut self, section: &mut Section, path: &[u8], new: &Side) -> Result<(), Unwritten> {
        if self
            .baseline
            .source
            .as_ref()
            .is_some_and(|source| source.is_in_the_way(path, &self.baseline.entries))
        {
            return Err(Why::InTheWay.into());
        }
        Ok(section.change(path, None, Some(new), self.redactor)?)
    }

    fn source(&self, path: &[u8]) -> Result<Option<Side>, Why> {
        self.baseline.source.as_ref().map_or(Ok(None), |source| source.side(path))
    }

    fn old(&mut self, number: usize) -> Result<Side, Unwritten> {
        match &self.baseline.entries.items()[number].1 {
            Node::Link(target) => Ok(Side { mode: Mode::Link, bytes: target.to_vec() }),
            Node::File(FileNode { executable, original, .. }) => {
                let slice = match original {
                    Original::Kept(slice) => slice,
                    Original::TooLarge => return Err(Why::TooLarge.into()),
                    Original::Unreadable => return Err(Why::Unreadable.into()),
                    Original::NotCarried => return Err(Why::NotCarried.into()),
                };
                let bytes = slice.read().map_err(|source| Unwritten::Failed(PatchError::Spool { source }))?;
                Ok(Side { mode: Mode::of_file(*executable), bytes })
            }
        }
    }

    fn new_side(&mut self, path: &[u8], here: Here) -> Result<Side, Why> {
        let Here::File { executable, size } = here else {
            let bytes = self.root.link(path).map_err(|_| Why::Unreadable)?.into_vec();
            return Ok(Side { mode: Mode::Link, bytes });
        };
        if size > FILE_BYTES {
            return Err(Why::TooLarge);
        }
        self.read_left = self.read_left.checked_sub(size).ok_or(Why::PatchFull)?;
        let bytes = self.root.read(path, FILE_BYTES).map_err(|unread| match unread {
            Unread::TooLarge => Why::TooLarge,
            Unread::Unreadable => Why::Unreadable,
        })?;
        Ok(Side { mode: Mode::of_file(executable), bytes })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::patch::{Known, LeftOut};

    #[test]
    fn what_does_not_fit_is_left_out_with_what_depends_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        fs::create_dir(at("d")).unwrap();
        fs::write(at("d/large"), "x\n".repeat(500)).unwrap();
        fs::write(at("moves"), "moves").unwrap();
        let spool = tempfile::tempfile().unwrap();
        let baseline = Baseline::take(dir.path(), spool, &Known::default()).unwrap();
        fs::remove_dir_all(at("d")).unwrap();
        fs::write(at("d"), "small").unwrap();
        fs::write(at("large"), "y\n".repeat(500)).unwrap();
        fs::rename(at("moves"), at("moved")).unwrap();
        fs::write(at("z"), "small").unwrap();

        let (mut out, redactor) = (Vec::new(), Redactor::new([]).unwrap());
        let summary = baseline.patch_of(900, dir.path(), &redactor, &mut out).unwrap();
        let left_out = |path: &str, why| LeftOut { path: path.to_owned(), why };
        let expected = [
            left_out("d", Why::InTheWay),
            left_out("d/large", Why::PatchFull),
            left_out("large", Why::PatchFull),
        ];
        assert_eq!((summary.files, summary.left_out), (2, expected.to_vec()));
        assert!(out.len() <= 900);
    }
}
