//! The ledger as the rest of agora sees it.

use std::sync::Arc;

use agora_core::answer::Answerer;
use agora_core::entry::Entry;
use agora_core::job::Job;
use agora_core::provider::ledger::{
    Allowance, Append, CancelWish, Checked, Claim, ClaimMark, DispatchRow, DispatchView, Filter, Ledger,
    LedgerError, OpenFilter, OpenQuestion, Outgoing, Tally, ThreadView, Watch,
};
use agora_core::time::{Clock, Timestamp};
use agora_core::{DispatchId, Name, Namespace, ThreadId};
use async_trait::async_trait;

use super::bell::Bell;
use super::files::Files;
use super::reader::Reader;
use super::writer::Writer;
use super::{agenda, append, damage, glance, list, outbox, past, questions, queue, standing, view};
use crate::home::Home;

/// Keeps the ledger in one SQLite file under `$AGORA_HOME`, which any number of processes share.
#[derive(Debug)]
pub struct SqliteLedger {
    clock: Arc<dyn Clock>,
    home: Home,
    reader: Reader,
    writer: Writer,
    bell: Bell,
}

impl SqliteLedger {
    /// Opens the ledger of a home. One that has none reads as empty, and nothing is made before something is recorded.
    pub fn open(home: Home, clock: Arc<dyn Clock>) -> Result<Self, LedgerError> {
        let files = Files::new(home.clone());
        let bell = Bell::new(files.clone());
        let reader = Reader::open(files.clone())?;
        Ok(Self { clock, home, reader, writer: Writer::new(files, bell.clone()), bell })
    }

    /// Computes a thread's chain of hashes again. [`LedgerError::ThreadDamaged`] says where it breaks.
    pub async fn check_thread(&self, thread: &ThreadId) -> Result<(), LedgerError> {
        self.reader.read(|connection| past::check(connection, thread))
    }

    /// Makes everything that only speeds up questions again, from entries and papers.
    pub async fn rebuild(&self) -> Result<(), LedgerError> {
        self.writer.write(standing::rebuild).await
    }

    /// Returns how many transactions of this value wrote something. For tests: those who wait share one.
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }

    /// Lets the ledger grow to so many pages and no further, as a full disk would. For tests.
    pub async fn limit_pages(&self, pages: u32) -> Result<(), LedgerError> {
        let limit = move |connection: &rusqlite::Connection| {
            Ok(connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?)
        };
        self.writer.write(limit).await
    }
}

#[async_trait]
impl Ledger for SqliteLedger {
    async fn append(&self, append: Append) -> Result<Vec<Entry>, LedgerError> {
        let clock = Arc::clone(&self.clock);
        self.writer.write(move |connection| append::append(connection, &append, clock.now())).await
    }

    async fn read(&self, thread: &ThreadId, seen: u64, most: usize) -> Result<Vec<Entry>, LedgerError> {
        self.reader.read(|connection| view::read(connection, thread, seen, most))
    }

    async fn read_all(
        &self,
        namespace: &Namespace,
        after: u64,
        most: usize,
    ) -> Result<Vec<(u64, Entry)>, LedgerError> {
        self.reader.read(|connection| view::read_all(connection, namespace, after, most))
    }

    async fn end(&self) -> Result<u64, LedgerError> {
        self.reader.read(view::end)
    }

    async fn thread(&self, thread: &ThreadId) -> Result<Option<ThreadView>, LedgerError> {
        self.reader.read(|connection| view::thread(connection, thread))
    }

