//! The beginning and the end of what was said.

use std::collections::VecDeque;

use super::Sink;

/// Keeps the first and the last bytes, each up to half of the cap.
#[derive(Clone, Debug)]
pub struct Capped {
    cap: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Capped {
    pub fn new(cap: usize) -> Self {
        Self { cap, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    /// Returns how many bytes there were, kept or not.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns what was kept. Where something is missing, a line says how much; no character is cut in two for it. What is not
    /// text becomes U+FFFD.
    pub fn text(&self) -> String {
        let (front, back) = self.tail.as_slices();
        let tail = [front, back].concat();
        if self.total == (self.head.len() + tail.len()) as u64 {
            return String::from_utf8_lossy(&[self.head.as_slice(), &tail].concat()).into_owned();
        }
        let (head, tail) = (without_begun_character(&self.head), without_ended_character(&tail));
        let left_out = self.total - (head.len() + tail.len()) as u64;
        let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
        format!("{head}\n[{left_out} bytes left out]\n{tail}")
    }

    fn tail_cap(&self) -> usize {
        self.cap - self.cap / 2
    }
}

impl Sink for Capped {
    fn take(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = (self.cap / 2).saturating_sub(self.head.len());
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        let last = &rest[rest.len().saturating_sub(self.tail_cap())..];
        let over = (self.tail.len() + last.len()).saturating_sub(self.tail_cap());
        self.tail.drain(..over);
        self.tail.extend(last);
    }
}

/// Takes off a character at the end that the cut left unfinished.
fn without_begun_character(bytes: &[u8]) -> &[u8] {
    // A character has at most four bytes.
    let from = bytes.len().saturating_sub(3);
    for (at, byte) in bytes.iter().enumerate().skip(from).rev() {
        let needs = match byte {
            0x80..=0xbf => continue,
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            _ => return bytes,
        };
        return if at + needs > bytes.len() { &bytes[..at] } else { bytes };
    }
    bytes
}

/// Takes off the rest of a character at the beginning that the cut left without its first byte.
fn without_ended_character(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| matches!(byte, 0x80..=0xbf)).count();
    &bytes[rest..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn capped(cap: usize, pieces: &[Vec<u8>]) -> Capped {
        let mut sink = Capped::new(cap);
        pieces.iter().for_each(|piece| sink.take(piece));
        sink
    }

    #[test]
    fn the_middle_is_left_out_between_characters() {
        let sink = capped(12, &["ab€€cdefghijkl€€yz".into()]);
        assert_eq!(sink.text(), "ab€\n[16 bytes left out]\n€yz");
        assert_eq!(sink.total(), 26);
    }

    #[test]
    fn what_is_no_text_is_shown_as_such() {
        assert_eq!(capped(10, &[vec![b'a', 0xff, b'b']]).text(), "a\u{fffd}b");
    }

    proptest! {
        #[test]
        fn what_fits_is_whole(pieces: Vec<Vec<u8>>, more in 0_usize..9) {
            let whole = pieces.concat();
            // Half of the cap is for each end, so an odd cap does not matter.
            let sink = capped(whole.len() + more, &pieces);
            prop_assert_eq!(sink.text(), String::from_utf8_lossy(&whole));
        }

        #[test]
        fn a_text_stays_a_text_and_every_byte_is_accounted_for(text in "\\PC{0,60}", cap in 0_usize..70, cut in 1_usize..9) {
            let pieces: Vec<Vec<u8>> = text.as_bytes().chunks(cut).map(<[u8]>::to_vec).collect();
            let sink = capped(cap, &pieces);
            prop_assert!(sink.head.len() + sink.tail.len() <= cap);
            let shown = sink.text();
            if text.len() <= cap {
                prop_assert_eq!(shown, text);
            } else {
                let (head, rest) = shown.split_once("\n[").unwrap();
                let (count, tail) = rest.split_once(" bytes left out]\n").unwrap();
                prop_assert!(text.starts_with(head) && text.ends_with(tail), "{shown}");
                prop_assert_eq!(head.len() + tail.len() + count.parse::<usize>().unwrap(), text.len());
            }
        }

        #[test]
        fn pieces_do_not_matter(bytes: Vec<u8>, cap in 0_usize..40, cut in 1_usize..9) {
            let pieces: Vec<Vec<u8>> = bytes.chunks(cut).map(<[u8]>::to_vec).collect();
            prop_assert_eq!(capped(cap, &pieces).text(), capped(cap, &[bytes]).text());
        }
    }
}
