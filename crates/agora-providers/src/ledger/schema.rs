//! The tables, and the steps that lead to them from every earlier version.

use std::io;

use agora_core::provider::ledger::LedgerError;
use agora_core::provider::{Outage, Unavailable};
use rusqlite::Connection;

use super::fault::Fault;
use super::standing;

/// The step to version 1, to version 2, and so on. A step that was released never changes.
const STEPS: [&str; 3] =
    [include_str!("schema_1.sql"), include_str!("schema_2.sql"), include_str!("schema_3.sql")];

/// The version that this agora reads and writes.
pub(super) const CURRENT: usize = STEPS.len();

/// Each connection has its own, but for the journal's mode, which a ledger that was restored from a dump has lost. A ledger
/// that forgets after a power cut is none: `FULL`. Whoever opens it alone reads the whole journal first, so it is kept
/// short: a checkpoint after 256 pages, not after SQLite's 1000. What a write that goes with others would be undone with stays in memory:
/// else SQLite makes a file for it in the machine's directory for temporary files, in every second write of many.
const SETTINGS: &str = "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA journal_mode = WAL;
  PRAGMA wal_autocheckpoint = 256; PRAGMA temp_store = MEMORY;";

/// Returns the version of a ledger; 0 when nothing is in it.
pub(super) fn version(connection: &Connection) -> Result<usize, Fault> {
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    match usize::try_from(version) {
        Ok(version) if version <= CURRENT => Ok(version),
        Ok(_) | Err(_) => Err(Fault::Refused(newer(connection, version))),
    }
}

/// Makes the ledger what this agora needs. The caller has the lock.
pub(super) fn bring_up(connection: &Connection) -> Result<(), Fault> {
    let version = version(connection)?;
    connection.execute_batch(SETTINGS)?;
    if version == CURRENT {
        return Ok(());
    }
    let steps = STEPS[version..].concat();
    let steps = format!("BEGIN IMMEDIATE;\n{steps}PRAGMA user_version = {CURRENT};");
    let undo = || {
        // The connection is dropped with the transaction, if this does not work either.
        let _ = connection.execute_batch("ROLLBACK");
    };
    connection.execute_batch(&steps).inspect_err(|_| undo())?;
    // What is only a cache follows from the rest, also where a step made it anew.
    standing::rebuild(connection).inspect_err(|_| undo())?;
    connection.execute_batch("COMMIT").inspect_err(|_| undo())?;
    Ok(())
}

fn newer(connection: &Connection, version: i64) -> LedgerError {
    let why = format!("it was made by a newer agora: its schema is {version}, this agora knows {CURRENT}");
    LedgerError::Unavailable(Unavailable {
        doing: format!("use `{}`", connection.path().unwrap_or("ledger.sqlite")),
        outage: Outage::Failed,
        source: Box::new(io::Error::other(why)),
    })
}
