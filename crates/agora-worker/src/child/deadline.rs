//! Points in time that are only compared with now.

use std::time::{Duration, Instant};

/// When something must have happened; maybe never.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    /// A duration beyond what the clock can count is never.
    pub(super) fn after(duration: Duration) -> Self {
        Self(now().checked_add(duration))
    }

    pub(super) fn after_if_any(duration: Option<Duration>) -> Self {
        duration.map_or(Self(None), Self::after)
    }

    /// Returns how long it still is, `None` when it never comes.
    pub(super) fn left(self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(now()))
    }

    pub(super) fn passed(self) -> bool {
        self.left() == Some(Duration::ZERO)
    }
}

/// When something began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since(Instant);

impl Since {
    pub(super) fn now() -> Self {
        Self(now())
    }

    pub(super) fn elapsed(self) -> Duration {
        now().saturating_duration_since(self.0)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "real processes run in real time, and there is no runtime here"
)]
fn now() -> Instant {
    Instant::now()
}
