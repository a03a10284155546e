//! The only place that reads the clock: xtask measures real time, which nothing can pause.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How often [`poll`] asks. Short beside what it waits for (a daemon's start is about a second).
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Real time since it was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "this module is the one clock of xtask")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Asks until there is an answer. `None` when none came before the limit.
pub(crate) fn poll<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let stopwatch = Stopwatch::start();
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if stopwatch.elapsed() > limit {
            return None;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, poll};

    #[test]
    fn polling_ends_with_an_answer_or_at_the_limit() {
        let mut asked = 0;
        let answer = poll(Duration::from_secs(60), || {
            asked += 1;
            (asked == 3).then_some(asked)
        });
        assert_eq!(answer, Some(3));
        assert_eq!(poll(Duration::ZERO, || None::<()>), None);
    }
}
