//! The durable, ordered record of what happened.

use std::fmt;

use async_trait::async_trait;

use super::Unavailable;
use crate::entry::{Entry, Happening};
use crate::id::ThreadId;
use crate::name::Namespace;
use crate::state::Illegal;

/// Says why something was not recorded or could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Somebody else recorded something first; fold it and decide again.
    #[error("the thread has moved on to entry {now}")]
    Moved { now: u64 },
    /// It cannot have happened to the thread in its state.
    #[error("that cannot happen to the thread now")]
    Illegal(#[source] Illegal),
    #[error("the ledger is damaged: {0}")]
    Damaged(String),
    #[error(transparent)]
    Unavailable(Unavailable),
}

/// Records what happens to threads.
///
/// Every implementation keeps true: entries are numbered from 1 within a thread, without gaps; an append is all or
/// nothing and durable when it returns; nothing is recorded that [`crate::state::Thread::after`] refuses; of several
/// appends with the same expectation one succeeds.
#[async_trait]
pub trait Ledger: fmt::Debug + Send + Sync {
    /// Records what happened after exactly `seen` entries of the thread, numbers and dates it.
    async fn append(
        &self,
        namespace: &Namespace,
        thread: &ThreadId,
        seen: u64,
        what: Vec<Happening>,
    ) -> Result<Vec<Entry>, LedgerError>;

    /// Returns up to `most` entries of a thread after the first `seen`, in order; none for an unknown thread.
    async fn read(&self, thread: &ThreadId, seen: u64, most: usize) -> Result<Vec<Entry>, LedgerError>;
}
