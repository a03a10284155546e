//! The ledger, with time and trouble around each call, and a look at what it says.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use agora_core::answer::Answerer;
use agora_core::entry::Entry;
use agora_core::job::Job;
use agora_core::provider::Outage;
use agora_core::provider::ledger::{
    Allowance, Append, Checked, Claim, ClaimMark, DispatchRow, DispatchView, Filter, Ledger, LedgerError,
    OpenFilter, OpenQuestion, Outgoing, Paper, Tally, ThreadView, Watch,
};
use agora_core::{DispatchId, Name, Namespace, ThreadId, Timestamp};
use async_trait::async_trait;

use super::Seams;

/// How long after a wish somebody may still claim who looked before it: two pauses, with room.
const LATE: i64 = 1000;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs something to its end while the world stands still, also where another thread does it.
pub(crate) fn whole<T>(work: impl Future<Output = T>) -> T {
    let (mut work, waker) = (pin!(work), Waker::from(Arc::new(Unpark(thread::current()))));
    loop {
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

impl Seams {
    async fn record<T>(
        &self,
        work: impl Future<Output = Result<T, LedgerError>>,
        look: impl FnOnce(&T),
    ) -> Result<T, LedgerError> {
        let done = self.write(|| {
            let done = whole(work);
            match &done {
                Ok(done) => {
                    look(done);
                    self.machine.recorded();
                }
                Err(LedgerError::Unavailable(why)) => {
                    assert_eq!(why.outage, Outage::Full, "{why}");
                    self.machine.note("no room in the ledger");
                }
                // It works, and says no.
                Err(_) => {}
            }
            done
        });
        done.await.map_err(LedgerError::Unavailable)?
    }

    /// Nobody starts what they could have known to be unwanted.
    fn check_wish(&self, dispatch: &DispatchId) {
        let view = whole(self.ledger.dispatch(dispatch)).unwrap().expect("what is claimed is recorded");
        let thread = whole(self.ledger.thread(&view.job.thread_id)).unwrap().expect("and so is its thread");
        let now = self.machine.executor.now();
        let late = thread.cancel_wish.is_some_and(|wish| wish.at.as_millis() + LATE < now);
        assert!(!late, "{dispatch} is claimed although somebody wished to cancel it");
    }
}

#[async_trait]
impl Ledger for Seams {
    async fn append(&self, append: Append) -> Result<Vec<Entry>, LedgerError> {
        let papers = append.papers.clone();
        self.record(self.ledger.append(append), |new| {
            self.machine.journalise(new, &papers);
            for paper in &papers {
                if let Paper::Claim { dispatch_id, .. } = paper {
                    self.check_lease(dispatch_id);
                }
            }
        })
        .await
    }

    async fn read(&self, thread: &ThreadId, seen: u64, most: usize) -> Result<Vec<Entry>, LedgerError> {
        self.pause().await;
        whole(self.ledger.read(thread, seen, most))
    }

    async fn read_all(
        &self,
        namespace: &Namespace,
        after: u64,
        most: usize,
    ) -> Result<Vec<(u64, Entry)>, LedgerError> {
        self.pause().await;
        whole(self.ledger.read_all(namespace, after, most))
    }

    async fn end(&self) -> Result<u64, LedgerError> {
        self.pause().await;
        whole(self.ledger.end())
    }

    async fn thread(&self, thread: &ThreadId) -> Result<Option<ThreadView>, LedgerError> {
        self.pause().await;
        whole(self.ledger.thread(thread))
    }

    async fn dispatch(&self, dispatch: &DispatchId) -> Result<Option<DispatchView>, LedgerError> {
        self.pause().await;
        whole(self.ledger.dispatch(dispatch))
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<DispatchRow>, LedgerError> {
        self.pause().await;
        whole(self.ledger.list(filter))
    }

    async fn allows(&self, allowance: &Allowance) -> Result<(), LedgerError> {
        self.pause().await;
        whole(self.ledger.allows(allowance))
    }

    async fn questions(&self, filter: &OpenFilter) -> Result<Vec<OpenQuestion>, LedgerError> {
        self.pause().await;
        whole(self.ledger.questions(filter))
    }

    async fn tally(&self, namespace: &Namespace) -> Result<Tally, LedgerError> {
        self.pause().await;
        whole(self.ledger.tally(namespace))
    }

    async fn check(&self, newest: usize) -> Result<Checked, LedgerError> {
        self.pause().await;
        whole(self.ledger.check(newest))
    }

    async fn discard(&self, thread: &ThreadId) -> Result<Option<Vec<Job>>, LedgerError> {
        self.record(self.ledger.discard(thread), |_| {}).await
    }

    async fn carried(&self) -> Result<Vec<ThreadId>, LedgerError> {
        self.pause().await;
        whole(self.ledger.carried())
    }

    async fn due(&self, by: Timestamp) -> Result<Vec<ThreadId>, LedgerError> {
        self.pause().await;
        whole(self.ledger.due(by))
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, LedgerError> {
        self.pause().await;
        whole(self.ledger.next_due())
    }

    async fn head(&self, target: &Name, most: u32) -> Result<Vec<DispatchId>, LedgerError> {
        self.pause().await;
        whole(self.ledger.head(target, most))
    }

    async fn underway(&self, target: &Name) -> Result<Vec<ThreadId>, LedgerError> {
        self.pause().await;
        whole(self.ledger.underway(target))
    }

    async fn place(&self, dispatch: &DispatchId) -> Result<Option<u64>, LedgerError> {
        self.pause().await;
        whole(self.ledger.place(dispatch))
    }

    async fn claim(&self, dispatch: &DispatchId, mark: ClaimMark, most: u32) -> Result<Claim, LedgerError> {
        self.check_lease(dispatch);
        let claim = self.ledger.claim(dispatch, mark, most);
        self.record(claim, |claim| {
            if *claim == Claim::Granted {
                self.check_wish(dispatch);
                self.machine.note("claimed");
            }
        })
        .await
    }

    async fn reclaim(
        &self,
        dispatch: &DispatchId,
        seen: &ClaimMark,
        mark: ClaimMark,
    ) -> Result<bool, LedgerError> {
        self.check_lease(dispatch);
        let reclaim = self.ledger.reclaim(dispatch, seen, mark);
        self.record(reclaim, |ours| self.machine.note(if *ours { "reclaimed" } else { "not reclaimed" }))
            .await
    }

    async fn wish_cancel(&self, thread: &ThreadId, by: Option<&Answerer>) -> Result<bool, LedgerError> {
        self.record(self.ledger.wish_cancel(thread, by), |_| {}).await
    }

    async fn wished(&self) -> Result<Vec<ThreadId>, LedgerError> {
        self.pause().await;
        whole(self.ledger.wished())
    }

    async fn outgoing(&self, by: Timestamp, most: usize) -> Result<Vec<Outgoing>, LedgerError> {
        self.pause().await;
        whole(self.ledger.outgoing(by, most))
    }

    async fn told(&self, id: u64, again_at: Option<Timestamp>) -> Result<(), LedgerError> {
        self.record(self.ledger.told(id, again_at), |()| {}).await
    }

    async fn expired(&self, by: Timestamp, most: usize) -> Result<Vec<ThreadId>, LedgerError> {
        self.pause().await;
        whole(self.ledger.expired(by, most))
    }

    async fn forget(&self, thread: &ThreadId) -> Result<bool, LedgerError> {
        self.record(self.ledger.forget(thread), |gone| {
            if *gone {
                self.machine.journal().forget(thread);
                self.machine.note("forgotten");
            }
        })
        .await
    }

    fn watch(&self) -> Result<Box<dyn Watch>, LedgerError> {
        Ok(self.machine.watch())
    }
}
