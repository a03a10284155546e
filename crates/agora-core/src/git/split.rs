//! What a split index says about the file that it stands on: most of its entries are there, and are not written anew each time.

use super::index::Malformed;
use crate::hash::pair;

/// The file below, and what became of its entries.
pub(super) struct Link<'a> {
    id: &'a [u8],
    /// Which are gone, and then which have another in their place, both as bits.
    marks: &'a [u8],
}

impl<'a> Link<'a> {
    /// Reads it. `None`: there is no file below.
    pub(super) fn read(link: &'a [u8], id_len: usize) -> Result<Option<Self>, Malformed> {
        let (id, marks) = link.split_at_checked(id_len).ok_or(Malformed)?;
        Ok(id.iter().any(|&byte| byte != 0).then_some(Self { id, marks }))
    }

    /// Names the file, which is beside the index.
    pub(super) fn file(&self) -> String {
        let digits = self.id.iter().flat_map(|&byte| pair(byte)).map(char::from);
        "sharedindex.".chars().chain(digits).collect()
    }

    /// Puts the names together. As many as are `unnamed` must have taken the place of one below, and so its name.
    pub(super) fn merge(
        &self,
        below: Vec<Box<[u8]>>,
        own: Vec<Box<[u8]>>,
        unnamed: usize,
    ) -> Result<Vec<Box<[u8]>>, Malformed> {
        let mut rest = self.marks;
        let (mut gone, mut replaced) = (vec![false; below.len()], vec![false; below.len()]);
        if !rest.is_empty() {
            mark(&mut rest, &mut gone)?;
            mark(&mut rest, &mut replaced)?;
        }
        if !rest.is_empty() || replaced.iter().filter(|replaced| **replaced).count() != unnamed {
            return Err(Malformed);
        }
        let kept = below.into_iter().zip(gone).filter_map(|(name, gone)| (!gone).then_some(name));
        let mut names: Vec<Box<[u8]>> = kept.chain(own).collect();
        names.sort_unstable();
        Ok(names)
    }
}

/// Reads a bitmap: words of which each tells how many like it are left out, and how many words of bits follow it.
fn mark(rest: &mut &[u8], marks: &mut [bool]) -> Result<(), Malformed> {
    let _bits = number(rest)?;
    let count = usize::try_from(number(rest)?).map_err(|_| Malformed)?;
    let words = take(rest, count.checked_mul(8).ok_or(Malformed)?)?;
    let _last = number(rest)?;
    let mut words = words.as_chunks().0.iter().map(|word| u64::from_be_bytes(*word));
    let mut at = 0_usize;
    while let Some(head) = words.next() {
        let run = usize::try_from((head >> 1) & u64::from(u32::MAX)).map_err(|_| Malformed)?;
        let end = run.checked_mul(64).and_then(|run| at.checked_add(run)).ok_or(Malformed)?;
        if head & 1 == 1 {
            marks.get_mut(at..end).ok_or(Malformed)?.fill(true);
        }
        at = end;
        for _ in 0..head >> 33 {
            let word = words.next().ok_or(Malformed)?;
            for bit in (0..64).filter(|bit| word >> bit & 1 == 1) {
                *at.checked_add(bit).and_then(|at| marks.get_mut(at)).ok_or(Malformed)? = true;
            }
            at = at.checked_add(64).ok_or(Malformed)?;
        }
    }
    Ok(())
}

fn number(rest: &mut &[u8]) -> Result<u32, Malformed> {
    let bytes = take(rest, 4)?.try_into().map_err(|_| Malformed)?;
    Ok(u32::from_be_bytes(bytes))
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], Malformed> {
    let (taken, after) = rest.split_at_checked(len).ok_or(Malformed)?;
    *rest = after;
    Ok(taken)
}
