//! Cancelling, from any process: it returns when nothing of the thread is left.

use std::pin::pin;

use agora_core::answer::Answerer;
use agora_core::entry::Happening;
use agora_core::provider::ledger::{LedgerError, ThreadView};
use agora_core::record::Record;
use agora_core::state::{QuestionState, ThreadState};
use agora_core::{DispatchId, ThreadId};

use super::{CarryError, Engine, live_dispatch};

impl Engine {
    /// Cancels whatever the thread does or waits for. A thread that has ended stays as it ended; what is returned tells. `by` is
    /// for the record.
    pub async fn cancel(&self, thread: &ThreadId, by: Option<&Answerer>) -> Result<ThreadView, CarryError> {
        loop {
            let view = self.view(thread).await?;
            if live_dispatch(&view.thread).is_some() {
                self.world().ledger.wish_cancel(thread, by).await.map_err(CarryError::Ledger)?;
                self.see_it_through(&view).await?;
                continue;
            }
            let Some(what) = end_of(&view, by) else { return Ok(view) };
            // While a question is open somebody may answer it, who would go on with what is taken away here.
            if *view.thread.state() != ThreadState::Waiting {
                self.clear_ended(&view).await?;
            }
            match self.append(&view, what, Vec::new()).await {
                Ok(()) | Err(LedgerError::Moved { .. }) => {}
                Err(error) => return Err(CarryError::Ledger(error)),
            }
        }
    }

    /// Returns when a dispatch has ended, whoever carries its thread.
    pub async fn wait(&self, thread: &ThreadId, dispatch: &DispatchId) -> Result<(), CarryError> {
        let view = self.view(thread).await?;
        if live_dispatch(&view.thread) == Some(dispatch) { self.see_it_through(&view).await } else { Ok(()) }
    }

    /// Returns when the dispatch that was live has ended. Whoever carries the thread hears wishes; if nobody does, or whoever did
    /// dies or only looked, it is ours to carry.
    async fn see_it_through(&self, view: &ThreadView) -> Result<(), CarryError> {
        let (thread, live) = (&view.thread_id, live_dispatch(&view.thread));
        let mut watch = self.world().ledger.watch().map_err(CarryError::Ledger)?;
        let mut lease = pin!(self.world().leases.take(thread));
        loop {
            let now = self.view(thread).await?;
            if live_dispatch(&now.thread) != live {
                return Ok(());
            }
            tokio::select! {
                biased;
                taken = &mut lease => {
                    let lease = taken.map_err(CarryError::Lease)?;
                    return self.carry(thread, &*lease).await.map(drop);
                }
                heard = watch.next() => heard.map_err(CarryError::Ledger)?,
            }
        }
    }
}

/// Returns what ends a thread of which nothing runs, or nothing when it has ended.
fn end_of(view: &ThreadView, by: Option<&Answerer>) -> Option<Vec<Happening>> {
    let ended = Happening::from(Record::ThreadEnded {});
    let cancelled = Happening::from(Record::ThreadCancelled { by: by.cloned() });
    match view.thread.state() {
        ThreadState::Waiting => {
            let open = view.thread.questions().iter().filter(|asked| asked.state == QuestionState::Open);
            let closed = open.map(|asked| {
                let (question_id, by) = (asked.id.clone(), by.cloned());
                Record::QuestionCancelled { question_id, by }.into()
            });
            Some(closed.chain([cancelled]).collect())
        }
        ThreadState::Resuming => Some(vec![cancelled, ended]),
        // It would have continued by itself.
        ThreadState::Finished | ThreadState::Failed(_) | ThreadState::Cancelled
            if !view.thread.has_ended() =>
        {
            Some(vec![ended])
        }
        ThreadState::Running | ThreadState::Finished | ThreadState::Failed(_) | ThreadState::Cancelled => {
            None
        }
    }
}
