//! Says what happens: numbers, dates and signs each line, and hides secrets in it.
//!
//! The lines are written by a thread of their own. A reader that is slow slows nothing but itself, one that is gone
//! changes nothing, and at the end the worker waits for as long as somebody reads on.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use agora_core::time::Clock;
use agora_core::wire::line::{EventKey, Line, LineError, Said};

use crate::redact::Redactor;
use crate::redact_said::redacted;

/// How long a reader may take for the next piece. Whoever does not read 64 KiB in that time does not read.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is written at once: as much as an empty pipe takes.
const PIECE: usize = 64 * 1024;

/// The worker's voice.
pub(crate) struct Teller {
    key: EventKey,
    redactor: Redactor,
    clock: Arc<dyn Clock>,
    seq: u64,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Teller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Teller").field("seq", &self.seq).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<Vec<u8>>,
    /// Pieces written so far, to see that the reader reads.
    pieces: u64,
    busy: bool,
    gone: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Teller {
    pub(crate) fn new(
        key: EventKey,
        redactor: Redactor,
        clock: Arc<dyn Clock>,
        out: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let writer = Arc::clone(&shared);
        thread::Builder::new().name("teller".into()).spawn(move || write_all(&writer, out))?;
        Ok(Self { key, redactor, clock, seq: 0, shared })
    }

    /// Makes the text of the next line, with its secrets hidden.
    pub(crate) fn line(&mut self, said: Said) -> Result<String, LineError> {
        self.seq += 1;
        self.numbered(self.seq, said)
    }

    /// Makes the text of what is stored and never said. Its number is none of the stream's, which has no gap: the one after the terminal
    /// line, which is still to come.
    pub(crate) fn aside(&self, said: Said) -> Result<String, LineError> {
        self.numbered(self.seq + 2, said)
    }

    fn numbered(&self, seq: u64, said: Said) -> Result<String, LineError> {
        let said = redacted(said, &self.redactor);
        Line { seq, at: self.clock.now(), said }.to_text(&self.key)
    }

    /// Says something.
    pub(crate) fn say(&mut self, said: Said) -> Result<(), LineError> {
        let text = self.line(said)?;
        self.say_text(text);
        Ok(())
    }

    /// Says a line that was made before.
    pub(crate) fn say_text(&self, mut text: String) {
        text.push('\n');
        let mut state = self.shared.lock();
        if !state.gone {
            state.waiting.push(text.into_bytes());
            self.shared.changed.notify_all();
        }
    }

    /// Returns when every line is with the reader, or the reader has stopped reading. Tells which.
    pub(crate) fn finish(self) -> bool {
        let mut state = self.shared.lock();
        let mut seen = state.pieces;
        while (state.busy || !state.waiting.is_empty()) && !state.gone {
            let (next, waited) =
                self.shared.changed.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            state = next;
            if waited.timed_out() && state.pieces == seen {
                return false;
            }
            seen = state.pieces;
        }
        !state.gone
    }
}

fn write_all(shared: &Shared, mut out: impl Write) {
    loop {
        let lines = {
            let mut state = shared.lock();
            state.busy = false;
            shared.changed.notify_all();
            while state.waiting.is_empty() {
                state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.busy = true;
            std::mem::take(&mut state.waiting)
        };
        for piece in lines.iter().flat_map(|line| line.chunks(PIECE)) {
            if out.write_all(piece).and_then(|()| out.flush()).is_err() {
                // Nobody listens. What matters is stored.
                let mut state = shared.lock();
                (state.gone, state.busy) = (true, false);
                shared.changed.notify_all();
                return;
            }
            shared.lock().pieces += 1;
            shared.changed.notify_all();
        }
    }
}
