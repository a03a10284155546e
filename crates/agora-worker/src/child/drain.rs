//! Where a child's output goes.
//!
//! Every sink here has bounded memory, whatever it is given, and none fails: what goes wrong is remembered and asked for
//! afterwards. To read a sink when the child has ended, share it: an `Arc<Mutex<_>>` of a sink is a sink.

mod capped;
mod lines;
mod log_file;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

pub use capped::Capped;
pub use lines::{LONGEST_LINE, Lines};
pub use log_file::LogFile;

use crate::redact::{RedactingStream, Redactor};

/// Takes the output of a child, piece by piece, on the thread that reads it. While it works, the child may have to wait.
pub trait Sink: Send {
    /// Takes the next piece. Pieces are cut anywhere, also inside a character.
    fn take(&mut self, bytes: &[u8]);

    /// Comes once, after the last piece.
    fn end(&mut self) {}
}

impl<S: Sink + ?Sized> Sink for Box<S> {
    fn take(&mut self, bytes: &[u8]) {
        (**self).take(bytes);
    }

    fn end(&mut self) {
        (**self).end();
    }
}

impl<S: Sink> Sink for Arc<Mutex<S>> {
    fn take(&mut self, bytes: &[u8]) {
        self.lock().unwrap_or_else(PoisonError::into_inner).take(bytes);
    }

    fn end(&mut self) {
        self.lock().unwrap_or_else(PoisonError::into_inner).end();
    }
}

/// Drops everything.
#[derive(Clone, Copy, Debug)]
pub struct Nowhere;

impl Sink for Nowhere {
    fn take(&mut self, _: &[u8]) {}
}

/// Gives everything to several sinks, in this order.
pub struct Tee(pub Vec<Box<dyn Sink>>);

impl Sink for Tee {
    fn take(&mut self, bytes: &[u8]) {
        self.0.iter_mut().for_each(|sink| sink.take(bytes));
    }

    fn end(&mut self) {
        self.0.iter_mut().for_each(|sink| sink.end());
    }
}

impl fmt::Debug for Tee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tee({} sinks)", self.0.len())
    }
}

/// Hides secrets before another sink sees them.
pub struct Redacting<S> {
    /// `None` once it has ended.
    stream: Option<RedactingStream<'static>>,
    shown: Vec<u8>,
    inner: S,
}

impl<S: Sink> Redacting<S> {
    pub fn new(redactor: &Redactor, inner: S) -> Self {
        Self { stream: Some(redactor.clone().into_stream()), shown: Vec::new(), inner }
    }
}

impl<S: Sink> Sink for Redacting<S> {
    fn take(&mut self, bytes: &[u8]) {
        let Some(stream) = &mut self.stream else { return };
        stream.push(bytes, &mut self.shown);
        if !self.shown.is_empty() {
            self.inner.take(&self.shown);
            self.shown.clear();
        }
    }

    fn end(&mut self) {
        let Some(stream) = self.stream.take() else { return };
        stream.finish(&mut self.shown);
        if !self.shown.is_empty() {
            self.inner.take(&self.shown);
        }
        self.inner.end();
    }
}

impl<S> fmt::Debug for Redacting<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redacting")
    }
}

#[cfg(test)]
mod tests {
    use agora_core::secret::{SecretValue, ShortSecrets};

    use super::*;

    #[test]
    fn a_secret_in_two_pieces_reaches_no_sink_behind_the_redaction() {
        let secret = SecretValue::new("correct-horse".to_owned(), ShortSecrets::Refuse).unwrap();
        let redactor = Redactor::new([&secret]).unwrap();
        let (first, second) = (Arc::new(Mutex::new(Capped::new(99))), Arc::new(Mutex::new(Capped::new(99))));
        let both = Tee(vec![Box::new(Arc::clone(&first)), Box::new(Arc::clone(&second))]);
        let mut sink = Redacting::new(&redactor, both);
        sink.take(b"it is correct-");
        sink.take(b"horse, and then some");
        sink.end();
        for sink in [first, second] {
            assert_eq!(sink.lock().unwrap().text(), "it is <redacted:secret>, and then some");
        }
    }
}
