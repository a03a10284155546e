//! Statements, and columns as agora's own types.

use std::error::Error;
use std::str::FromStr;

use agora_core::Timestamp;
use agora_core::provider::ledger::StateWord;
use rusqlite::types::Type;
use rusqlite::{CachedStatement, Connection, Row};

/// Prepares a statement, or finds it prepared. Every statement on the big tables goes through here, and the test of their plans
/// sees it.
pub(super) fn prepare<'c>(
    connection: &'c Connection,
    sql: &str,
) -> Result<CachedStatement<'c>, rusqlite::Error> {
    #[cfg(test)]
    seen::note(sql);
    connection.prepare_cached(sql)
}

/// Reads a text that parses: an id, a name, a hash.
pub(super) fn parsed<T>(row: &Row<'_>, column: usize) -> Result<T, rusqlite::Error>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    let text = row.get_ref(column)?.as_str()?;
    text.parse().map_err(|error| malformed(column, error))
}

/// Reads a number that counts something.
pub(super) fn count(row: &Row<'_>, column: usize) -> Result<u64, rusqlite::Error> {
    let stored: i64 = row.get(column)?;
    u64::try_from(stored).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, stored))
}

pub(super) fn moment(row: &Row<'_>, column: usize) -> Result<Timestamp, rusqlite::Error> {
    row.get(column).map(Timestamp::from_millis)
}

pub(super) fn moment_if(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>, rusqlite::Error> {
    row.get::<_, Option<i64>>(column).map(|millis| millis.map(Timestamp::from_millis))
}

/// Says that a column holds what agora never puts there.
pub(super) fn malformed(column: usize, error: impl Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

/// Returns the number of a state, which is its place among all.
pub(super) fn number(state: StateWord) -> i64 {
    match state {
        StateWord::Accepted => 0,
        StateWord::Running => 1,
        StateWord::Finished => 2,
        StateWord::NeedsInput => 3,
        StateWord::Failed => 4,
        StateWord::Cancelled => 5,
    }
}

pub(super) fn state(row: &Row<'_>, column: usize) -> Result<StateWord, rusqlite::Error> {
    let stored: i64 = row.get(column)?;
    let found = StateWord::ALL.into_iter().find(|state| number(*state) == stored);
    found.ok_or(rusqlite::Error::IntegralValueOutOfRange(column, stored))
}

/// Returns a limit as SQLite counts.
pub(super) fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

/// Returns a count as SQLite counts. A thread never has more entries than that.
pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Every statement that the tests of this crate prepared.
#[cfg(test)]
pub(super) mod seen {
    use std::collections::BTreeSet;
    use std::sync::{Mutex, PoisonError};

    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

    pub(super) fn note(sql: &str) {
        SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert(sql.to_owned());
    }

    pub(in crate::ledger) fn all() -> BTreeSet<String> {
        SEEN.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
