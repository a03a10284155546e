//! How much there is. For a shell's prompt as quick as can be: nothing is written, made or waited for.

use std::time::Duration;

use agora_core::Namespace;
use agora_core::provider::ledger::{Allowance, Labelled, LedgerError, StateWord, Tally};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::fault::Fault;
use super::files::Files;
use super::row::{count, moment_if, number, prepare};
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
        counted(&connection, namespace, MOST)
    };
    look().map_err(|fault| fault.at("read", &files.ledger))
}

/// Counts everything, however much it is.
pub(super) fn tally(connection: &Connection, namespace: &Namespace) -> Result<Tally, Fault> {
    let Glance { running, queued, questions } = counted(connection, namespace, i64::MAX)?;
    // When a question was asked is when the dispatch ended that asked it, so that none is read.
    let sql = "SELECT d.ended_at FROM questions q CROSS JOIN dispatches d ON d.dispatch = q.dispatch
               WHERE q.open = 1 AND q.namespace = ?1 ORDER BY q.place LIMIT 1";
    let oldest =
        prepare(connection, sql)?.query_row([namespace.as_str()], |row| moment_if(row, 0)).optional()?;
    Ok(Tally { running, queued, questions, oldest_asked_at: oldest.flatten() })
}

/// Looks whether as many more may be accepted as are asked for. Counts no further than to what is too much, in an index.
pub(super) fn allows(connection: &Connection, allowance: &Allowance) -> Result<(), Fault> {
    let number = |sql: &str, most: u32| -> Result<u64, Fault> {
        let bound = params![allowance.label.as_str(), i64::from(most) + 1];
        Ok(prepare(connection, sql)?.query_row(bound, |row| count(row, 0))?)
    };
    let live = "SELECT count(*) FROM (SELECT 1 FROM labels WHERE label = ?1 AND state < 2 LIMIT ?2)";
    let all = "SELECT count(*) FROM (SELECT 1 FROM labels WHERE label = ?1 LIMIT ?2)";
    let (live, all) = (number(live, allowance.most_live)?, number(all, allowance.most)?);
    Ok(allowance.allows(Labelled { live, all })?)
}

/// Counts each thing up to `most`.
fn counted(connection: &Connection, namespace: &Namespace, most: i64) -> Result<Glance, Fault> {
    let live = |state: StateWord, claimed: bool| -> Result<u64, Fault> {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM dispatches
                   WHERE namespace = ?1 AND state = ?2 AND claimed = ?3 LIMIT ?4)";
        let bound = params![namespace.as_str(), number(state), claimed, most];
        Ok(prepare(connection, sql)?.query_row(bound, |row| count(row, 0))?)
    };
    let sql = "SELECT count(*) FROM (SELECT 1 FROM questions WHERE open = 1 AND namespace = ?1 LIMIT ?2)";
    let questions =
        prepare(connection, sql)?.query_row(params![namespace.as_str(), most], |row| count(row, 0))?;
    Ok(Glance {
        running: live(StateWord::Running, true)?
            + live(StateWord::Running, false)?
            + live(StateWord::Accepted, true)?,
        queued: live(StateWord::Accepted, false)?,
        questions,
    })
}
