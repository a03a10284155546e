//! Words of an agent on a person's terminal: what it wrote can be read there, and does nothing.

use std::fmt::Write as _;
use std::io::{self, Write};

/// Returns a text without what a terminal would obey: escapes, other control characters, and marks that turn the direction of
/// writing. Line breaks and tabs stay.
pub(crate) fn plain(text: &str) -> String {
    text.replace("\r\n", "\n").chars().map(|one| if is_obeyed(one) { '\u{fffd}' } else { one }).collect()
}

/// Returns a JSON document that means the same, without what a terminal would obey: that can only stand in its texts.
pub(crate) fn plain_json(document: &str) -> String {
    let mut plain = String::with_capacity(document.len());
    for character in document.chars() {
        if is_obeyed(character) {
            // To a text one can always write.
            let _ = write!(plain, "\\u{:04x}", u32::from(character));
        } else {
            plain.push(character);
        }
    }
    plain
}

fn is_obeyed(character: char) -> bool {
    let turns = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || character.is_control() && !matches!(character, '\n' | '\t')
}

/// Writes to a terminal, as `made` makes it. Bytes may come in any pieces.
pub(crate) struct Harmless<W: Write> {
    terminal: W,
    made: fn(&str) -> String,
    /// The beginning of a character, or of a line break, whose rest has not come.
    begun: Vec<u8>,
}

impl<W: Write> Harmless<W> {
    pub(crate) fn new(terminal: W, made: fn(&str) -> String) -> Self {
        Self { terminal, made, begun: Vec::new() }
    }

    fn show(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.terminal.write_all((self.made)(&String::from_utf8_lossy(bytes)).as_bytes())
    }
}

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        let rest = self.begun.split_off(whole(&self.begun));
        let now = std::mem::replace(&mut self.begun, rest);
        self.show(&now)?;
        Ok(bytes.len())
    }

    /// What has begun will not be ended any more.
    fn flush(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.begun);
        self.show(&rest)?;
        self.terminal.flush()
    }
}

/// Returns how many of these bytes can be shown without knowing what comes next.
fn whole(bytes: &[u8]) -> usize {
    let back = bytes.iter().rev().take(4).position(|byte| !(0x80..0xc0).contains(byte));
    let Some(at) = back.map(|back| bytes.len() - back - 1) else { return bytes.len() };
    let length = match bytes[at] {
        b'\r' => 2,
        0xc0.. => bytes[at].leading_ones() as usize,
        _ => 1,
    };
    if at + length > bytes.len() { at } else { bytes.len() }
}

/// Returns how many columns a letter takes: two for Hangul, and from the East Asian scripts on; to count one too many leaves only a
/// little room unused.
pub(crate) fn width(letter: char) -> usize {
    if matches!(letter as u32, 0x1100..=0x115f | 0x2e80..) { 2 } else { 1 }
}

/// Makes a line fit: a line that is longer than the terminal would be two, and the first of them would stay.
pub(crate) fn fitting(line: &str, columns: usize) -> String {
    let plain = line.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    // The last column stays free: some terminals wrap as soon as it is written to.
    let room = columns.saturating_sub(1);
    if line.chars().map(width).sum::<usize>() <= room {
        return plain.collect();
    }
    let mut left = room.saturating_sub(1);
    let fits = |letter: &char| left.checked_sub(width(*letter)).map(|rest| left = rest).is_some();
    plain.take_while(fits).chain((room > 0).then_some('…')).collect()
}

/// Breaks a text into lines that fit, between words where that is possible, each after so many spaces and those that the line itself
/// begins with. Nothing of it is lost.
pub(crate) fn wrapped(text: &str, indent: usize, columns: usize) -> Vec<String> {
    let broken = |line: &str| {
        let words = line.trim_start_matches(' ');
        let own = (line.len() - words.len()).min(columns / 2);
        filled(words.split_inclusive(' ').map(str::to_owned).collect(), indent + own, columns)
    };
    text.lines().flat_map(broken).collect()
}

