//! A clock that a test sets.

use std::sync::atomic::{AtomicI64, Ordering};

use agora_core::time::{Clock, Timestamp};

/// Stands still until it is told otherwise.
#[derive(Debug)]
pub struct SetClock(AtomicI64);

impl SetClock {
    pub fn at(text: &str) -> Self {
        Self(AtomicI64::new(text.parse::<Timestamp>().unwrap().as_millis()))
    }

    /// Moves the clock, also backwards.
    pub fn set(&self, text: &str) {
        self.0.store(text.parse::<Timestamp>().unwrap().as_millis(), Ordering::SeqCst);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}
