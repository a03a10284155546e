//! Who carries a thread.

use std::fmt;

use async_trait::async_trait;

use super::Unavailable;
use crate::id::ThreadId;

/// The right to move a thread on. Given back when it is dropped, and when the process that has it dies, however it dies.
pub trait Lease: fmt::Debug + Send + Sync {}

/// Hands out leases.
///
/// Every implementation keeps true: of all processes at most one has the lease of a thread; whoever waits for one gets it
/// when the holder is gone, without asking again and again. A lease only says whose turn it is: what may happen to a
/// thread is for the ledger to say, which refuses the second of two that both believe in their turn.
#[async_trait]
pub trait Leases: fmt::Debug + Send + Sync {
    /// Takes a lease that nobody has. `None`: somebody has it.
    async fn try_take(&self, thread: &ThreadId) -> Result<Option<Box<dyn Lease>>, Unavailable>;

    /// Waits for a lease, and takes it.
    async fn take(&self, thread: &ThreadId) -> Result<Box<dyn Lease>, Unavailable>;

    /// Returns the threads whose lease somebody has, and perhaps those whose lease somebody had and did not give back, because
    /// the process died. Taking such a lease and giving it back ends that.
    async fn list(&self) -> Result<Vec<ThreadId>, Unavailable>;
}
