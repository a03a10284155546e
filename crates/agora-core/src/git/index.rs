//! Reads from git's index which paths are tracked, in process and with nothing taken on trust.

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
pub fn tracked(index: &[u8]) -> Result<Vec<Box<[u8]>>, Malformed> {
    Entries::read(index, 20).or_else(|_| Entries::read(index, 32))
}

struct Entries<'a> {
    rest: &'a [u8],
    id_len: usize,
    version: u32,
}

impl<'a> Entries<'a> {
    fn read(index: &'a [u8], id_len: usize) -> Result<Vec<Box<[u8]>>, Malformed> {
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
        for _ in 0..count {
            let name = entries.next(&last)?;
            // Three stages of one path follow each other in a conflict.
            if name < last || name.is_empty() || name.len() > LONGEST {
                return Err(Malformed);
            }
            cost += name.len() + NAME_COST;
            if cost > NAMES {
                return Err(Malformed);
            }
            if names.last().is_none_or(|before| **before != *name) {
                names.push(Box::from(&*name));
            }
            last = name;
        }
        // The checksum of the file stands at its end.
        if entries.rest.len() < id_len { Err(Malformed) } else { Ok(names) }
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
        bytes.extend(vec![9; id_len]);
        bytes
    }

    fn names(names: &[Box<[u8]>]) -> Vec<&[u8]> {
        names.iter().map(|name| &**name).collect()
    }

    #[test]
    fn both_lengths_of_ids_are_read() {
        for id_len in [20, 32] {
            let bytes = index(2, id_len, &["a", "b/c", "b/c", "b/dddddddd"]);
            assert_eq!(names(&tracked(&bytes).unwrap()), [&b"a"[..], b"b/c", b"b/dddddddd"]);
        }
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let whole = index(2, 20, &["a", "b"]);
        for len in 0..whole.len() {
            assert!(tracked(&whole[..len]).is_err(), "{len}");
        }
        assert!(tracked(&index(5, 20, &["a"])).is_err());
        assert!(tracked(&index(2, 20, &["b", "a"])).is_err());
        assert!(tracked(&index(2, 20, &[""])).is_err());
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
        assert_eq!(tracked(&bytes).err(), Some(Malformed));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_much(version in 2_u32..=4, tail in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut bytes = b"DIRC".to_vec();
            bytes.extend(version.to_be_bytes());
            bytes.extend([0, 0, 0, 3]);
            bytes.extend(tail);
            let _ = tracked(&bytes);
        }

        #[test]
        fn a_changed_byte_does_no_harm(at in 0_usize..250, byte in any::<u8>()) {
            let mut bytes = index(3, 20, &["a", "b/c", "d"]);
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            let _ = tracked(&bytes);
        }
    }
}
