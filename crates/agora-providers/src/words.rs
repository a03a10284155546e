//! What a program says beside its work: the beginning is kept, and it may say as much as it likes.

use std::io::{self, Read};

/// What of a program's complaints is told.
const KEPT_BYTES: u64 = 4096;

/// Hears a program out, and returns the beginning of what it said. All the rest is read as well: a pipe that is closed, or full, would
/// end or stop a program that only says too much.
pub(crate) fn beginning(mut from: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // One that cannot be heard to its end has said what it has said.
    let _ = from
        .by_ref()
        .take(KEPT_BYTES)
        .read_to_end(&mut bytes)
        .and_then(|_| io::copy(&mut from, &mut io::sink()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_read_and_the_beginning_is_kept() {
        let text = "word ".repeat(10_000);
        let mut said = io::Cursor::new(&text);
        assert_eq!(beginning(&mut said), text.as_bytes()[..4096]);
        assert_eq!(said.position(), text.len() as u64, "nothing is left in the pipe");
        assert_eq!(beginning(&b"short"[..]), b"short");
    }
}
