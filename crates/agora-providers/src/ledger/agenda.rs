//! Which threads somebody has to do something about, and when.

use agora_core::{ThreadId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Fault;
use super::row::{limit, moment, parsed, prepare};

pub(super) fn carried(connection: &Connection) -> Result<Vec<ThreadId>, Fault> {
    let mut carried = prepare(connection, "SELECT thread FROM threads WHERE carried = 1 ORDER BY thread")?;
    let carried = carried.query_map([], |row| parsed(row, 0))?;
    Ok(carried.collect::<Result<_, _>>()?)
}

pub(super) fn due(connection: &Connection, by: Timestamp) -> Result<Vec<ThreadId>, Fault> {
    let mut due =
        prepare(connection, "SELECT thread FROM threads WHERE due_at <= ?1 ORDER BY due_at, thread")?;
    let due = due.query_map([by.as_millis()], |row| parsed(row, 0))?;
    Ok(due.collect::<Result<_, _>>()?)
}

pub(super) fn next_due(connection: &Connection) -> Result<Option<Timestamp>, Fault> {
    let mut next =
        prepare(connection, "SELECT due_at FROM threads WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1")?;
    Ok(next.query_row([], |row| moment(row, 0)).optional()?)
}

pub(super) fn expired(connection: &Connection, by: Timestamp, most: usize) -> Result<Vec<ThreadId>, Fault> {
    let mut expired = prepare(
        connection,
        "SELECT thread FROM threads WHERE expires_at <= ?1 ORDER BY ended_at, thread LIMIT ?2",
    )?;
    let expired = expired.query_map(params![by.as_millis(), limit(most)], |row| parsed(row, 0))?;
    Ok(expired.collect::<Result<_, _>>()?)
}

pub(super) fn forget(connection: &Connection, thread: &ThreadId) -> Result<bool, Fault> {
    let mut ended = prepare(connection, "SELECT 1 FROM threads WHERE thread = ?1 AND ended_at IS NOT NULL")?;
    if !ended.exists([thread.as_str()])? {
        return Ok(false);
    }
    remove(connection, thread)?;
    Ok(true)
}

/// Removes every row of a thread.
pub(super) fn remove(connection: &Connection, thread: &ThreadId) -> Result<(), Fault> {
    let thread = [thread.as_str()];
    // Labels go with their dispatches; what is found by a dispatch goes before it.
    for sql in [
        "DELETE FROM keys WHERE dispatch IN (SELECT dispatch FROM dispatches WHERE thread = ?1)",
        "DELETE FROM papers WHERE dispatch IN (SELECT dispatch FROM dispatches WHERE thread = ?1)",
        "DELETE FROM dispatches WHERE thread = ?1",
        "DELETE FROM outbox WHERE thread = ?1",
        "DELETE FROM wishes WHERE thread = ?1",
        "DELETE FROM questions WHERE thread = ?1",
        "DELETE FROM entries WHERE thread = ?1",
        "DELETE FROM threads WHERE thread = ?1",
    ] {
        prepare(connection, sql)?.execute(thread)?;
    }
    Ok(())
}
