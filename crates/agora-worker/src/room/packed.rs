//! Objects in a pack of git's, read in process: the agent may have packed what it committed.
//!
//! A pack is a head, then object after object: its kind and size, what it is a difference to if it is one, and its content, deflated.
//! Whatever it says is the agent's word: every size is capped, and an object's name is made from its content.

use std::collections::HashMap;
use std::rc::Rc;

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_PARSE_ZLIB_HEADER, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use sha1::{Digest, Sha1};
use sha2::Sha256;

/// All contents of a pack at once: they are in memory, because one may be made from any other.
const CONTENTS: usize = 128 << 20;
const OBJECT: usize = 64 << 20;
const OBJECTS: u32 = 100_000;

/// By which hash a repository names its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    Sha1,
    Sha256,
}

impl Names {
    /// Tells by a name, which the repository's HEAD has.
    pub(super) fn of(id: &str) -> Self {
        if id.len() == 64 { Self::Sha256 } else { Self::Sha1 }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    fn name(self, whole: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => Sha1::digest(whole).to_vec(),
            Self::Sha256 => Sha256::digest(whole).to_vec(),
        }
    }
}

/// Says that bytes are no pack, or one that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    Malformed,
    TooLarge,
}

/// An object with its name: `kind length\0content`, as it would be stored alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) id: String,
    pub(super) whole: Rc<[u8]>,
}

/// An object as it stands in the pack.
enum Stored {
    Whole(&'static str, Vec<u8>),
    /// A difference to the object that begins at a place of the same pack.
    FromPlace(usize, Vec<u8>),
    /// A difference to the object of a name, wherever in the pack it is.
    FromName(Vec<u8>, Vec<u8>),
}

/// Reads every object of a pack.
pub(super) fn objects(pack: &[u8], names: Names) -> Result<Vec<Object>, Unread> {
    let mut reader = Reader { pack, at: 0, names, left: CONTENTS };
    let count = reader.head()?;
    let mut made =
        Made { names, left: CONTENTS, places: HashMap::new(), ids: HashMap::new(), objects: Vec::new() };
    let mut waiting = Vec::new();
    for _ in 0..count {
        let place = reader.at;
        let stored = reader.object()?;
        if let Some(later) = made.take(place, stored)? {
            waiting.push((place, later));
        }
    }
    // What is a difference to something further on, until nothing moves any more.
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut still = Vec::new();
        for (place, stored) in waiting {
            still.extend(made.take(place, stored)?.map(|later| (place, later)));
        }
        if still.len() == before {
            return Err(Unread::Malformed);
        }
        waiting = still;
    }
    Ok(made.objects)
}

struct Reader<'a> {
    pack: &'a [u8],
    at: usize,
    names: Names,
    left: usize,
}

impl Reader<'_> {
    fn bytes(&mut self, count: usize) -> Result<&[u8], Unread> {
        let end = self.at.checked_add(count).ok_or(Unread::Malformed)?;
        let bytes = self.pack.get(self.at..end).ok_or(Unread::Malformed)?;
        self.at = end;
        Ok(bytes)
    }

    fn byte(&mut self) -> Result<u8, Unread> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Result<u32, Unread> {
        self.bytes(4)?.try_into().map(u32::from_be_bytes).map_err(|_| Unread::Malformed)
    }

    fn head(&mut self) -> Result<u32, Unread> {
        let right = self.bytes(4)? == b"PACK" && matches!(self.number()?, 2 | 3);
        let count = self.number()?;
        match (right, count) {
            (false, _) => Err(Unread::Malformed),
            (true, ..=OBJECTS) => Ok(count),
            (true, _) => Err(Unread::TooLarge),
        }
    }

    fn object(&mut self) -> Result<Stored, Unread> {
        let place = self.at;
        let first = self.byte()?;
        let (mut size, mut shift, mut more) = (usize::from(first & 0x0f), 4, first & 0x80 != 0);
        while more {
            let byte = self.byte()?;
            let part = usize::from(byte & 0x7f).checked_shl(shift).filter(|_| shift < 57);
            size |= part.ok_or(Unread::TooLarge)?;
            (shift, more) = (shift + 7, byte & 0x80 != 0);
        }
        Ok(match first >> 4 & 7 {
            1 => Stored::Whole("commit", self.content(size)?),
            2 => Stored::Whole("tree", self.content(size)?),
            3 => Stored::Whole("blob", self.content(size)?),
            4 => Stored::Whole("tag", self.content(size)?),
            6 => {
                let back = self.distance()?;
                let base = place.checked_sub(back).filter(|_| back > 0).ok_or(Unread::Malformed)?;
                Stored::FromPlace(base, self.content(size)?)
            }
            7 => {
                let base = self.bytes(self.names.bytes())?.to_vec();
                Stored::FromName(base, self.content(size)?)
            }
            _ => return Err(Unread::Malformed),
        })
    }

    /// Reads how far back the object begins that this one is a difference to.
    fn distance(&mut self) -> Result<usize, Unread> {
        let mut byte = self.byte()?;
        let mut back = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = self.byte()?;
            let more = back.checked_add(1).and_then(|back| back.checked_mul(128)).ok_or(Unread::Malformed)?;
            back = more + usize::from(byte & 0x7f);
        }
        Ok(back)
    }

    fn content(&mut self, size: usize) -> Result<Vec<u8>, Unread> {
        if size > OBJECT {
            return Err(Unread::TooLarge);
        }
        self.left = self.left.checked_sub(size).ok_or(Unread::TooLarge)?;
        // One byte more than it says: one that has more is found out.
        let mut out = vec![0; size + 1];
        let flags = TINFL_FLAG_PARSE_ZLIB_HEADER | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let deflated = self.pack.get(self.at..).ok_or(Unread::Malformed)?;
        let (status, read, written) = decompress(&mut DecompressorOxide::new(), deflated, &mut out, 0, flags);
        if status != TINFLStatus::Done || written != size {
            return Err(Unread::Malformed);
        }
        self.at += read;
        out.truncate(size);
        Ok(out)
    }
}

