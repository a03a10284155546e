//! The connection that only reads. It never waits for a writer, nor a writer for it.

use std::sync::{Arc, Mutex, PoisonError};

use agora_core::provider::ledger::LedgerError;
use rusqlite::Connection;

use super::fault::Fault;
use super::files::Files;
use crate::blocking::blocking;

#[derive(Clone, Debug)]
pub(super) struct Reader {
    files: Files,
    connection: Arc<Mutex<Option<Connection>>>,
}

impl Reader {
    /// Opens what is there, so that a ledger that cannot be read is refused at once.
    pub(super) fn open(files: Files) -> Result<Self, LedgerError> {
        let connection = Arc::new(Mutex::new(files.open_to_read()?));
        Ok(Self { files, connection })
    }

    /// Reads from one state of the ledger. A home in which nothing was recorded reads as empty.
    pub(super) async fn read<T: Default + Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let this = self.clone();
        blocking(move || this.read_here(work)).await
    }

    fn read_here<T: Default>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, LedgerError> {
        let mut open = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_none() {
            *open = self.files.open_to_read()?;
        }
        let Some(connection) = &*open else { return Ok(T::default()) };
        let snapshot = || {
            let transaction = connection.unchecked_transaction()?;
            let answer = work(&transaction)?;
            transaction.commit()?;
            Ok(answer)
        };
        snapshot().map_err(|fault: Fault| fault.at("read", &self.files.ledger))
    }
}
