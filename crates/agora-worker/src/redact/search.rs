//! Finds every form of every secret at once, and looks at few of the bytes for it.
//!
//! A form that stands anywhere in a text covers a whole block that begins at a multiple of the stride. So only those blocks
//! are looked up in a table of all blocks that forms begin with, and the automaton walks from the few that are in it
//! until nothing that it has seen can become a form any more.

use std::ops::{ControlFlow, Range};

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, BuildError, MatchKind};

/// The bytes that are looked at together.
const BLOCK: usize = 4;
/// A longer stride makes the table of blocks fuller, and few texts faster to look through.
const LONGEST_STRIDE: usize = 8;
/// The table has a bit for each of so many numbers: 32 KiB, which stay in the fastest memory.
const TABLE_BITS: u32 = 18;

/// Looks for a set of forms.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// Not a table of all moves: it sees few bytes, and the table is forty times as large, hundreds of megabytes for the longest secret.
    automaton: NFA,
    start: StateID,
    /// `None` where a form is too short for it: then everything is walked.
    sieve: Option<Sieve>,
}

impl Search {
    /// Gets ready. No form is empty.
    pub(super) fn new(forms: &[Vec<u8>]) -> Result<Self, BuildError> {
        let automaton = NFA::builder().match_kind(MatchKind::Standard).prefilter(false).build(forms)?;
        let start = automaton.start_state(Anchored::No).unwrap_or(StateID::ZERO);
        Ok(Self { start, sieve: Sieve::new(forms), automaton })
    }

    /// Names the places of forms, by their ends; of those with one end the longest. The caller may have seen enough.
    pub(super) fn each(
        &self,
        bytes: &[u8],
        mut met: impl FnMut(Range<usize>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some(sieve) = &self.sieve else {
            return self.walk(bytes, 0, bytes.len(), &mut met).map_continue(drop);
        };
        let (mut at, mut walked) = (0, 0);
        while let Some(block) = bytes.get(at..at + BLOCK) {
            if !sieve.has(block) {
                at += sieve.stride;
                continue;
            }
            // What begins earlier covers an earlier block, or was on its way when the last walk ended, and then it had not.
            let from = (at + 1).saturating_sub(sieve.stride).max(walked);
            walked = self.walk(bytes, from, at, &mut met)?;
            at = walked.next_multiple_of(sieve.stride);
        }
        ControlFlow::Continue(())
    }

    /// Walks until, somewhere behind `past`, nothing is on its way to become a form. Returns where that is.
    fn walk(
        &self,
        bytes: &[u8],
        from: usize,
        past: usize,
        met: &mut impl FnMut(Range<usize>) -> ControlFlow<()>,
    ) -> ControlFlow<(), usize> {
        let (automaton, mut state) = (&self.automaton, self.start);
        for (place, byte) in bytes.iter().enumerate().skip(from) {
            state = automaton.next_state(Anchored::No, state, *byte);
            // Without a prefilter of its own, the automaton does not count this state among its special ones.
            if state == self.start {
                if place >= past {
                    return ControlFlow::Continue(place + 1);
                }
            } else if automaton.is_match(state) {
                let lengths = (0..automaton.match_len(state))
                    .map(|index| automaton.pattern_len(automaton.match_pattern(state, index)));
                let end = place + 1;
                met(end - lengths.max().unwrap_or(0)..end)?;
            }
        }
        ControlFlow::Continue(bytes.len())
    }
}

/// Which blocks may belong to the beginning of a form. Says yes to all of those, and to few others.
#[derive(Clone, Debug)]
struct Sieve {
    stride: usize,
    table: Vec<u64>,
}

impl Sieve {
    fn new(forms: &[Vec<u8>]) -> Option<Self> {
        let shortest = forms.iter().map(Vec::len).min()?;
        let stride = (shortest + 1).checked_sub(BLOCK).filter(|stride| *stride > 0)?.min(LONGEST_STRIDE);
        let mut table = vec![0; (1 << TABLE_BITS) / 64];
        for block in forms.iter().flat_map(|form| form.windows(BLOCK).take(stride)) {
            let (word, bit) = place(block);
            table[word] |= bit;
        }
        Some(Self { stride, table })
    }

    fn has(&self, block: &[u8]) -> bool {
        let (word, bit) = place(block);
        self.table[word] & bit != 0
    }
}

/// Returns a block's bit: which word, and the bit in it.
fn place(block: &[u8]) -> (usize, u64) {
    let number = block.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    // Fibonacci hashing: neighbours in the alphabet end far from each other.
    let hash = number.wrapping_mul(0x9E37_79B1) >> (32 - TABLE_BITS);
    (hash as usize / 64, 1 << (hash % 64))
}
