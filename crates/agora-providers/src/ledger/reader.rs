//! The connection that only reads. It never waits for a writer, nor a writer for it.

use std::sync::Mutex;

use agora_core::provider::ledger::LedgerError;
use rusqlite::Connection;

use super::fault::Fault;
use super::files::Files;
use super::row::prepare;

#[derive(Debug)]
pub(super) struct Reader {
    files: Files,
    connection: Mutex<Option<Connection>>,
}

impl Reader {
    /// Opens what is there, so that a ledger that cannot be read is refused at once.
    pub(super) fn open(files: Files) -> Result<Self, LedgerError> {
        let connection = Mutex::new(files.open_to_read()?);
        Ok(Self { files, connection })
    }

    /// Reads from one state of the ledger. A home in which nothing was recorded reads as empty.
    ///
    /// Right here, on whichever event loop asks: it takes some ten microseconds, which is less than to have another thread do it.
    pub(super) fn read<T: Default>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, LedgerError> {
        let mut open = self.connection.lock().unwrap_or_else(|poisoned| {
            // Whoever panicked left it in the middle of something.
            self.connection.clear_poison();
            let mut open = poisoned.into_inner();
            *open = None;
            open
        });
        if open.is_none() {
            *open = self.files.open_to_read()?;
        }
        let Some(connection) = &*open else { return Ok(T::default()) };
        let snapshot = || -> Result<T, Fault> {
            prepare(connection, "BEGIN")?.execute([])?;
            let answer = work(connection);
            prepare(connection, "COMMIT")?.execute([])?;
            answer
        };
        snapshot().map_err(|fault| fault.at("read", &self.files.ledger))
    }
}
