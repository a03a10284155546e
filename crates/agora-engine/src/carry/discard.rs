//! Giving up a thread that cannot be read. Nothing can be recorded of it, not even that it was cancelled, so it is taken out.

use std::time::Duration;

use agora_core::ThreadId;
use agora_core::job::Job;
use agora_core::provider::shelf::Clearing;

use super::{CarryError, Engine};

impl Engine {
    /// Takes a thread out that cannot be read, with everything of it that is there. False: it can be read, there is none, or
    /// somebody has its lease.
    pub async fn discard(&self, thread: &ThreadId) -> Result<bool, CarryError> {
        let lease = self.world().leases.try_take(thread).await.map_err(CarryError::Lease)?;
        if lease.is_none() {
            return Ok(false);
        }
        let jobs = self.world().ledger.discard(thread).await.map_err(CarryError::Ledger)?;
        let Some(jobs) = jobs else { return Ok(false) };
        for job in &jobs {
            if let Some(target) = self.target(&job.target) {
                let stopped = target.compute.stop(&job.dispatch_id, Duration::ZERO).await;
                stopped.map_err(CarryError::Compute)?;
            }
        }
        self.clear_all(thread, &jobs).await?;
        Ok(true)
    }

    /// Takes away what is there of a thread that the ledger does not know any more.
    pub(super) async fn clear_all(&self, thread: &ThreadId, jobs: &[Job]) -> Result<(), CarryError> {
        for job in jobs {
            let cleared = self.world().shelf.clear(&job.dispatch_id, Clearing::Everything).await;
            cleared.map_err(CarryError::Shelf)?;
            self.world().vault.forget(job).await.map_err(CarryError::Secret)?;
        }
        self.world().grounds.forget(thread).await.map_err(CarryError::Shelf)
    }
}
