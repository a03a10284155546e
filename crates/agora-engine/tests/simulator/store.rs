//! Where the ledger of a story is kept.

use std::path::Path;
use std::sync::Arc;

use agora_core::provider::ledger::Ledger;
use agora_core::time::Clock;
use agora_core::{ThreadId, Timestamp};
use agora_providers::Home;
use agora_providers::ledger::SqliteLedger;
use agora_testkit::ledger::MemoryLedger;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::executor::Executor;
use crate::seams::whole;

/// The kind of ledger that a story is played on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    /// SQLite. It writes on a thread of its own; the world stands still until that has answered.
    File,
}

/// The clock of the ledger, which is the machine's.
#[derive(Debug)]
struct MachineClock(Executor);

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.now())
    }
}

#[derive(Debug)]
pub(crate) enum Store {
    Memory(Arc<MemoryLedger>),
    File(FileStore),
}

#[derive(Debug)]
pub(crate) struct FileStore {
    clock: Arc<dyn Clock>,
    ledger: Arc<SqliteLedger>,
    /// What the ledger reads on, wherever it is asked: it does so at once.
    runtime: Runtime,
    home: TempDir,
}

impl Store {
    pub(crate) fn new(kind: Kind, executor: &Executor) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(MachineClock(executor.clone()));
        match kind {
            Kind::Memory => Self::Memory(Arc::new(MemoryLedger::new(clock))),
            Kind::File => {
                // In memory where there is such a place: a machine does not lose power in these stories.
                let memory = Path::new("/dev/shm");
                let home = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
                let home = home.unwrap();
                let ledger = SqliteLedger::open(Home::new(home.path()), Arc::clone(&clock)).unwrap();
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                Self::File(FileStore { clock, ledger: Arc::new(ledger), runtime, home })
            }
        }
    }

    /// Returns the ledger that a story looks at its end with.
    pub(crate) fn ledger(&self) -> Arc<dyn Ledger> {
        match self {
            Self::Memory(ledger) => Arc::clone(ledger) as Arc<dyn Ledger>,
            Self::File(file) => Arc::clone(&file.ledger) as Arc<dyn Ledger>,
        }
    }

    /// Opens the ledger as a process does, which finds a disk of so many pages if any are named.
    pub(crate) fn open(&self, pages: Option<u32>) -> Arc<dyn Ledger> {
        match self {
            Self::Memory(_) => self.ledger(),
            Self::File(file) => {
                let ledger =
                    SqliteLedger::open(Home::new(file.home.path()), Arc::clone(&file.clock)).unwrap();
                if let Some(pages) = pages {
                    whole(ledger.limit_pages(pages)).unwrap();
                }
                Arc::new(ledger)
            }
        }
    }

    /// Does some work where the ledger can be read.
    pub(crate) fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = match self {
            Self::Memory(_) => None,
            Self::File(file) => Some(file.runtime.enter()),
        };
        work()
    }

    /// Checks what only this kind of ledger promises.
    pub(crate) fn check(&self, thread: &ThreadId) {
        match self {
            Self::Memory(_) => {}
            Self::File(file) => whole(file.ledger.check_thread(thread)).unwrap(),
        }
    }
}
