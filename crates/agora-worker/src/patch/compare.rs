//! What differs between a baseline and the workspace as it is now.

use super::PatchError;
use super::baseline::{Baseline, NAME_COST};
use super::entry::{Fingerprint, Name, Node, above, executable};
use super::left_out::{List, Why};
use super::root::Root;
use super::walk::{Found, Kind, Outside, Visitor, walk};

/// How many bytes of names of new files are kept, with what each costs beside its bytes. The rest is counted.
const NEW_NAMES: usize = 256 << 20;

/// What stands at a path now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Here {
    File { executable: bool, size: u64 },
    Link,
}

/// What differs, as far as looks tell. Baseline entries are meant by their number.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// No longer there, or no longer a file or link.
    pub(super) removed: Vec<usize>,
    /// There, and looks different. Its bytes may still be the same.
    pub(super) changed: Vec<(usize, Here)>,
    /// In order of their paths.
    pub(super) added: Vec<(Name, Here)>,
    /// There, and ignored by now: the next baseline would not hold it.
    pub(super) hidden: Vec<usize>,
    pub(super) left_out: List,
}

pub(super) fn compare(baseline: &Baseline, root: &Root) -> Result<Changes, PatchError> {
    let mut comparing = Comparing::new(baseline);
    walk(root, baseline.among.as_ref(), &mut comparing)?;
    Ok(comparing.finish())
}

struct Comparing<'a> {
    baseline: &'a Baseline,
    met: Vec<bool>,
    /// Directories that could not be listed: nobody knows what is still in them.
    unlisted: Vec<Name>,
    /// What was outside and would count now, and is in the list already.
    told: Vec<bool>,
    cost: usize,
    changes: Changes,
}

impl Visitor for Comparing<'_> {
    fn wants(&self, dir: &[u8]) -> bool {
        self.baseline.entries.beneath(dir)
    }

    fn found(&mut self, found: &Found<'_>) -> Result<(), PatchError> {
        match self.baseline.entries.find(found.path) {
            Some(number) => self.known(number, found),
            None => self.unknown(found),
        }
        Ok(())
    }

    fn outside(&mut self, path: &[u8], what: Outside) -> Result<(), PatchError> {
        let why = match what {
            Outside::Ignored | Outside::Git => return Ok(()),
            Outside::Special => Why::Special,
            Outside::Unreadable => Why::Unreadable,
            Outside::TooLong => Why::TooLong,
            Outside::TooMany => Why::TooMany,
        };
        if what == Outside::Unreadable && self.wants(path) {
            self.unlisted.push(path.into());
        }
        self.changes.left_out.add(path, why);
        Ok(())
    }
}

impl<'a> Comparing<'a> {
    fn new(baseline: &'a Baseline) -> Self {
        Self {
            baseline,
            met: vec![false; baseline.entries.items().len()],
            unlisted: Vec::new(),
            told: vec![false; baseline.outside.items().len()],
            cost: 0,
            changes: Changes::default(),
        }
    }

    fn known(&mut self, number: usize, found: &Found<'_>) {
        self.met[number] = true;
        if found.ignored && !found.tracked() {
            self.changes.hidden.push(number);
        }
        let same = match (&self.baseline.entries.items()[number].1, found.kind) {
            (Node::File(file), Kind::File) => file.seen == Some(Fingerprint::of(found.stat)),
            (Node::Link(target), Kind::Link) => found.target().is_ok_and(|now| now == *target),
            (Node::File(_), Kind::Link) | (Node::Link(_), Kind::File) => false,
        };
        if !same {
            self.changes.changed.push((number, here(found)));
        }
    }

    fn unknown(&mut self, found: &Found<'_>) {
        let tracked = found.tracked();
        if found.ignored && !tracked {
            return;
        }
        let outside = &self.baseline.outside;
        if let Some(number) = outside.at_or_above(found.path) {
            let ignored_before = outside.items()[number].1 == Outside::Ignored;
            // Whoever adds an ignored file to the index means it.
            if !(ignored_before && tracked) {
                let why = if ignored_before { Why::IgnoredBefore } else { Why::InTheWay };
                return self.tell_once(number, why);
            }
        } else if outside.beneath(found.path) {
            return self.changes.left_out.add(found.path, Why::InTheWay);
        }
        self.cost += found.path.len() + NAME_COST;
        if self.cost > NEW_NAMES {
            return self.changes.left_out.add(found.path, Why::TooMany);
        }
        self.changes.added.push((found.path.into(), here(found)));
    }

    fn tell_once(&mut self, number: usize, why: Why) {
        if !std::mem::replace(&mut self.told[number], true) {
            self.changes.left_out.add(&self.baseline.outside.items()[number].0, why);
        }
    }

    fn finish(mut self) -> Changes {
        self.unlisted.sort_unstable();
        let unseen = |path: &[u8]| {
            above(path).any(|dir| self.unlisted.binary_search_by(|name| (**name).cmp(dir)).is_ok())
        };
        let entries = self.baseline.entries.items().iter().zip(&self.met).enumerate();
        let removed = entries.filter(|(_, ((path, _), met))| !**met && !unseen(path));
        self.changes.removed = removed.map(|(number, _)| number).collect();
        self.changes.changed.sort_unstable_by_key(|(number, _)| *number);
        self.changes.added.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        self.changes
    }
}

fn here(found: &Found<'_>) -> Here {
    match found.kind {
        Kind::File => {
            Here::File { executable: executable(found.stat), size: Fingerprint::of(found.stat).size }
        }
        Kind::Link => Here::Link,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::Known;

    #[test]
    fn what_cannot_be_listed_is_not_taken_for_gone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("closed/deep")).unwrap();
        for path in ["closed/deep/file", "closed!", "gone"] {
            std::fs::write(dir.path().join(path), "x").unwrap();
        }
        let baseline = Baseline::take(dir.path(), tempfile::tempfile().unwrap(), &Known::default()).unwrap();
        let mut comparing = Comparing::new(&baseline);
        comparing.outside(b"closed", Outside::Unreadable).unwrap();
        let removed = comparing.finish().removed.into_iter();
        let names: Vec<&[u8]> = removed.map(|number| &*baseline.entries.items()[number].0).collect();
        assert_eq!(names, [&b"closed!"[..], b"gone"]);
    }
}
