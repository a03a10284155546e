//! What is to be told to somebody outside.

use agora_core::Timestamp;
use agora_core::provider::ledger::Outgoing;
use rusqlite::{Connection, params};

use super::fault::Fault;
use super::row::{count, limit, parsed, prepare, signed};

pub(super) fn outgoing(connection: &Connection, by: Timestamp, most: usize) -> Result<Vec<Outgoing>, Fault> {
    // Chosen by the index alone; the bodies of those that wait longer are not touched.
    let mut due = prepare(
        connection,
        "SELECT id, thread, destination, body, tries FROM outbox
         WHERE id IN (SELECT id FROM outbox WHERE due_at <= ?1 ORDER BY +id LIMIT ?2) ORDER BY id",
    )?;
    let due = due.query_map(params![by.as_millis(), limit(most)], |row| {
        Ok(Outgoing {
            id: count(row, 0)?,
            thread_id: parsed(row, 1)?,
            destination: row.get(2)?,
            body: row.get(3)?,
            tries: row.get(4)?,
        })
    })?;
    Ok(due.collect::<Result<_, _>>()?)
}

pub(super) fn told(connection: &Connection, id: u64, again_at: Option<Timestamp>) -> Result<(), Fault> {
    let id = signed(id);
    match again_at {
        Some(at) => prepare(connection, "UPDATE outbox SET tries = tries + 1, due_at = ?2 WHERE id = ?1")?
            .execute([id, at.as_millis()])?,
        None => prepare(connection, "DELETE FROM outbox WHERE id = ?1")?.execute([id])?,
    };
    Ok(())
}
