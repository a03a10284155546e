//! A look at how much there is, as quick as can be: nothing is written, made or waited for. For a shell's prompt.

use std::time::Duration;

use agora_core::Namespace;
use agora_core::provider::ledger::{LedgerError, StateWord};
use rusqlite::{Connection, OpenFlags, params};

use super::fault::Fault;
use super::files::Files;
use super::row::{count, number, prepare};
use super::schema;
use crate::home::Home;

/// A prompt does not wait for a crashed process's journal to be read.
const BUSY: Duration = Duration::from_millis(20);
/// Nobody reads a number above this in a prompt, and to count on takes time.
const MOST: i64 = 1000;

/// How much there is in a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// Dispatches whose worker runs or is being started.
    pub running: u64,
    /// Dispatches that wait for room.
    pub queued: u64,
    /// Questions that are open.
    pub questions: u64,
}

/// Looks. A home that is not there, or that no agora of this version has written to, has nothing.
pub fn glance(home: &Home, namespace: &Namespace) -> Result<Glance, LedgerError> {
    let files = Files::new(home.clone());
    if !files.ledger.exists() {
        return Ok(Glance::default());
    }
    let look = || -> Result<Glance, Fault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&files.ledger, flags)?;
        connection.busy_timeout(BUSY)?;
        if schema::version(&connection)? != schema::CURRENT {
            return Ok(Glance::default());
        }
        counted(&connection, namespace)
    };
    look().map_err(|fault| fault.at("read", &files.ledger))
}

fn counted(connection: &Connection, namespace: &Namespace) -> Result<Glance, Fault> {
    let live = |state: StateWord, claimed: bool| -> Result<u64, Fault> {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM dispatches
                   WHERE namespace = ?1 AND state = ?2 AND claimed = ?3 LIMIT ?4)";
        let bound = params![namespace.as_str(), number(state), claimed, MOST];
        Ok(prepare(connection, sql)?.query_row(bound, |row| count(row, 0))?)
    };
    let sql = "SELECT count(*) FROM (SELECT 1 FROM questions WHERE open = 1 AND namespace = ?1 LIMIT ?2)";
    let questions =
        prepare(connection, sql)?.query_row(params![namespace.as_str(), MOST], |row| count(row, 0))?;
    Ok(Glance {
        running: live(StateWord::Running, true)? + live(StateWord::Accepted, true)?,
        queued: live(StateWord::Accepted, false)?,
        questions,
    })
}
