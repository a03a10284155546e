//! Words of an agent on a person's terminal: what it wrote can be read there, and does nothing.

/// Returns a text without what a terminal would obey: escapes, other control characters, and marks that turn the direction of
/// writing. Line breaks and tabs stay.
pub(crate) fn plain(text: &str) -> String {
    let obeyed = |character: char| {
        let turns =
            matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || character.is_control() && !matches!(character, '\n' | '\t')
    };
    text.replace("\r\n", "\n").chars().map(|one| if obeyed(one) { '\u{fffd}' } else { one }).collect()
}

/// Makes a line fit: a line that is longer than the terminal would be two, and the first of them would stay.
pub(crate) fn fitting(line: &str, columns: usize) -> String {
    // Hangul, and from the East Asian scripts on; to count one too many leaves only a little room unused.
    let width = |letter: char| if matches!(letter as u32, 0x1100..=0x115f | 0x2e80..) { 2 } else { 1 };
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

#[cfg(test)]
mod tests {
    use super::{fitting, plain};

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
        assert_eq!(plain("a\x1b[2Jb\r\nc\td\u{9b}e\u{202e}f"), "a\u{fffd}[2Jb\nc\td\u{fffd}e\u{fffd}f");
        assert_eq!(plain("Größe: 3 µm 🙂"), "Größe: 3 µm 🙂");
    }
}
