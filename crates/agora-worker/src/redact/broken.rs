//! Texts that were broken into lines, as `base64` and PEM write them: each is joined again, so that a form is found over the breaks.
//!
//! What is joined is made of the characters of Base64 alone, with one break at a time between them: the end of a line as it is, or as
//! JSON writes it, however often, and then how far in the next line begins.

use std::ops::{ControlFlow, Range};

/// How much is joined at once, beside what a form may reach over: an agent writes lines for as long as it likes.
const WINDOW: usize = 64 * 1024;

/// A text without its breaks.
#[derive(Debug, Default)]
pub(super) struct Joined {
    text: Vec<u8>,
    /// Where each line begins: in here, and in what it was joined from.
    lines: Vec<(usize, usize)>,
}

impl Joined {
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns where a place was, if there is a break in it. What is in one line is found without us.
    pub(super) fn broken(&self, place: Range<usize>) -> Option<Range<usize>> {
        let line_of = |at: usize| self.lines.partition_point(|(begin, _)| *begin <= at).checked_sub(1);
        let (first, last) = (line_of(place.start)?, line_of(place.end.checked_sub(1)?)?);
        let was = |line: usize, at: usize| self.lines[line].1 + (at - self.lines[line].0);
        (first != last).then(|| was(first, place.start)..was(last, place.end))
    }

    fn add(&mut self, bytes: &[u8], line: Range<usize>) {
        self.lines.push((self.text.len(), line.start));
        self.text.extend_from_slice(&bytes[line]);
    }

    /// Forgets all but so many characters at the end.
    fn keep(&mut self, last: usize) {
        let cut = self.text.len().saturating_sub(last);
        self.text.drain(..cut);
        let gone = self.lines.partition_point(|(begin, _)| *begin <= cut).saturating_sub(1);
        self.lines.drain(..gone);
        for (begin, was) in &mut self.lines {
            *was += cut.saturating_sub(*begin);
            *begin = begin.saturating_sub(cut);
        }
    }
}

/// Hands over every text of several lines that has at least as many characters as the shortest form: a long one in parts, each with as
/// many characters of the part before as the longest form has.
pub(super) fn each(
    bytes: &[u8],
    (shortest, longest): (usize, usize),
    mut met: impl FnMut(&Joined) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (mut joined, window) = (Joined::default(), WINDOW.max(longest));
    // What is before `done` was handed over, or is in no such text.
    let (mut at, mut done) = (0, 0);
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'\n', b'\\', rest)) {
        at += found + 1;
        let mut end = at - 1;
        if bytes[end] == b'\n' && end > done && bytes[end - 1] == b'\r' {
            end -= 1;
        }
        if end == done || !is_letter(bytes[end - 1]) {
            continue;
        }
        let Some(mut next) = next_line(bytes, end) else { continue };
        let letters = bytes[done..end].iter().rev().take_while(|byte| is_letter(**byte));
        let begin = end - letters.take(longest).count();
        joined.text.clear();
        joined.lines.clear();
        joined.add(bytes, begin..end);
        loop {
            end = next + bytes[next..].iter().take_while(|byte| is_letter(**byte)).count();
            while next < end {
                let piece = next..end.min(next + window);
                next = piece.end;
                joined.add(bytes, piece);
                if joined.text.len() > window + longest {
                    met(&joined)?;
                    joined.keep(longest);
                }
            }
            match next_line(bytes, end) {
                Some(line) => next = line,
                None => break,
            }
        }
        (at, done) = (end, end);
        if joined.text.len() >= shortest {
            met(&joined)?;
        }
    }
    ControlFlow::Continue(())
}

/// Returns where the next line begins, if the one that ends here goes on there.
fn next_line(bytes: &[u8], end: usize) -> Option<usize> {
    let rest = &bytes[end..];
    let broken = match rest {
        [b'\n', ..] => 1,
        [b'\r', b'\n', ..] => 2,
        _ => match (escape(rest, b'n'), escape(rest, b'r')) {
            (Some(line), _) => line,
            (None, Some(carriage)) => carriage + escape(&rest[carriage..], b'n')?,
            (None, None) => return None,
        },
    };
    let far_in = rest[broken..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let next = end + broken + far_in;
    bytes.get(next).is_some_and(|byte| is_letter(*byte)).then_some(next)
}

/// Returns the length of an escaped control character, if one begins here: in a text within a text its backslash is escaped as well.
fn escape(rest: &[u8], letter: u8) -> Option<usize> {
    let backslashes = rest.iter().take_while(|byte| **byte == b'\\').count();
    (backslashes > 0 && rest.get(backslashes) == Some(&letter)).then_some(backslashes + 1)
}

/// Tells whether a byte is one of Base64's, in either alphabet. The padding ends a text.
fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}
