//! A ledger in memory: what every ledger does, in the plainest way.

mod book;
pub mod fill;
pub mod play;
pub mod sample;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agora_core::answer::Answerer;
use agora_core::entry::Entry;
use agora_core::job::Job;
use agora_core::provider::ledger::{
    Allowance, Append, CancelWish, Checked, Claim, ClaimMark, DispatchRow, DispatchView, Filter, Ledger,
    LedgerError, OpenFilter, OpenQuestion, Outgoing, StateWord, Tally, ThreadView, Watch,
};
use agora_core::time::{Clock, Timestamp};
use agora_core::{DispatchId, Name, Namespace, ThreadId};
use async_trait::async_trait;
use tokio::sync::Notify;

use book::Book;

/// Forgets everything when it is dropped, and is a ledger in every other way.
#[derive(Debug)]
pub struct MemoryLedger {
    clock: Arc<dyn Clock>,
    book: Mutex<Book>,
    changes: Arc<Changes>,
}

/// Counts what was recorded, and wakes those who listen in the order they came: a simulation must not depend on chance.
#[derive(Debug, Default)]
struct Changes {
    count: AtomicU64,
    bell: Notify,
}

impl MemoryLedger {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, book: Mutex::default(), changes: Arc::default() }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        self.changes.count.fetch_add(1, Ordering::SeqCst);
        self.changes.bell.notify_waiters();
    }

    fn after<T>(&self, done: Result<T, LedgerError>) -> Result<T, LedgerError> {
        if done.is_ok() {
            self.ring();
        }
        done
    }
}

#[derive(Debug)]
struct MemoryWatch {
    changes: Arc<Changes>,
    seen: u64,
}

#[async_trait]
impl Watch for MemoryWatch {
    async fn next(&mut self) -> Result<(), LedgerError> {
        let rung = self.changes.bell.notified();
        let count = self.changes.count.load(Ordering::SeqCst);
        // Whoever asks for the bell before looking at the count misses nothing.
        if count == self.seen {
            rung.await;
        }
        self.seen = self.changes.count.load(Ordering::SeqCst);
        Ok(())
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn append(&self, append: Append) -> Result<Vec<Entry>, LedgerError> {
        let now = self.clock.now();
        let done = self.book().append(append, now);
        self.after(done)
    }

    async fn read(&self, thread: &ThreadId, seen: u64, most: usize) -> Result<Vec<Entry>, LedgerError> {
        Ok(self.book().read(thread, seen, most))
    }

    async fn read_all(
        &self,
        namespace: &Namespace,
        after: u64,
        most: usize,
    ) -> Result<Vec<(u64, Entry)>, LedgerError> {
        Ok(self.book().read_all(namespace, after, most))
    }

    async fn end(&self) -> Result<u64, LedgerError> {
        Ok(self.book().end())
    }

    async fn thread(&self, thread: &ThreadId) -> Result<Option<ThreadView>, LedgerError> {
        Ok(self.book().thread(thread))
    }

    async fn dispatch(&self, dispatch: &DispatchId) -> Result<Option<DispatchView>, LedgerError> {
        Ok(self.book().dispatch(dispatch))
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<DispatchRow>, LedgerError> {
        Ok(self.book().list(filter))
    }

    async fn allows(&self, allowance: &Allowance) -> Result<(), LedgerError> {
        self.book().allows(allowance)
    }

    async fn questions(&self, filter: &OpenFilter) -> Result<Vec<OpenQuestion>, LedgerError> {
        Ok(self.book().questions(filter))
    }

    async fn tally(&self, namespace: &Namespace) -> Result<Tally, LedgerError> {
        let (namespace, most, book) = (Some(namespace.clone()), usize::MAX, self.book());
        let open = book.questions(&OpenFilter { namespace: namespace.clone(), after: None, most });
        let live = book.list(&Filter { namespace, most, ..Filter::default() });
        let live: Vec<_> = live.into_iter().filter(|row| row.state.is_live()).collect();
        let running = live.iter().filter(|row| row.state == StateWord::Running || row.claimed).count();
        Ok(Tally {
            running: running as u64,
            queued: (live.len() - running) as u64,
            questions: open.len() as u64,
            oldest_asked_at: open.first().map(|question| question.asked_at),
        })
    }

    async fn carried(&self) -> Result<Vec<ThreadId>, LedgerError> {
        Ok(self.book().carried())
    }

    async fn due(&self, by: Timestamp) -> Result<Vec<ThreadId>, LedgerError> {
        Ok(self.book().all_due().into_iter().filter(|(at, _)| *at <= by).map(|(_, id)| id).collect())
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, LedgerError> {
        Ok(self.book().all_due().first().map(|(at, _)| *at))
    }

    async fn head(&self, target: &Name, most: u32) -> Result<Vec<DispatchId>, LedgerError> {
        Ok(self.book().head(target, most))
    }

    async fn underway(&self, target: &Name) -> Result<Vec<ThreadId>, LedgerError> {
        Ok(self.book().underway(target))
    }

    async fn place(&self, dispatch: &DispatchId) -> Result<Option<u64>, LedgerError> {
        Ok(self.book().place(dispatch))
    }

    async fn claim(&self, dispatch: &DispatchId, mark: ClaimMark, most: u32) -> Result<Claim, LedgerError> {
        let claim = self.book().claim(dispatch, mark, most);
        self.after(Ok(claim))
    }

    async fn reclaim(
        &self,
        dispatch: &DispatchId,
        seen: &ClaimMark,
        mark: ClaimMark,
    ) -> Result<bool, LedgerError> {
        let taken = self.book().reclaim(dispatch, seen, mark);
        self.after(Ok(taken))
    }

    async fn wish_cancel(&self, thread: &ThreadId, by: Option<&Answerer>) -> Result<bool, LedgerError> {
        let wish = CancelWish { at: self.clock.now(), by: by.cloned() };
        let wished = self.book().wish_cancel(thread, wish);
        self.after(Ok(wished))
    }

    async fn wished(&self) -> Result<Vec<ThreadId>, LedgerError> {
        Ok(self.book().wished())
    }

    async fn outgoing(&self, by: Timestamp, most: usize) -> Result<Vec<Outgoing>, LedgerError> {
        Ok(self.book().outgoing(by, most))
    }

    async fn told(&self, id: u64, again_at: Option<Timestamp>) -> Result<(), LedgerError> {
        self.book().told(id, again_at);
        self.after(Ok(()))
    }

    async fn expired(&self, by: Timestamp, most: usize) -> Result<Vec<ThreadId>, LedgerError> {
        Ok(self.book().expired(by, most))
    }

    async fn forget(&self, thread: &ThreadId) -> Result<bool, LedgerError> {
        let forgotten = self.book().forget(thread);
        self.after(Ok(forgotten))
    }

    async fn check(&self, _newest: usize) -> Result<Checked, LedgerError> {
        Ok(Checked { threads: self.book().threads(), damaged: Vec::new() })
    }

    async fn discard(&self, _thread: &ThreadId) -> Result<Option<Vec<Job>>, LedgerError> {
        Ok(None)
    }

    fn watch(&self) -> Result<Box<dyn Watch>, LedgerError> {
        let seen = self.changes.count.load(Ordering::SeqCst);
        Ok(Box::new(MemoryWatch { changes: Arc::clone(&self.changes), seen }))
    }
}
