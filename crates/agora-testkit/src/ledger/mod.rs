//! A ledger in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use agora_core::entry::{Entry, Happening};
use agora_core::provider::ledger::{Ledger, LedgerError};
use agora_core::state::Thread;
use agora_core::time::Clock;
use agora_core::{Namespace, ThreadId};
use async_trait::async_trait;

/// Forgets everything when it is dropped, and is a ledger in every other way.
#[derive(Debug)]
pub struct MemoryLedger {
    clock: Arc<dyn Clock>,
    threads: Mutex<HashMap<ThreadId, Recorded>>,
}

/// A thread's entries, and what they fold to.
type Recorded = (Option<Thread>, Vec<Entry>);

impl MemoryLedger {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, threads: Mutex::default() }
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn append(
        &self,
        namespace: &Namespace,
        thread_id: &ThreadId,
        seen: u64,
        what: Vec<Happening>,
    ) -> Result<Vec<Entry>, LedgerError> {
        let mut threads = self.threads.lock().unwrap();
        let (mut thread, mut entries) = threads.get(thread_id).cloned().unwrap_or_default();
        let now = entries.len() as u64;
        if now != seen {
            return Err(LedgerError::Moved { now });
        }
        for (what, seq) in what.into_iter().zip(seen + 1..) {
            let next = match thread {
                None => Thread::begin(&what),
                Some(thread) => thread.after(&what),
            };
            thread = Some(next.map_err(LedgerError::Illegal)?);
            let (namespace, thread_id) = (namespace.clone(), thread_id.clone());
            entries.push(Entry { seq, at: self.clock.now(), namespace, thread_id, what });
        }
        let new = entries[usize::try_from(seen).unwrap()..].to_vec();
        threads.insert(thread_id.clone(), (thread, entries));
        Ok(new)
    }

    async fn read(&self, thread: &ThreadId, seen: u64, most: usize) -> Result<Vec<Entry>, LedgerError> {
        let threads = self.threads.lock().unwrap();
        let entries = threads.get(thread).map(|(_, entries)| entries.as_slice()).unwrap_or_default();
        Ok(entries.iter().skip(usize::try_from(seen).unwrap()).take(most).cloned().collect())
    }
}
