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

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn what_a_terminal_would_obey_is_seen_and_not_done() {
        assert_eq!(plain("a\x1b[2Jb\r\nc\td\u{9b}e\u{202e}f"), "a\u{fffd}[2Jb\nc\td\u{fffd}e\u{fffd}f");
        assert_eq!(plain("Größe: 3 µm 🙂"), "Größe: 3 µm 🙂");
    }
}
