//! A line that somebody writes: its text, where the cursor stands, and what each key does to it. No terminal in here.

use super::keys::Key;
use crate::plain::{plain, width};

/// What a key led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Stay,
    Done(String),
    /// Whoever writes wants something else.
    Back,
    Interrupted,
}

/// A text that is being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    text: Vec<char>,
    at: usize,
}

impl Line {
    pub(super) fn press(&mut self, key: Key) -> Typed {
        match key {
            Key::Character(letter) => self.insert([letter]),
            Key::Pasted(text) => self.insert(text.chars()),
            Key::Left => self.at = self.at.saturating_sub(1),
            Key::Right => self.at = (self.at + 1).min(self.text.len()),
            Key::Home | Key::Up => self.at = 0,
            Key::End | Key::Down => self.at = self.text.len(),
            Key::Backspace if self.at > 0 => {
                self.at -= 1;
                self.text.remove(self.at);
            }
            Key::Delete if self.at < self.text.len() => drop(self.text.remove(self.at)),
            Key::EraseLine => self.erase_to(0),
            Key::EraseWord => self.erase_to(self.word_before()),
            Key::Enter if self.text.iter().all(|letter| letter.is_whitespace()) => return Typed::Back,
            Key::Enter => return Typed::Done(self.text.iter().collect()),
            Key::Escape => return Typed::Back,
            Key::Interrupt => return Typed::Interrupted,
            Key::Backspace | Key::Delete => {}
        }
        Typed::Stay
    }

    fn insert(&mut self, letters: impl IntoIterator<Item = char>) {
        for letter in letters {
            self.text.insert(self.at, letter);
            self.at += 1;
        }
    }

    fn erase_to(&mut self, from: usize) {
        self.text.drain(from..self.at);
        self.at = from;
    }

    fn word_before(&self) -> usize {
        let before = &self.text[..self.at];
        let end = before.iter().rposition(|letter| !letter.is_whitespace()).map_or(0, |last| last + 1);
        before[..end].iter().rposition(|letter| letter.is_whitespace()).map_or(0, |space| space + 1)
    }

    /// Returns what to show in so many columns, and in which of them the cursor stands: the part of the text that it is in.
    pub(super) fn shown(&self, columns: usize) -> (String, usize) {
        let letters: Vec<char> = self.text.iter().map(|letter| visible(*letter)).collect();
        // The cursor stands behind the last letter, and the last column stays free.
        let room = columns.saturating_sub(2).max(1);
        let wide = |letters: &[char]| letters.iter().copied().map(width).sum::<usize>();
        let mut from = 0;
        while wide(&letters[from..self.at]) > room {
            from += 1;
        }
        let mut to = letters.len();
        while wide(&letters[from..to]) > room {
            to -= 1;
        }
        (letters[from..to].iter().collect(), wide(&letters[from..self.at]))
    }
}

/// A letter as it is shown while it is written: a line break is one sign.
fn visible(letter: char) -> char {
    match letter {
        '\n' => '⏎',
        '\t' => ' ',
        other => plain(other.encode_utf8(&mut [0; 4])).chars().next().unwrap_or(' '),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Line {
        let mut line = Line::default();
        for letter in text.chars() {
            assert_eq!(line.press(Key::Character(letter)), Typed::Stay);
        }
        line
    }

    #[test]
    fn a_line_is_written_and_mended() {
        let mut line = typed("it as an index");
        for _ in 0.."as an index".len() {
            line.press(Key::Left);
        }
        line.press(Key::Character('h'));
        assert_eq!(line.press(Key::Enter), Typed::Done("it has an index".into()));
        line.press(Key::End);
        line.press(Key::EraseWord);
        line.press(Key::Backspace);
        assert_eq!(line.press(Key::Enter), Typed::Done("it has an".into()));
        line.press(Key::Home);
        line.press(Key::Delete);
        assert_eq!(line.press(Key::Enter), Typed::Done("t has an".into()));
        line.press(Key::End);
        line.press(Key::EraseLine);
        assert_eq!(line.press(Key::Enter), Typed::Back, "a blank line is no answer");
        assert_eq!(typed("x").press(Key::Escape), Typed::Back);
        assert_eq!(typed("x").press(Key::Interrupt), Typed::Interrupted);
    }

    #[test]
    fn a_pasted_text_keeps_its_line_breaks_and_does_nothing_to_the_terminal() {
        let mut line = Line::default();
        line.press(Key::Pasted("one\ntwo\x1b[2J".into()));
        assert_eq!(line.shown(80), ("one⏎two\u{fffd}[2J".into(), 12));
        assert_eq!(line.press(Key::Enter), Typed::Done("one\ntwo\x1b[2J".into()));
    }

    #[test]
    fn the_part_with_the_cursor_is_what_is_seen() {
        let mut line = typed("1234567890");
        assert_eq!(line.shown(80), ("1234567890".into(), 10));
        assert_eq!(line.shown(6), ("7890".into(), 4));
        line.press(Key::Home);
        assert_eq!(line.shown(6), ("1234".into(), 0));
        assert_eq!(line.shown(0), ("1".into(), 0));
        assert_eq!(typed("日本語").shown(6), ("本語".into(), 4));
    }
}
