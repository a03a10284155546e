//! Hides secrets in output that comes piece by piece, wherever the pieces were cut.

use std::borrow::Cow;

use super::{MARK, Redactor};

/// Holds back as much as the longest form could still need, never more, and hands out the rest.
#[derive(Debug)]
pub struct RedactingStream<'a> {
    redactor: Cow<'a, Redactor>,
    held: Vec<u8>,
    /// How many bytes at the beginning of `held` are hidden behind a mark that is out already. `Some(0)`: what was hidden
    /// ended right before it, and what touches it needs no mark of its own.
    covered: Option<usize>,
}

impl<'a> RedactingStream<'a> {
    pub(super) fn new(redactor: Cow<'a, Redactor>) -> Self {
        Self { redactor, held: Vec::new(), covered: None }
    }

    /// Takes a piece, and appends to `out` what is certain by now.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(piece);
        // A form that begins before here is wholly in sight.
        let certain = self.held.len().saturating_sub(self.redactor.longest().saturating_sub(1));
        self.hand_out(certain, out);
    }

    /// Appends what was held back.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.hand_out(self.held.len(), out);
    }

    /// Hands out the first `certain` bytes, with what is to be hidden in them hidden.
    fn hand_out(&mut self, certain: usize, out: &mut Vec<u8>) {
        if certain == 0 {
            return;
        }
        let mut hidden_to = self.covered;
        for place in self.redactor.find(&self.held).into_iter().take_while(|place| place.start < certain) {
            match hidden_to {
                Some(end) if place.start <= end => hidden_to = Some(end.max(place.end)),
                _ => {
                    out.extend_from_slice(&self.held[hidden_to.unwrap_or(0)..place.start]);
                    out.extend_from_slice(MARK.as_bytes());
                    hidden_to = Some(place.end);
                }
            }
        }
        let shown_from = hidden_to.unwrap_or(0);
        out.extend_from_slice(self.held.get(shown_from..certain).unwrap_or_default());
        // What is hidden beyond here stays hidden, although what showed it is handed out and gone.
        self.covered = hidden_to.and_then(|end| end.checked_sub(certain));
        self.held.drain(..certain);
    }

    #[cfg(test)]
    pub(super) fn held_back(&self) -> usize {
        self.held.len()
    }
}
