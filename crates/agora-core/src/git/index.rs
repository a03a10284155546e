//! Reads from git's index which paths are tracked, in process and with nothing taken on trust.

use super::split::Link;

/// How many bytes of names are kept, with what each costs beside its bytes: a million of usual length.
const NAMES: usize = 128 << 20;
const NAME_COST: usize = 48;

/// The longest path that Linux opens.
const LONGEST: usize = 4095;

/// In an entry's flags: two more bytes follow, and the length of the name.
const EXTENDED: u8 = 0x40;
const NAME_LEN: u16 = 0xfff;

/// Says that bytes are not an index, or one that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Returns the paths in order, each once. Reads versions 2 to 4. Ids are of SHA-1 or of SHA-256; the file does not say which, but only one of them fits.
///
/// Most of a split index stands in another file beside it, which `shared` reads by its name.
pub fn tracked(
    index: &[u8],
    mut shared: impl FnMut(&str) -> Option<Vec<u8>>,
) -> Result<Vec<Box<[u8]>>, Malformed> {
    let mut read = |id_len| {
        let own = Entries::read(index, id_len)?;
        let Some(link) = own.link.map(|link| Link::read(link, id_len)).transpose()?.flatten() else {
            return if own.unnamed == 0 { Ok(own.names) } else { Err(Malformed) };
        };
        let below = shared(&link.file()).ok_or(Malformed)?;
        let below = Entries::read(&below, id_len)?;
        if below.unnamed > 0 {
            return Err(Malformed);
        }
        link.merge(below.names, own.names, own.unnamed)
    };
    let mut names = read(20).or_else(|_| read(32))?;
    // Three stages of one path follow each other in a conflict.
    names.dedup();
    Ok(names)
}

/// What an index holds itself.
struct Held<'a> {
    /// In order, and one more time for each further stage.
    names: Vec<Box<[u8]>>,
    /// How many entries have no name: each is for one of the file below, which has it.
    unnamed: usize,
    link: Option<&'a [u8]>,
}

struct Entries<'a> {
    rest: &'a [u8],
    id_len: usize,
    version: u32,
}

