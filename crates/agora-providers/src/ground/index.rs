//! What was in a source when a base was made of it, so that later only what changed is read.

use std::io::{self, Read};

/// What a file of this form begins with.
const HEAD: &[u8; 16] = b"agora base idx 1";

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Link,
    Directory,
}

/// A path of the source, as it looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: Box<[u8]>,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) mtime_ns: i64,
    pub(super) ctime_ns: i64,
    pub(super) inode: u64,
    /// Whether it was taken. What could be a secret is only remembered.
    pub(super) kept: bool,
}

impl Entry {
    /// Tells whether what stands there now is certainly what stood there then. Whoever changes a file changes its ctime.
    pub(super) fn is_still(&self, now: &Self) -> bool {
        self.kind == now.kind
            && self.mode == now.mode
            && (self.kind == Kind::Directory
                || (self.size, self.mtime_ns, self.ctime_ns, self.inode)
                    == (now.size, now.mtime_ns, now.ctime_ns, now.inode))
    }

    /// Forgets how it looked: it could be changed within the same tick of the clock, and look the same.
    pub(super) fn doubt(&mut self) {
        self.ctime_ns = i64::MIN;
    }
}

pub(super) fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + entries.len() * 100);
    bytes.extend(HEAD);
    bytes.extend((entries.len() as u64).to_le_bytes());
    for entry in entries {
        let kind = match entry.kind {
            Kind::File => 0_u8,
            Kind::Link => 1,
            Kind::Directory => 2,
        };
        bytes.extend([kind, u8::from(entry.kept)]);
        bytes.extend(entry.mode.to_le_bytes());
        bytes.extend(entry.size.to_le_bytes());
        bytes.extend(entry.mtime_ns.to_le_bytes());
        bytes.extend(entry.ctime_ns.to_le_bytes());
        bytes.extend(entry.inode.to_le_bytes());
        bytes.extend(u16::try_from(entry.path.len()).unwrap_or(u16::MAX).to_le_bytes());
        bytes.extend(&*entry.path);
    }
    bytes
}

pub(super) fn decode(bytes: &[u8]) -> io::Result<Vec<Entry>> {
    let mut rest = bytes;
    if array::<16>(&mut rest)? != *HEAD {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let count = u64::from_le_bytes(array(&mut rest)?);
    let mut entries = Vec::with_capacity(usize::try_from(count).unwrap_or(0).min(bytes.len() / 40));
    for _ in 0..count {
        let [kind, kept] = array(&mut rest)?;
        let kind = match kind {
            0 => Kind::File,
            1 => Kind::Link,
            2 => Kind::Directory,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        let mut entry = Entry {
            path: Box::default(),
            kind,
            kept: kept == 1,
            mode: u32::from_le_bytes(array(&mut rest)?),
            size: u64::from_le_bytes(array(&mut rest)?),
            mtime_ns: i64::from_le_bytes(array(&mut rest)?),
            ctime_ns: i64::from_le_bytes(array(&mut rest)?),
            inode: u64::from_le_bytes(array(&mut rest)?),
        };
        let len = usize::from(u16::from_le_bytes(array(&mut rest)?));
        let (path, after) = rest.split_at_checked(len).ok_or(io::ErrorKind::UnexpectedEof)?;
        entry.path = path.into();
        rest = after;
        entries.push(entry);
    }
    Ok(entries)
}

fn array<const N: usize>(rest: &mut &[u8]) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    rest.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// What differs between a base and its source.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Delta {
    /// To be taken, by their number among what is there now.
    pub(super) changed: Vec<usize>,
    /// In the base, and not in the source any more.
    pub(super) gone: Vec<Box<[u8]>>,
}

/// Compares, and passes on to `now` what the base knows: that a file was looked into and left out, for as long as somebody
/// `doubts` files like it.
pub(super) fn compare(base: &[Entry], now: &mut [Entry], doubts: impl Fn(&Entry) -> bool) -> Delta {
    let mut delta = Delta::default();
    let mut old = base.iter().peekable();
    for (number, entry) in now.iter_mut().enumerate() {
        while let Some(before) = old.next_if(|before| before.path < entry.path) {
            delta.gone.extend(before.kept.then(|| before.path.clone()));
        }
        let Some(before) = old.next_if(|before| before.path == entry.path) else {
            delta.changed.push(number);
            continue;
        };
        // What takes the place of something else is laid in its place when that is gone.
        let replaces = (before.kind == Kind::Directory) != (entry.kind == Kind::Directory);
        if before.kept && (replaces || !entry.kept) {
            delta.gone.push(before.path.clone());
        }
        if !before.is_still(entry) {
            delta.changed.push(number);
        } else if !before.kept && entry.kept {
            if doubts(entry) {
                entry.kept = false;
            } else {
                delta.changed.push(number);
            }
        }
    }
    delta.gone.extend(old.filter(|before| before.kept).map(|before| before.path.clone()));
    delta
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: Kind, size: u64) -> Entry {
        let path = path.as_bytes().into();
        Entry { path, kind, mode: 0o644, size, mtime_ns: 1, ctime_ns: 2, inode: 3, kept: true }
    }

    #[test]
    fn it_reads_back_and_half_of_it_does_not() {
        let entries = [entry("a", Kind::File, 1), entry("b", Kind::Link, 2), entry("c", Kind::Directory, 3)];
        let bytes = encode(&entries);
        assert_eq!(decode(&bytes).unwrap(), entries);
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn what_changed_and_what_is_gone_is_found() {
        let base = [
            entry("a", Kind::File, 1),
            entry("b", Kind::File, 1),
            entry("c", Kind::File, 1),
            entry("d", Kind::Directory, 0),
        ];
        let mut now = [
            entry("a", Kind::File, 1),
            entry("b", Kind::File, 2),
            entry("d", Kind::File, 0),
            entry("e", Kind::File, 0),
        ];
        let delta = compare(&base, &mut now, |_| true);
        assert_eq!(delta.changed, [1, 2, 3]);
        assert_eq!(delta.gone, [Box::from(&b"c"[..]), Box::from(&b"d"[..])]);
        let mut doubted = base.clone();
        doubted[0].doubt();
        assert_eq!(compare(&doubted, &mut base.clone(), |_| true).changed, [0]);
    }
}
