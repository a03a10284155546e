//! Text: hunks of lines.

use imara_diff::{Algorithm, Diff, Hunk, InternedInput, Token};

use super::left_out::Why;
use super::section::Section;
use crate::redact::Redactor;

/// Lines shown before and after a change, as git does.
const CONTEXT: u32 = 3;

/// A text with more lines or bytes than this is written as one piece: each line costs many times its length in memory.
const LINES: usize = 500_000;
const BYTES: usize = 16 << 20;

/// Lines that occur more often than this are what makes a comparison slow: each may go with each.
const OFTEN: u32 = 32;

/// How many pairs of such lines one comparison may look at, and all of a patch together: one second each 10^9
/// (measured).
const PAIRS: u64 = 2_000_000_000;
pub(super) const ALL_PAIRS: u64 = 20_000_000_000;

/// Tells whether a text is small enough to be compared line by line.
pub(super) fn is_comparable(bytes: &[u8]) -> bool {
    bytes.len() <= BYTES && bytes.iter().filter(|&&byte| byte == b'\n').count() < LINES
}

/// Splits into lines, each with its end.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|&byte| byte == b'\n')
}

/// Two texts, and which of their lines differ.
pub(super) struct Lines<'a> {
    input: InternedInput<&'a [u8]>,
    diff: Diff,
}

impl<'a> Lines<'a> {
    /// Compares as long as the effort is worth it. After that all that differs is one change.
    pub(super) fn compare(old: &'a [u8], new: &'a [u8], effort: &mut u64) -> Self {
        let mut input = InternedInput::default();
        input.update_before(lines(old));
        input.update_after(lines(new));
        let pairs = pairs(&input);
        let mut diff = Diff::default();
        let count = input.interner.num_tokens();
        if pairs <= PAIRS.min(*effort) {
            *effort -= pairs;
            diff.compute_with(Algorithm::Histogram, &input.before, &input.after, count);
            diff.postprocess_lines(&input);
        } else {
            let after = unlike(&input, count);
            diff.compute_with(Algorithm::Histogram, &input.before, &after, 2 * count);
        }
        Self { input, diff }
    }

    /// Returns the new lines, each with whether it is added.
    pub(super) fn new_lines(&self) -> impl Iterator<Item = (&'a [u8], bool)> {
        (0..).zip(&self.input.after).map(|(at, &token)| (self.input.interner[token], self.diff.is_added(at)))
    }

    fn old_line(&self, at: u32) -> &'a [u8] {
        self.input.interner[self.input.before[at as usize]]
    }

    fn new_line(&self, at: u32) -> &'a [u8] {
        self.input.interner[self.input.after[at as usize]]
    }
}

/// Does to one text what another did to the text that both come from. `None` where both changed the same lines, or lines with none
/// between them, and not in the same way.
pub(super) fn merged(base: &[u8], ours: &[u8], theirs: &[u8], effort: &mut u64) -> Option<Vec<u8>> {
    let sides = [Lines::compare(base, ours, effort), Lines::compare(base, theirs, effort)];
    let [mut our, mut their] = [&sides[0], &sides[1]].map(|side| side.diff.hunks().peekable());
    let added = |side: usize, hunk: &Hunk| -> Vec<u8> {
        hunk.after.clone().flat_map(|at| sides[side].new_line(at)).copied().collect()
    };
    let (mut out, mut at) = (Vec::new(), 0);
    loop {
        let side = match (our.peek(), their.peek()) {
            (None, None) => break,
            (Some(_), None) => 0,
            (None, Some(_)) => 1,
            (Some(one), Some(other)) if touch(&one.before, &other.before) => {
                if one.before != other.before || added(0, one) != added(1, other) {
                    return None;
                }
                their.next();
                0
            }
            (Some(one), Some(other)) => usize::from(other.before.start < one.before.start),
        };
        let Some(hunk) = (if side == 0 { our.next() } else { their.next() }) else { break };
        out.extend((at..hunk.before.start).flat_map(|at| sides[0].old_line(at)));
        out.extend(added(side, &hunk));
        at = hunk.before.end;
    }
    let all = u32::try_from(sides[0].input.before.len()).unwrap_or(u32::MAX);
    out.extend((at..all).flat_map(|at| sides[0].old_line(at)));
    Some(out)
}

