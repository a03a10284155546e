//! Where the ledger lies, and how its files are opened.
//!
//! ```text
//!  ledger.sqlite   -wal  -shm    the ledger, and what SQLite keeps beside it
//!  ledger.lock                   held around every write, so that nobody polls for a turn
//!  bell                          written to after every commit, open for as long as its ledger lives
//! ```

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agora_core::provider::ledger::LedgerError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::fault::Fault;
use super::schema;
use crate::home::Home;

/// Writers wait in line at the lock. What may still be waited for here is another process's recovery after a crash.
const BUSY: Duration = Duration::from_secs(60);

/// More than there are statements, so that each is prepared once.
const STATEMENTS: usize = 96;

/// The ledger's files in a home.
#[derive(Clone, Debug)]
pub(super) struct Files {
    home: Home,
    pub(super) ledger: PathBuf,
    lock: PathBuf,
    pub(super) bell: PathBuf,
    /// Which file it is, once it was opened: a home that somebody moves or removes must not become two ledgers.
    same: Arc<OnceLock<(u64, u64)>>,
}

impl Files {
    pub(super) fn new(home: Home) -> Self {
        let root = home.root();
        let (ledger, lock, bell) = (root.join("ledger.sqlite"), root.join("ledger.lock"), root.join("bell"));
        Self { home, ledger, lock, bell, same: Arc::default() }
    }

    /// Opens the ledger for reading. `None`: nobody has recorded anything here yet.
    pub(super) fn open_to_read(&self) -> Result<Option<Connection>, LedgerError> {
        match fs::metadata(&self.ledger) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unavailable("read", &self.ledger, error)),
        }
        let connection = self.connect("read")?;
        match schema::version(&connection).map_err(|fault| fault.at("read", &self.ledger))? {
            // Somebody is about to record the first thing.
            0 => Ok(None),
            schema::CURRENT => Ok(Some(connection)),
            _older => {
                drop(connection);
                self.open_to_write().map(|(connection, _)| Some(connection))
            }
        }
    }

    /// Opens the ledger for writing and makes it what it must be, with the lock that is taken around each write.
    pub(super) fn open_to_write(&self) -> Result<(Connection, File), LedgerError> {
        self.home.prepare().map_err(LedgerError::Unavailable)?;
        let lock = self.open_file(&self.lock)?;
        lock.lock().map_err(|error| self.unavailable("lock", &self.lock, error))?;
        if !self.ledger.exists() {
            // Never opened but by SQLite: closing a second descriptor would take its locks away from it.
            self.home.replace(&self.ledger, b"").map_err(LedgerError::Unavailable)?;
        }
        let connection = self.connect("write")?;
        schema::bring_up(&connection).map_err(|fault| fault.at("write", &self.ledger))?;
        lock.unlock().map_err(|error| self.unavailable("unlock", &self.lock, error))?;
        Ok((connection, lock))
    }

    /// Opens the bell, which then is open for as long as its owner lives.
    pub(super) fn open_bell(&self) -> Result<File, LedgerError> {
        match OpenOptions::new().write(true).open(&self.bell) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.home.prepare().map_err(LedgerError::Unavailable)?;
                self.open_file(&self.bell)
            }
            other => other.map_err(|error| self.unavailable("open", &self.bell, error)),
        }
    }

    pub(super) fn lock(&self, file: &File) -> Result<(), LedgerError> {
        file.lock().map_err(|error| self.unavailable("lock", &self.lock, error))
    }

    pub(super) fn unavailable(&self, doing: &str, path: &Path, error: io::Error) -> LedgerError {
        LedgerError::Unavailable(self.home.unavailable(doing, path, error))
    }

    /// Says that there is nobody who could write.
    pub(super) fn nobody_writes(&self, why: io::Error) -> LedgerError {
        self.unavailable("write", &self.ledger, why)
    }

    fn open_file(&self, path: &Path) -> Result<File, LedgerError> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(path);
        file.map_err(|error| self.unavailable("open", path, error))
    }

    fn connect(&self, doing: &str) -> Result<Connection, LedgerError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connect = || -> Result<Connection, rusqlite::Error> {
            let connection = Connection::open_with_flags(&self.ledger, flags)?;
            connection.busy_timeout(BUSY)?;
            // Whoever writes checkpoints now and then, with the lock. A command that ends does not wait for the disk.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            // Else a statement is planned anew for every value that it is given, which takes longer than to run it.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            connection.set_prepared_statement_cache_capacity(STATEMENTS);
            Ok(connection)
        };
        let connection = connect().map_err(|error| Fault::Sqlite(error).at(doing, &self.ledger))?;
        self.see_the_same(doing)?;
        Ok(connection)
    }

    /// Sees that the ledger is the file that this process opened first. Else it would read what is gone and write what is new, and
    /// never understand why the two differ.
    fn see_the_same(&self, doing: &str) -> Result<(), LedgerError> {
        let here =
            fs::metadata(&self.ledger).map_err(|error| self.unavailable(doing, &self.ledger, error))?;
        let here = (here.dev(), here.ino());
        if *self.same.get_or_init(|| here) == here {
            return Ok(());
        }
        let gone = io::Error::other("it was moved or removed while it was in use");
        Err(self.unavailable(doing, &self.ledger, gone))
    }
}
