//! What is not as it was recorded: found, and taken out when its owner gives it up.
//!
//! A thread whose entries cannot be read has no state, so nothing can be recorded of it, not even its end. It keeps nobody from
//! the others, and somebody who gives it up must not need a tool of their own to get rid of it.

use agora_core::job::Job;
use agora_core::provider::ledger::{Checked, LedgerError};
use agora_core::{DispatchId, ThreadId};
use rusqlite::Connection;

use super::fault::Fault;
use super::past::{self, Past};
use super::row::{limit, parsed, prepare};
use super::{agenda, papers};
use crate::home::Home;

/// Where the record of a thread is kept that was taken out.
const KEPT: &str = "damaged";

/// Looks at every open thread, and at the newest others.
pub(super) fn check(connection: &Connection, newest: usize) -> Result<Checked, Fault> {
    // Not among the plans that are looked at: this one is to see much.
    let mut all = connection.prepare(
        "SELECT thread FROM (SELECT thread FROM entries WHERE seq = 1 ORDER BY place DESC LIMIT ?1)
         UNION SELECT thread FROM questions UNION SELECT thread FROM threads WHERE carried = 1 ORDER BY thread",
    )?;
    let threads = all.query_map([limit(newest)], |row| parsed::<ThreadId>(row, 0))?;
    let mut checked = Checked::default();
    for thread in threads {
        let thread = thread?;
        checked.threads += 1;
        // Whether it can be read is what matters to its owner; that it was altered is said of what can.
        match readable(connection, &thread).and_then(|()| past::check(connection, &thread)) {
            Ok(()) => {}
            Err(Fault::Refused(LedgerError::ThreadDamaged { what, .. })) => {
                checked.damaged.push((thread, what));
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(checked)
}

/// Takes a thread out that cannot be read, when what is left of its record is kept.
pub(super) fn discard(
    connection: &Connection,
    home: &Home,
    thread: &ThreadId,
) -> Result<Option<Vec<Job>>, Fault> {
    if past::unless_damaged(readable(connection, thread))?.is_some() {
        return Ok(None);
    }
    let dir = home.root().join(KEPT);
    home.make_dir(&dir).map_err(LedgerError::Unavailable)?;
    let file = dir.join(format!("{thread}.jsonl"));
    home.replace(&file, &record(connection, thread)?).map_err(LedgerError::Unavailable)?;
    let mut readable = Vec::new();
    for id in dispatches(connection, thread)? {
        readable.extend(past::unless_damaged(papers::read(connection, &id))?.flatten());
    }
    agenda::remove(connection, thread)?;
    Ok(Some(readable.into_iter().map(|filed| filed.job).collect()))
}

/// Returns the thread's entries and jobs as they are stored, a line each.
fn record(connection: &Connection, thread: &ThreadId) -> Result<Vec<u8>, Fault> {
    let mut lines = Vec::new();
    for sql in [
        "SELECT body FROM entries WHERE thread = ?1 ORDER BY seq",
        "SELECT CAST(job AS BLOB) FROM papers WHERE dispatch IN (SELECT dispatch FROM dispatches WHERE thread = ?1)",
    ] {
        let mut statement = prepare(connection, sql)?;
        let mut rows = statement.query([thread.as_str()])?;
        while let Some(row) = rows.next()? {
            lines.extend_from_slice(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?);
            lines.push(b'\n');
        }
    }
    Ok(lines)
}

/// Reads everything of a thread, as everybody would who asks for it.
fn readable(connection: &Connection, thread: &ThreadId) -> Result<(), Fault> {
    Past::read(connection, thread)?;
    dispatches(connection, thread)?.iter().try_for_each(|id| papers::read(connection, id).map(drop))
}

fn dispatches(connection: &Connection, thread: &ThreadId) -> Result<Vec<DispatchId>, Fault> {
    let mut all = prepare(connection, "SELECT dispatch FROM dispatches WHERE thread = ?1 ORDER BY place")?;
    let ids = all.query_map([thread.as_str()], |row| parsed(row, 0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}