    async fn dispatch(&self, dispatch: &DispatchId) -> Result<Option<DispatchView>, LedgerError> {
        self.reader.read(|connection| view::dispatch(connection, dispatch))
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<DispatchRow>, LedgerError> {
        self.reader.read(|connection| list::list(connection, filter))
    }

    async fn allows(&self, allowance: &Allowance) -> Result<(), LedgerError> {
        self.reader.read(|connection| glance::allows(connection, allowance))
    }

    async fn questions(&self, filter: &OpenFilter) -> Result<Vec<OpenQuestion>, LedgerError> {
        self.reader.read(|connection| questions::open(connection, filter))
    }

    async fn tally(&self, namespace: &Namespace) -> Result<Tally, LedgerError> {
        self.reader.read(|connection| glance::tally(connection, namespace))
    }

    async fn carried(&self) -> Result<Vec<ThreadId>, LedgerError> {
        self.reader.read(agenda::carried)
    }

    async fn due(&self, by: Timestamp) -> Result<Vec<ThreadId>, LedgerError> {
        self.reader.read(|connection| agenda::due(connection, by))
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, LedgerError> {
        self.reader.read(agenda::next_due)
    }

    async fn head(&self, target: &Name, most: u32) -> Result<Vec<DispatchId>, LedgerError> {
        self.reader.read(|connection| queue::head(connection, target, most))
    }

    async fn underway(&self, target: &Name) -> Result<Vec<ThreadId>, LedgerError> {
        self.reader.read(|connection| queue::underway(connection, target))
    }

    async fn place(&self, dispatch: &DispatchId) -> Result<Option<u64>, LedgerError> {
        self.reader.read(|connection| queue::place(connection, dispatch))
    }

    async fn claim(&self, dispatch: &DispatchId, mark: ClaimMark, most: u32) -> Result<Claim, LedgerError> {
        let dispatch = dispatch.clone();
        self.writer.write(move |connection| queue::claim(connection, &dispatch, &mark, most)).await
    }

    async fn reclaim(
        &self,
        dispatch: &DispatchId,
        seen: &ClaimMark,
        mark: ClaimMark,
    ) -> Result<bool, LedgerError> {
        let (dispatch, seen) = (dispatch.clone(), seen.clone());
        self.writer.write(move |connection| queue::reclaim(connection, &dispatch, &seen, &mark)).await
    }

    async fn wish_cancel(&self, thread: &ThreadId, by: Option<&Answerer>) -> Result<bool, LedgerError> {
        let (thread, by, clock) = (thread.clone(), by.cloned(), Arc::clone(&self.clock));
        self.writer
            .write(move |connection| {
                let wish = CancelWish { at: clock.now(), by: by.clone() };
                queue::wish_cancel(connection, &thread, &wish)
            })
            .await
    }

    async fn wished(&self) -> Result<Vec<ThreadId>, LedgerError> {
        self.reader.read(queue::wished)
    }

    async fn outgoing(&self, by: Timestamp, most: usize) -> Result<Vec<Outgoing>, LedgerError> {
        self.reader.read(|connection| outbox::outgoing(connection, by, most))
    }

    async fn told(&self, id: u64, again_at: Option<Timestamp>) -> Result<(), LedgerError> {
        self.writer.write(move |connection| outbox::told(connection, id, again_at)).await
    }

    async fn expired(&self, by: Timestamp, most: usize) -> Result<Vec<ThreadId>, LedgerError> {
        self.reader.read(|connection| agenda::expired(connection, by, most))
    }

    async fn forget(&self, thread: &ThreadId) -> Result<bool, LedgerError> {
        let thread = thread.clone();
        self.writer.write(move |connection| agenda::forget(connection, &thread)).await
    }

    async fn check(&self, newest: usize) -> Result<Checked, LedgerError> {
        self.reader.read(|connection| damage::check(connection, newest))
    }

    async fn discard(&self, thread: &ThreadId) -> Result<Option<Vec<Job>>, LedgerError> {
        let (thread, home) = (thread.clone(), self.home.clone());
        self.writer.write(move |connection| damage::discard(connection, &home, &thread)).await
    }

    fn watch(&self) -> Result<Box<dyn Watch>, LedgerError> {
        Ok(Box::new(self.bell.listen()?))
    }
}