fn touch(one: &std::ops::Range<u32>, other: &std::ops::Range<u32>) -> bool {
    one.start <= other.end && other.start <= one.end
}

/// Returns how many lines are the same at the beginning, and at the end.
fn common(before: &[Token], after: &[Token]) -> (usize, usize) {
    let start = before.iter().zip(after).take_while(|(old, new)| old == new).count();
    let rest = before[start..].iter().rev().zip(after[start..].iter().rev());
    (start, rest.take_while(|(old, new)| old == new).count())
}

/// Returns how many pairs of frequent lines there are in what differs.
fn pairs(input: &InternedInput<&[u8]>) -> u64 {
    let (start, end) = common(&input.before, &input.after);
    let sides = [&input.before, &input.after].map(|side| &side[start..side.len() - end]);
    let mut counts = vec![0_u32; input.interner.num_tokens() as usize];
    for token in sides.into_iter().flatten() {
        counts[token.0 as usize] += 1;
    }
    let frequent =
        |side: &[Token]| side.iter().filter(|token| counts[token.0 as usize] > OFTEN).count() as u64;
    frequent(sides[0]) * frequent(sides[1])
}

/// Returns the new lines as if none that differs by its place had been there before.
fn unlike(input: &InternedInput<&[u8]>, count: u32) -> Vec<Token> {
    let (start, end) = common(&input.before, &input.after);
    let differs = start..input.after.len() - end;
    let other =
        |(at, token): (usize, &Token)| Token(if differs.contains(&at) { token.0 + count } else { token.0 });
    input.after.iter().enumerate().map(other).collect()
}

/// Writes what differs. With a guard, old lines are looked at before they are shown: they cannot be changed, or the
/// patch would not apply.
pub(super) fn hunks(
    section: &mut Section,
    old: &[u8],
    new: &[u8],
    guard: Option<&Redactor>,
) -> Result<(), Why> {
    let lines = Lines::compare(old, new, &mut section.effort);
    let mut hunks = lines.diff.hunks().peekable();
    while let Some(first) = hunks.next() {
        let mut group = vec![first];
        while let Some(next) = hunks.next_if(|next| is_near(&group, next)) {
            group.push(next);
        }
        write(section, &lines, &group, guard)?;
    }
    Ok(())
}

/// Two changes whose contexts would touch are one.
fn is_near(group: &[Hunk], next: &Hunk) -> bool {
    group.last().is_some_and(|last| next.before.start - last.before.end <= 2 * CONTEXT)
}

fn write(
    section: &mut Section,
    lines: &Lines<'_>,
    group: &[Hunk],
    guard: Option<&Redactor>,
) -> Result<(), Why> {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return Ok(()) };
    let lead = first.before.start.min(CONTEXT);
    let all = u32::try_from(lines.input.before.len()).unwrap_or(u32::MAX);
    let trail = (all - last.before.end).min(CONTEXT);
    let old = first.before.start - lead..last.before.end + trail;
    let new = first.after.start - lead..last.after.end + trail;
    section.line(&format!("@@ -{} +{} @@", range(&old), range(&new)))?;

    let old_line = |section: &mut Section, sign: u8, at: u32| {
        let line = lines.old_line(at);
        if guard.is_some_and(|redactor| redactor.holds(line)) {
            return Err(Why::Secret);
        }
        push(section, sign, line)
    };
    let mut at = old.start;
    for hunk in group {
        (at..hunk.before.start).try_for_each(|at| old_line(section, b' ', at))?;
        hunk.before.clone().try_for_each(|at| old_line(section, b'-', at))?;
        hunk.after.clone().try_for_each(|at| push(section, b'+', lines.new_line(at)))?;
        section.deletions += u64::from(hunk.before.end - hunk.before.start);
        section.insertions += u64::from(hunk.after.end - hunk.after.start);
        at = hunk.before.end;
    }
    (at..old.end).try_for_each(|at| old_line(section, b' ', at))
}

