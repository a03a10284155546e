//! Waiting for a moment.

use std::fmt;

use async_trait::async_trait;

use crate::time::Timestamp;

/// Wakes whoever waits for a moment. Apart from the clock, so that a test can let years pass.
#[async_trait]
pub trait Alarm: fmt::Debug + Send + Sync {
    /// Returns at the moment, or at once when it has passed.
    async fn at(&self, moment: Timestamp);
}
