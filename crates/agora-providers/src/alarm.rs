//! Waking at a moment of the machine's clock.

use std::sync::Arc;
use std::time::Duration;

use agora_core::provider::alarm::Alarm;
use agora_core::time::{Clock, Timestamp};
use async_trait::async_trait;

/// How long to sleep before the clock is looked at again: machines sleep, and clocks are set.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// Wakes by a clock. Only for a runtime that has its time enabled.
#[derive(Clone, Debug)]
pub struct SystemAlarm {
    clock: Arc<dyn Clock>,
}

impl SystemAlarm {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock }
    }
}

#[async_trait]
impl Alarm for SystemAlarm {
    async fn at(&self, moment: Timestamp) {
        loop {
            let left = moment.as_millis().saturating_sub(self.clock.now().as_millis());
            let Some(left) = u64::try_from(left).ok().filter(|left| *left > 0) else { return };
            tokio::time::sleep(Duration::from_millis(left).min(LONGEST_SLEEP)).await;
        }
    }
}