/// What was made so far.
struct Made {
    names: Names,
    left: usize,
    places: HashMap<usize, usize>,
    ids: HashMap<Vec<u8>, usize>,
    objects: Vec<Object>,
}

impl Made {
    /// Makes an object, or gives it back when what it is made from is not there yet.
    fn take(&mut self, place: usize, stored: Stored) -> Result<Option<Stored>, Unread> {
        let (base, delta) = match stored {
            Stored::Whole(kind, content) => return self.keep(place, kind, &content).map(|()| None),
            Stored::FromPlace(base, delta) => match self.places.get(&base) {
                Some(base) => (*base, delta),
                None => return Ok(Some(Stored::FromPlace(base, delta))),
            },
            Stored::FromName(base, delta) => match self.ids.get(&base) {
                Some(base) => (*base, delta),
                None => return Ok(Some(Stored::FromName(base, delta))),
            },
        };
        let whole = self.objects.get(base).map(|object| Rc::clone(&object.whole)).ok_or(Unread::Malformed)?;
        let (kind, content) = parts(&whole).ok_or(Unread::Malformed)?;
        let content = apply(content, &delta)?;
        self.keep(place, kind, &content).map(|()| None)
    }

    fn keep(&mut self, place: usize, kind: &str, content: &[u8]) -> Result<(), Unread> {
        self.left = self.left.checked_sub(content.len()).ok_or(Unread::TooLarge)?;
        let whole = [format!("{kind} {}\0", content.len()).as_bytes(), content].concat();
        let name = self.names.name(&whole);
        let id = name.iter().map(|byte| format!("{byte:02x}")).collect();
        self.places.insert(place, self.objects.len());
        self.ids.insert(name, self.objects.len());
        self.objects.push(Object { id, whole: whole.into() });
        Ok(())
    }
}

fn parts(whole: &[u8]) -> Option<(&str, &[u8])> {
    let end = whole.iter().position(|byte| *byte == 0)?;
    let kind = str::from_utf8(&whole[..end]).ok()?.split(' ').next()?;
    Some((kind, &whole[end + 1..]))
}

/// Makes an object from another and what differs: parts of the other by their place, and new bytes.
fn apply(base: &[u8], delta: &[u8]) -> Result<Vec<u8>, Unread> {
    let mut delta = delta.iter().copied();
    let mut next = || delta.next();
    let from = size(&mut next)?;
    let to = size(&mut next)?;
    if from != base.len() {
        return Err(Unread::Malformed);
    }
    if to > OBJECT {
        return Err(Unread::TooLarge);
    }
    let mut made = Vec::with_capacity(to);
    while let Some(code) = next() {
        if code & 0x80 == 0 {
            for _ in 0..code {
                made.push(next().ok_or(Unread::Malformed)?);
            }
            if code == 0 {
                return Err(Unread::Malformed);
            }
        } else {
            let mut number = |bits: std::ops::Range<u32>| -> Result<usize, Unread> {
                let mut number = 0;
                for (place, bit) in bits.enumerate() {
                    if code >> bit & 1 == 1 {
                        number |= usize::from(next().ok_or(Unread::Malformed)?) << (8 * place);
                    }
                }
                Ok(number)
            };
            let (at, len) = (number(0..4)?, number(4..7)?);
            let len = if len == 0 { 0x10000 } else { len };
            let part = at.checked_add(len).and_then(|end| base.get(at..end)).ok_or(Unread::Malformed)?;
            made.extend_from_slice(part);
        }
        if made.len() > to {
            return Err(Unread::Malformed);
        }
    }
    if made.len() == to { Ok(made) } else { Err(Unread::Malformed) }
}

fn size(next: &mut impl FnMut() -> Option<u8>) -> Result<usize, Unread> {
    let (mut size, mut shift) = (0_usize, 0);
    loop {
        let byte = next().ok_or(Unread::Malformed)?;
        if shift > 56 {
            return Err(Unread::TooLarge);
        }
        size |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return Ok(size);
        }
    }
}

#[cfg(test)]
#[path = "packed_tests.rs"]
mod tests;
