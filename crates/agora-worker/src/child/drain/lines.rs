//! Output, line by line.

use std::fmt;
use std::io::BufRead;

use super::Sink;

/// The longest line that is passed on, unless said otherwise: an agent's longest event is a file that it has read.
pub const LONGEST_LINE: usize = 16 * 1024 * 1024;
/// What a buffer may keep when a long line is done with.
const KEPT_CAPACITY: usize = 256 * 1024;

/// Calls a function for every line, without its line feed. A line over the cap is passed over and counted.
pub struct Lines<F> {
    each: F,
    cap: usize,
    /// What there is of a line whose end was not seen yet.
    begun: Begun,
    skipped: u64,
}

#[derive(Debug)]
enum Begun {
    Line(Vec<u8>),
    /// It is too long already: nothing of it is kept.
    TooLong,
}

impl<F: FnMut(&[u8]) + Send> Lines<F> {
    pub fn new(each: F) -> Self {
        Self::capped(LONGEST_LINE, each)
    }

    pub fn capped(cap: usize, each: F) -> Self {
        Self { each, cap, begun: Begun::Line(Vec::new()), skipped: 0 }
    }

    /// Returns how many lines were too long.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Takes the last part of a line.
    fn complete(&mut self, part: &[u8]) {
        match &mut self.begun {
            Begun::Line(line) if line.len() + part.len() > self.cap => {
                self.skipped += 1;
                line.clear();
            }
            // Most lines come whole and need no copy.
            Begun::Line(line) if line.is_empty() => (self.each)(part),
            Begun::Line(line) => {
                line.extend_from_slice(part);
                (self.each)(line);
                line.clear();
            }
            Begun::TooLong => {
                self.skipped += 1;
                self.begun = Begun::Line(Vec::new());
            }
        }
        if let Begun::Line(line) = &mut self.begun {
            line.shrink_to(KEPT_CAPACITY);
        }
    }

    /// Takes a part of a line that goes on.
    fn go_on(&mut self, part: &[u8]) {
        match &mut self.begun {
            Begun::Line(line) if line.len() + part.len() > self.cap => self.begun = Begun::TooLong,
            Begun::Line(line) => line.extend_from_slice(part),
            Begun::TooLong => {}
        }
    }
}

impl<F: FnMut(&[u8]) + Send> Sink for Lines<F> {
    fn take(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let part = rest;
            // The standard library's quick search for one byte, which cannot fail on a slice.
            let Ok(length) = rest.skip_until(b'\n') else { return };
            match part[..length].strip_suffix(b"\n") {
                Some(end) => self.complete(end),
                None => self.go_on(part),
            }
        }
    }

    /// A last line without a line feed is a line, unless it is empty.
    fn end(&mut self) {
        if !matches!(&self.begun, Begun::Line(line) if line.is_empty()) {
            self.complete(b"");
        }
    }
}

impl<F> fmt::Debug for Lines<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("cap", &self.cap)
            .field("skipped", &self.skipped)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the lines that came, and how many were skipped.
    fn lines(cap: usize, pieces: &[&[u8]]) -> (Vec<Vec<u8>>, u64) {
        let mut seen: Vec<Vec<u8>> = Vec::new();
        let mut sink = Lines::capped(cap, |line: &[u8]| seen.push(line.to_vec()));
        pieces.iter().for_each(|piece| sink.take(piece));
        sink.end();
        let skipped = sink.skipped();
        (seen, skipped)
    }

    #[test]
    fn a_line_over_the_cap_is_passed_over_whole() {
        let (seen, skipped) = lines(3, &[b"abc\nab", b"cd", b"efg\n\nx", b"y\nabcd\nlong"]);
        assert_eq!((seen, skipped), (vec![b"abc".to_vec(), b"".to_vec(), b"xy".to_vec()], 3));
    }

    #[test]
    fn a_hundred_mebibytes_without_a_line_feed_are_not_kept() {
        let mut sink = Lines::new(|_: &[u8]| {});
        let piece = vec![b'x'; 64 * 1024];
        let mut most = 0;
        for _ in 0..100 * 16 {
            sink.take(&piece);
            most = most.max(if let Begun::Line(line) = &sink.begun { line.capacity() } else { 0 });
        }
        sink.take(b"\n");
        assert!(most <= 2 * LONGEST_LINE, "{most}");
        assert!(matches!(&sink.begun, Begun::Line(line) if line.capacity() <= KEPT_CAPACITY));
        assert_eq!(sink.skipped(), 1);
    }

    proptest! {
        #[test]
        fn lines_are_what_stands_between_line_feeds(text in "[ab\n]{0,40}", cap in 0_usize..9, cut in 1_usize..9) {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(cut).collect();
            let whole: Vec<&str> = text.split_terminator('\n').collect();
            let expected: Vec<Vec<u8>> =
                whole.iter().filter(|line| line.len() <= cap).map(|line| line.as_bytes().to_vec()).collect();
            let skipped = (whole.len() - expected.len()) as u64;
            prop_assert_eq!(lines(cap, &pieces), (expected, skipped));
        }
    }
}