/// Lines count from one, but a range without lines is named by the line before it.
fn range(lines: &std::ops::Range<u32>) -> String {
    let count = lines.end - lines.start;
    let start = if count == 0 { lines.start } else { lines.start + 1 };
    format!("{start},{count}")
}

fn push(section: &mut Section, sign: u8, line: &[u8]) -> Result<(), Why> {
    section.push(&[sign])?;
    section.push(line)?;
    if line.ends_with(b"\n") { Ok(()) } else { section.push(b"\n\\ No newline at end of file\n") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::Redactor;

    fn shown(old: &str, new: &str, effort: u64) -> String {
        let mut section = Section::new(u64::MAX, effort);
        hunks(&mut section, old.as_bytes(), new.as_bytes(), None).unwrap();
        String::from_utf8(section.finish(&Redactor::new([]).unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn what_costs_too_much_to_compare_is_one_change() {
        let old = format!("begin\n{}end\n", "a\nb\n".repeat(50));
        let new = format!("begin\n{}end\n", "b\nc\na\n".repeat(40));
        assert!(shown(&old, &new, u64::MAX).matches("@@ -").count() >= 1);
        let lines = |sign: &str, text: &str| -> String {
            text.lines().map(|line| format!("{sign}{line}\n")).collect()
        };
        let expected = format!(
            "@@ -1,102 +1,122 @@\n begin\n{}{} end\n",
            lines("-", &"a\nb\n".repeat(50)),
            lines("+", &"b\nc\na\n".repeat(40)),
        );
        assert_eq!(shown(&old, &new, 0), expected);
        assert_ne!(shown(&old, &new, u64::MAX), expected);
    }

    #[test]
    fn what_two_did_to_a_text_is_in_one_unless_they_did_it_to_the_same_lines() {
        let merge = |base: &str, ours: &str, theirs: &str| {
            let merged = merged(base.as_bytes(), ours.as_bytes(), theirs.as_bytes(), &mut u64::MAX.clone());
            merged.map(|bytes| String::from_utf8(bytes).unwrap())
        };
        let base = "1\n2\n3\n4\n5\n";
        for (ours, theirs, both) in [
            ("one\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive", Some("one\n2\n3\n4\nfive")),
            ("1\n2\n3\n4\nfive", "one\n2\n3\n4\n5\n", Some("one\n2\n3\n4\nfive")),
            ("2\n3\n4\n5\n", "1\n2\n3\n4\n5\n6\n7\n", Some("2\n3\n4\n5\n6\n7\n")),
            ("0\n1\n2\n3\n4\n5\n", "1\n2\n3\n", Some("0\n1\n2\n3\n")),
            ("1\nx\n3\n4\n5\n", "1\nx\n3\ny\n5\n", Some("1\nx\n3\ny\n5\n")),
            ("1\nx\n3\n4\n5\n", "1\ny\n3\n4\n5\n", None),
            ("1\nx\n3\n4\n5\n", "1\n2\ny\n4\n5\n", None),
            ("1\nx\n2\n3\n4\n5\n", "1\ny\n2\n3\n4\n5\n", None),
            ("", "1\n2\nx\n4\n5\n", None),
            (base, "", Some("")),
        ] {
            assert_eq!(merge(base, ours, theirs).as_deref(), both, "{ours:?} {theirs:?}");
        }
        assert_eq!(merge("", "x\n", "x\n").as_deref(), Some("x\n"));
        assert_eq!(merge("", "x\n", "y\n"), None);
    }

    #[test]
    fn usual_text_costs_nothing() {
        let text: String = (0..1000).map(|line| format!("{line}\n")).collect();
        let changed = text.replace("\n500\n", "\nfive hundred\n");
        assert_eq!(shown(&text, &changed, 0).lines().count(), 9);
    }
}
