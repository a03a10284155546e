//! What goes wrong inside, until the face says it with the file's name.

use std::path::Path;

use agora_core::ThreadId;
use agora_core::provider::ledger::LedgerError;
use agora_core::provider::{Outage, Unavailable};
use rusqlite::ErrorCode;

use crate::home::Home;

/// Why a piece of work on the ledger was not done.
#[derive(Debug)]
pub(super) enum Fault {
    /// The ledger works, and says no.
    Refused(LedgerError),
    /// SQLite could not.
    Sqlite(rusqlite::Error),
}

impl Fault {
    /// Says that something in the ledger is not as agora wrote it.
    pub(super) fn damaged(what: impl Into<String>) -> Self {
        Self::Refused(LedgerError::Damaged(what.into()))
    }

    /// Says that what is recorded of one thread is not as agora wrote it.
    pub(super) fn thread_damaged(thread: &ThreadId, what: impl Into<String>) -> Self {
        Self::Refused(LedgerError::ThreadDamaged { thread_id: thread.clone(), what: what.into() })
    }

    /// Says that something cannot be written down. What agora made itself always can.
    pub(super) fn unwritable(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Sqlite(rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
    }

    /// Says it to the caller, with the file that it happened to.
    pub(super) fn at(self, doing: &str, path: &Path) -> LedgerError {
        let error = match self {
            Self::Refused(error) => return error,
            Self::Sqlite(error) => error,
        };
        let shown = Home::shown(path);
        match verdict(&error) {
            Verdict::Damaged => LedgerError::Damaged(format!("`{shown}`: {error}")),
            Verdict::Out(outage) => LedgerError::Unavailable(Unavailable {
                doing: format!("{doing} `{shown}`"),
                outage,
                source: Box::new(error),
            }),
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<LedgerError> for Fault {
    fn from(error: LedgerError) -> Self {
        Self::Refused(error)
    }
}

enum Verdict {
    Damaged,
    Out(Outage),
}

fn verdict(error: &rusqlite::Error) -> Verdict {
    let code = match error {
        // A column that holds what agora never puts there.
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..) => return Verdict::Damaged,
        other => other.sqlite_error_code(),
    };
    match code {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Verdict::Damaged,
        Some(ErrorCode::DiskFull) => Verdict::Out(Outage::Full),
        Some(ErrorCode::ReadOnly) => Verdict::Out(Outage::ReadOnly),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Verdict::Out(Outage::Denied),
        Some(_) | None => Verdict::Out(Outage::Failed),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn what_sqlite_says_reaches_the_caller_as_what_can_be_done_about_it() {
        let said = |code: i32| {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            Fault::Sqlite(error).at("write", Path::new("ledger.sqlite"))
        };
        for (code, expected) in [
            (ffi::SQLITE_FULL, Outage::Full),
            (ffi::SQLITE_READONLY, Outage::ReadOnly),
            (ffi::SQLITE_READONLY_DBMOVED, Outage::ReadOnly),
            (ffi::SQLITE_CANTOPEN, Outage::Denied),
            (ffi::SQLITE_PERM, Outage::Denied),
            (ffi::SQLITE_BUSY, Outage::Failed),
            (ffi::SQLITE_IOERR_READ, Outage::Failed),
        ] {
            match said(code) {
                LedgerError::Unavailable(unavailable) => {
                    assert_eq!(unavailable.outage, expected, "{code}");
                    assert_eq!(unavailable.to_string(), "cannot write `ledger.sqlite`");
                }
                other => panic!("{code}: {other:?}"),
            }
        }
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB, ffi::SQLITE_CORRUPT_INDEX] {
            assert!(matches!(said(code), LedgerError::Damaged(_)), "{code}");
        }
    }
}