/// Puts pieces that are not to be broken into lines that fit. One that is longer than a line is broken all the same.
pub(crate) fn filled(pieces: Vec<String>, indent: usize, columns: usize) -> Vec<String> {
    // Where there is no room at all, one column is better than none.
    let room = columns.saturating_sub(1).saturating_sub(indent).max(1);
    let margin = " ".repeat(indent.min(columns.saturating_sub(2)));
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for piece in pieces {
        let wide = |text: &str| text.chars().map(width).sum::<usize>();
        if used > 0 && used + wide(piece.trim_end()) > room {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        for letter in piece.chars().map(|letter| if letter.is_control() { ' ' } else { letter }) {
            let blank = letter == ' ' && used + 1 > room;
            if !blank && used > 0 && used + width(letter) > room {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            if !blank {
                line.push(letter);
                used += width(letter);
            }
        }
    }
    lines.push(line);
    lines.into_iter().map(|line| format!("{margin}{}", line.trim_end()).trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{Harmless, fitting, plain, plain_json, wrapped};

    #[test]
    fn a_line_fits_and_has_no_control_characters() {
        assert_eq!(fitting("short", 80), "short");
        assert_eq!(fitting("a\nb\x1b[2Jc", 80), "a b [2Jc");
        assert_eq!(fitting("1234567890", 11), "1234567890");
        assert_eq!(fitting("1234567890", 10), "12345678…");
        assert_eq!(fitting("日本語", 6), "日本…");
        assert_eq!(
            (fitting("ab", 2), fitting("ab", 1), fitting("ab", 0)),
            ("…".into(), "".into(), "".into())
        );
    }

    #[test]
    fn what_a_terminal_would_obey_is_seen_and_not_done() {
        assert_eq!(
            plain("a\x1b[2Jb\r\nc\td\u{9b}e\u{202e}f\u{61c}"),
            "a\u{fffd}[2Jb\nc\td\u{fffd}e\u{fffd}f\u{fffd}"
        );
        assert_eq!(plain("Größe: 3 µm 🙂"), "Größe: 3 µm 🙂");
    }

    #[test]
    fn a_document_for_a_terminal_means_the_same() {
        let document = serde_json::json!({"a": "\u{1b}[2J \u{9b}2J \u{202e}\u{7f} Größe 🙂"}).to_string();
        let plain = plain_json(&document);
        assert!(plain.contains("\\u009b2J \\u202e\\u007f Größe 🙂"), "{plain}");
        let same = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(same(&plain), same(&document));
    }

    #[test]
    fn it_is_harmless_in_whatever_pieces_it_comes() {
        let text = ["a\u{9b}2J Größe 🙂\r\nb\x1b]52;c;x\x07\r".as_bytes(), b"\xff\xe2\x82"].concat();
        let shown = "a\u{fffd}2J Größe 🙂\nb\u{fffd}]52;c;x\u{fffd}\u{fffd}\u{fffd}\u{fffd}";
        for size in 1..=text.len() {
            let mut harmless = Harmless::new(Vec::new(), plain);
            text.chunks(size).for_each(|piece| harmless.write_all(piece).unwrap());
            harmless.flush().unwrap();
            assert_eq!(String::from_utf8(harmless.terminal).unwrap(), shown, "{size}");
        }
    }

    #[test]
    fn a_text_is_broken_between_words_and_nothing_is_lost() {
        assert_eq!(wrapped("one two three", 0, 8), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 2, 10), ["  one two", "  three"]);
        assert_eq!(wrapped("one\n\n  two", 0, 80), ["one", "", "  two"]);
        assert_eq!(wrapped("  one two", 1, 8), ["   one", "   two"]);
        assert_eq!(wrapped("1234567890", 0, 5), ["1234", "5678", "90"]);
        assert_eq!(wrapped("日本語", 0, 5), ["日本", "語"]);
        assert_eq!(wrapped("ab", 5, 1), ["a", "b"], "also where there is no room for anything");
    }
}
