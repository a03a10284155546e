//! What is recorded of a thread, folded, and the chain of hashes that holds it together.

use agora_core::entry::Entry;
use agora_core::provider::ledger::LedgerError;
use agora_core::state::Thread;
use agora_core::{ThreadId, Timestamp};
use rusqlite::Connection;
use sha2::{Digest, Sha256};

use super::fault::Fault;
use super::row::{count, prepare};

const READ: &str = "SELECT place, seq, body, hash FROM entries WHERE thread = ?1 ORDER BY seq";

/// A thread as far as it is recorded.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) seen: u64,
    /// The last entry's hash; empty before the first.
    pub(super) tip: Vec<u8>,
    /// Those of a kind that this agora knows, each with its place.
    pub(super) entries: Vec<(u64, Entry)>,
    /// `None` before the first entry.
    pub(super) thread: Option<Thread>,
}

impl Past {
    pub(super) fn read(connection: &Connection, id: &ThreadId) -> Result<Self, Fault> {
        let mut past = Self::default();
        let mut statement = prepare(connection, READ)?;
        let mut rows = statement.query([id.as_str()])?;
        while let Some(row) = rows.next()? {
            past.seen = count(row, 1)?;
            past.tip.clear();
            past.tip.extend_from_slice(row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?);
            let body = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
            let Some(entry) = decode(id, past.seen, body)? else { continue };
            let next = match past.thread.take() {
                None => Thread::begin(&entry.what),
                Some(thread) => thread.after(&entry.what),
            };
            let next = next.map_err(|illegal| {
                let what = format!("entry {} cannot follow those before it: {illegal}", entry.seq);
                Fault::thread_damaged(id, what)
            })?;
            past.thread = Some(next);
            past.entries.push((count(row, 0)?, entry));
        }
        Ok(past)
    }

    pub(super) fn moved_at(&self) -> Option<Timestamp> {
        self.entries.last().map(|(_, entry)| entry.at)
    }
}

/// Reads an entry as it is stored. `None`: of a kind that this agora does not know, which everybody skips.
pub(super) fn decode(thread: &ThreadId, seq: u64, body: &[u8]) -> Result<Option<Entry>, Fault> {
    Entry::decode(body).map_err(|error| Fault::thread_damaged(thread, format!("entry {seq}: {error}")))
}

/// Returns what was read, or nothing where one thread is damaged: that is told to whoever asks for this thread.
pub(super) fn unless_damaged<T>(read: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Fault::Refused(LedgerError::ThreadDamaged { .. })) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Returns the hash of an entry that follows one with that hash.
pub(super) fn link(before: &[u8], body: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(before).chain_update(body).finalize().into()
}

/// Computes the chain again, and says where it breaks.
pub(super) fn check(connection: &Connection, thread: &ThreadId) -> Result<(), Fault> {
    let mut statement = prepare(connection, READ)?;
    let mut rows = statement.query([thread.as_str()])?;
    let (mut before, mut expected) = (Vec::new(), 1);
    while let Some(row) = rows.next()? {
        let (seq, body): (_, Vec<u8>) = (count(row, 1)?, row.get(2)?);
        if seq != expected {
            return Err(Fault::thread_damaged(thread, format!("entry {expected} is missing")));
        }
        let hash: Vec<u8> = row.get(3)?;
        if link(&before, &body)[..] != hash[..] {
            return Err(Fault::thread_damaged(thread, format!("its chain of hashes breaks at entry {seq}")));
        }
        (before, expected) = (hash, expected + 1);
    }
    let mut counted = prepare(connection, "SELECT seen FROM threads WHERE thread = ?1")?;
    let mut counted = counted.query([thread.as_str()])?;
    let seen = counted.next()?.map_or(Ok(0), |row| count(row, 0))?;
    if seen >= expected {
        return Err(Fault::thread_damaged(thread, format!("entry {expected} is missing")));
    }
    // Read as well, so that what is whole but not ours is found too.
    Past::read(connection, thread).map(drop)
}
