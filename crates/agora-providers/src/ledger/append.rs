//! Recording what happened.

use agora_core::Timestamp;
use agora_core::entry::{Entry, Happening};
use agora_core::provider::ledger::{Append, LedgerError};
use agora_core::state::Thread;
use rusqlite::{Connection, params};

use super::fault::Fault;
use super::past::{Past, link};
use super::row::{prepare, signed};
use super::{papers, standing};

/// Records all of it, or fails; the caller then undoes what was written.
pub(super) fn append(connection: &Connection, append: &Append, now: Timestamp) -> Result<Vec<Entry>, Fault> {
    let past = Past::read(connection, &append.thread_id)?;
    if past.seen != append.seen {
        return Err(LedgerError::Moved { now: past.seen }.into());
    }
    // The clock may be set back; a thread's time is not.
    let now = past.moved_at().map_or(now, |last| last.max(now));
    let Some(thread) = fold(past.thread, &append.what)? else { return Ok(Vec::new()) };
    papers::check(connection, append)?;
    let new = store(connection, append, past.tip, now)?;
    papers::file(connection, append, now)?;
    let seen = append.seen + new.len() as u64;
    standing::settle(connection, &append.thread_id, &thread, seen, &new)?;
    papers::claim(connection, append)?;
    Ok(new.into_iter().map(|(_, entry)| entry).collect())
}

fn fold(mut thread: Option<Thread>, what: &[Happening]) -> Result<Option<Thread>, LedgerError> {
    for what in what {
        let next = match thread {
            None => Thread::begin(what),
            Some(thread) => thread.after(what),
        };
        thread = Some(next.map_err(LedgerError::Illegal)?);
    }
    Ok(thread)
}

fn store(
    connection: &Connection,
    append: &Append,
    mut tip: Vec<u8>,
    now: Timestamp,
) -> Result<Vec<(u64, Entry)>, Fault> {
    let mut insert = prepare(
        connection,
        "INSERT INTO entries (thread, seq, namespace, body, hash) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let mut new = Vec::with_capacity(append.what.len());
    for (what, seq) in append.what.iter().zip(append.seen + 1..) {
        let entry = Entry {
            seq,
            at: now,
            namespace: append.namespace.clone(),
            thread_id: append.thread_id.clone(),
            what: what.clone(),
        };
        let body = entry.encode().map_err(LedgerError::Unreadable)?;
        tip = link(&tip, &body).to_vec();
        let (thread, namespace) = (append.thread_id.as_str(), append.namespace.as_str());
        let place = insert.insert(params![thread, signed(seq), namespace, body, tip])?;
        new.push((u64::try_from(place).unwrap_or_default(), entry));
    }
    if append.what.iter().any(ends_a_dispatch) {
        prepare(connection, "DELETE FROM wishes WHERE thread = ?1")?.execute([append.thread_id.as_str()])?;
    }
    Ok(new)
}

fn ends_a_dispatch(what: &Happening) -> bool {
    match what {
        Happening::Event(event) => event.is_terminal(),
        Happening::Record(_) => false,
    }
}