impl<'a> Entries<'a> {
    fn read(index: &'a [u8], id_len: usize) -> Result<Held<'a>, Malformed> {
        let mut entries = Self { rest: index, id_len, version: 0 };
        if entries.take(4)? != b"DIRC" {
            return Err(Malformed);
        }
        entries.version = entries.number()?;
        if !(2..=4).contains(&entries.version) {
            return Err(Malformed);
        }
        let count = entries.number()?;
        let (mut names, mut last, mut cost): (Vec<Box<[u8]>>, Vec<u8>, usize) = (Vec::new(), Vec::new(), 0);
        let mut unnamed = 0;
        for _ in 0..count {
            let name = entries.next(&last)?;
            if name < last || name.len() > LONGEST {
                return Err(Malformed);
            }
            cost += name.len() + NAME_COST;
            if cost > NAMES {
                return Err(Malformed);
            }
            if name.is_empty() {
                unnamed += 1;
            } else {
                names.push(Box::from(&*name));
            }
            last = name;
        }
        Ok(Held { names, unnamed, link: entries.link()? })
    }

    /// Finds what says that the index is split, among the extensions. The checksum of the file stands at its end.
    fn link(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let mut link = None;
        while self.rest.len() >= self.id_len + 8 {
            let name = self.take(4)?;
            let len = usize::try_from(self.number()?).map_err(|_| Malformed)?;
            let content = self.take(len)?;
            link = if name == b"link" { Some(content) } else { link };
        }
        if self.rest.len() < self.id_len { Err(Malformed) } else { Ok(link) }
    }

    fn next(&mut self, last: &[u8]) -> Result<Vec<u8>, Malformed> {
        let before = self.rest.len();
        self.take(40 + self.id_len)?;
        let flags: [u8; 2] = self.take(2)?.try_into().map_err(|_| Malformed)?;
        if flags[0] & EXTENDED != 0 {
            self.take(2)?;
        }
        let name = if self.version == 4 { self.rest_of_name(last)? } else { self.padded_name(before)? };
        // The flags know the length too, up to what fits. It tells ids of one length from ids of the other.
        let len = usize::from(u16::from_be_bytes(flags) & NAME_LEN);
        if len == name.len().min(NAME_LEN.into()) { Ok(name) } else { Err(Malformed) }
    }

    /// Reads how much of the last name to drop, and what follows instead.
    fn rest_of_name(&mut self, last: &[u8]) -> Result<Vec<u8>, Malformed> {
        let cut = self.varint()?;
        let kept = last.len().checked_sub(cut).ok_or(Malformed)?;
        Ok([&last[..kept], self.until_nul()?].concat())
    }

    /// Reads a name, one NUL, and as many more as make a multiple of eight.
    fn padded_name(&mut self, before: usize) -> Result<Vec<u8>, Malformed> {
        let name = self.until_nul()?.to_vec();
        let used = before - self.rest.len();
        self.take(used.next_multiple_of(8) - used)?;
        Ok(name)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?.try_into().map_err(|_| Malformed)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn until_nul(&mut self) -> Result<&'a [u8], Malformed> {
        let window = &self.rest[..self.rest.len().min(LONGEST + 1)];
        let len = window.iter().position(|&byte| byte == 0).ok_or(Malformed)?;
        let taken = self.take(len + 1)?;
        Ok(&taken[..len])
    }

    /// Seven bits a byte, the highest first; each further byte adds one, so that every number has one form.
    fn varint(&mut self) -> Result<usize, Malformed> {
        let mut value: usize = 0;
        for _ in 0..4 {
            let byte = self.take(1)?[0];
            value = (value << 7) | usize::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            value += 1;
        }
        Err(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(version: u32, id_len: usize, names: &[&str]) -> Vec<u8> {
        split(version, id_len, names, &[])
    }

    /// An index with these extensions.
    fn split(version: u32, id_len: usize, names: &[&str], extensions: &[u8]) -> Vec<u8> {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend(version.to_be_bytes());
        bytes.extend((names.len() as u32).to_be_bytes());
        for name in names {
            let start = bytes.len();
            bytes.extend(vec![7; 40 + id_len]);
            bytes.extend([0, name.len() as u8]);
            bytes.extend(name.as_bytes());
            bytes.push(0);
            while !(bytes.len() - start).is_multiple_of(8) {
                bytes.push(0);
            }
        }
        bytes.extend(extensions);
        bytes.extend(vec![9; id_len]);
        bytes
    }

    /// An extension, with its name and its length.
    fn extension(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
        [&name[..], &(content.len() as u32).to_be_bytes(), content].concat()
    }

    /// Says that an index stands on the file of this id, less some of its entries, and with others in the place of some.
    fn link(id: &[u8], deleted: &[u64], replaced: &[u64]) -> Vec<u8> {
        let bits = |words: &[u64]| {
            let words: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            [&64_u32.to_be_bytes()[..], &(words.len() as u32 / 8).to_be_bytes(), &words, &[0; 4]].concat()
        };
        extension(b"link", &[id, &bits(deleted), &bits(replaced)].concat())
    }

    fn alone(index: &[u8]) -> Result<Vec<Box<[u8]>>, Malformed> {
        tracked(index, |_| None)
    }

    /// One word of bits follows, after as many words of zeros.
    fn after(words: u64) -> u64 {
        (1 << 33) | (words << 1)
    }

    fn names(names: &[Box<[u8]>]) -> Vec<&[u8]> {
        names.iter().map(|name| &**name).collect()
    }

    #[test]
    fn both_lengths_of_ids_are_read() {
        for id_len in [20, 32] {
            let bytes = index(2, id_len, &["a", "b/c", "b/c", "b/dddddddd"]);
            assert_eq!(names(&alone(&bytes).unwrap()), [&b"a"[..], b"b/c", b"b/dddddddd"]);
        }
    }

    #[test]
    fn an_index_that_is_split_is_read_with_what_it_stands_on() {
        for id_len in [20, 32] {
            let id = vec![0xab; id_len];
            let all: Vec<String> = (0..70).map(|number| format!("f{number:02}")).collect();
            let below = index(4, id_len, &[]);
            assert_eq!(alone(&below).unwrap().len(), 0);
            let below = index(2, id_len, &all.iter().map(String::as_str).collect::<Vec<_>>());
            let own = [extension(b"TREE", b"x"), link(&id, &[after(1), 0b11], &[after(0), 0b101])].concat();
            let own = split(3, id_len, &["", "", "a", "f01", "g"], &own);
            let read = tracked(&own, |name| {
                assert_eq!(name, format!("sharedindex.{}", "ab".repeat(id_len)));
                Some(below.clone())
            });
            let mut expected: Vec<&str> = all.iter().map(String::as_str).collect();
            expected.drain(64..66);
            let expected = [&["a"][..], &expected, &["g"]].concat();
            assert_eq!(
                names(&read.unwrap()),
                expected.iter().map(|name| name.as_bytes()).collect::<Vec<_>>()
            );
            // Nothing below, by its id, or no longer.
            let none = split(2, id_len, &["a"], &extension(b"link", &vec![0; id_len]));
            assert_eq!(names(&alone(&none).unwrap()), [b"a"]);
            assert!(alone(&own).is_err());
        }
    }

    #[test]
    fn a_split_index_that_does_not_fit_what_it_stands_on_is_refused() {
        let (below, id) = (index(2, 20, &["a", "b"]), [1; 20]);
        let read = |names: &[&str], extension: &[u8]| {
            tracked(&split(2, 20, names, extension), |_| Some(below.clone())).map(|names| names.len())
        };
        assert_eq!(read(&[""], &link(&id, &[after(0), 1], &[after(0), 2])), Ok(1));
        let all = u64::MAX >> 31;
        for (names, wrong) in [
            (&[""][..], link(&id, &[], &[])),
            (&[], link(&id, &[], &[after(0), 1])),
            (&[], link(&id, &[after(0), 4], &[])),
            (&[], link(&id, &[after(0)], &[])),
            (&[], link(&id, &[all], &[])),
            (&[], link(&id, &[after(u32::MAX.into()), 1], &[])),
            (&[], extension(b"link", &id[1..])),
            (&[], extension(b"link", &[&id[..], &[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]].concat())),
            (&[], extension(b"link", &[&id[..], &[0; 25]].concat())),
        ] {
            assert_eq!(read(names, &wrong), Err(Malformed), "{wrong:?}");
        }
        // Nor does one stand on another that does.
        let twice = split(2, 20, &[""], &link(&id, &[], &[after(0), 1]));
        assert!(tracked(&twice, |_| Some(twice.clone())).is_err());
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let whole = index(2, 20, &["a", "b"]);
        for len in 0..whole.len() {
            assert!(alone(&whole[..len]).is_err(), "{len}");
        }
        assert!(alone(&index(5, 20, &["a"])).is_err());
        assert!(alone(&index(2, 20, &["b", "a"])).is_err());
        assert!(alone(&index(2, 20, &[""])).is_err());
    }

    #[test]
    fn an_index_that_grows_when_it_is_read_is_refused() {
        let mut bytes = b"DIRC\0\0\0\x04\x00\x10\0\0".to_vec();
        let entry = [&[0; 60][..], &4000_u16.to_be_bytes(), &[0]].concat();
        bytes.extend([&entry[..], &[b'a'; 4000], &[0]].concat());
        for _ in 1..0x10_0000 {
            bytes.extend([&entry[..], &[0]].concat());
        }
        bytes.extend([0; 20]);
        assert_eq!(alone(&bytes).err(), Some(Malformed));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_much(version in 2_u32..=4, tail in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut bytes = b"DIRC".to_vec();
            bytes.extend(version.to_be_bytes());
            bytes.extend([0, 0, 0, 3]);
            bytes.extend(tail);
            let _ = tracked(&bytes, |_| Some(index(2, 20, &["a", "b"])));
        }

        #[test]
        fn a_changed_byte_does_no_harm(at in 0_usize..330, byte in any::<u8>()) {
            let mut bytes = split(3, 20, &["", "b/c", "d"], &link(&[7; 20], &[], &[after(0), 1]));
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            let _ = tracked(&bytes, |_| Some(index(2, 20, &["a", "b"])));
        }
    }
}
