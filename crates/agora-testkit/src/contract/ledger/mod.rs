mod agenda;
mod allowance;
mod list;
mod queue;
mod record;
mod view;

use std::sync::Arc;

use agora_core::Timestamp;
use agora_core::entry::{Entry, Happening};
use agora_core::job::Job;
use agora_core::provider::ledger::{Append, ClaimMark, Ledger};
use agora_core::time::Clock;

use crate::clock::SetClock;
use crate::ledger::sample;

/// Every `Ledger` passes this. It makes empty ones, each with the clock that it is handed.
pub async fn ledger(make: &dyn Fn(Arc<dyn Clock>) -> Box<dyn Ledger>) {
    let scene = || {
        let clock = Arc::new(SetClock::at("2026-11-15T12:00:00Z"));
        Scene { ledger: make(Arc::clone(&clock) as _), clock }
    };
    record::numbering_and_moved(&scene()).await;
    record::all_or_nothing(&scene()).await;
    record::taken_ids_and_keys(&scene()).await;
    record::time_does_not_run_backwards(&scene()).await;
    record::one_of_many_appends_wins(&scene()).await;
    record::everything_in_one_order(&scene()).await;
    record::whatever_is_recorded_reads_back(&scene()).await;
    view::threads(&scene()).await;
    view::dispatches(&scene()).await;
    view::cancel_wishes(&scene()).await;
    list::filters(&scene()).await;
    list::pages(&scene()).await;
    list::open_questions(&scene()).await;
    queue::order(&scene()).await;
    queue::room(&scene()).await;
    queue::room_at_once(&scene()).await;
    queue::claims(&scene()).await;
    allowance::kept_to(&scene()).await;
    allowance::at_once(&scene()).await;
    agenda::carried(&scene()).await;
    agenda::due(&scene()).await;
    agenda::question_timers(&scene()).await;
    agenda::outbox(&scene()).await;
    agenda::expired_and_forgotten(&scene()).await;
    agenda::watched(&scene()).await;
}

/// An empty ledger and its clock.
struct Scene {
    ledger: Box<dyn Ledger>,
    clock: Arc<SetClock>,
}

impl Scene {
    async fn seen(&self, thread: &str) -> u64 {
        let view = self.ledger.thread(&thread.parse().unwrap()).await.unwrap();
        view.map_or(0, |view| view.seen)
    }

    /// Records what happens next to a thread.
    async fn happen(&self, thread: &str, what: Vec<Happening>) -> Vec<Entry> {
        let seen = self.seen(thread).await;
        self.ledger.append(sample::append(thread, seen, what)).await.unwrap()
    }

    /// Accepts a first or a next dispatch.
    async fn accept(&self, job: Job) {
        let seen = self.seen(job.thread_id.as_str()).await;
        self.ledger.append(sample::accept(seen, job)).await.unwrap();
    }

    /// Begins a thread with a dispatch that runs and has finished.
    async fn finish(&self, thread: &str, dispatch: &str) {
        self.accept(sample::job(thread, dispatch)).await;
        self.happen(thread, vec![sample::started(dispatch), sample::finished(dispatch)]).await;
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

fn mark(boot: &str) -> ClaimMark {
    ClaimMark { at: "2026-11-15T12:00:00Z".parse().unwrap(), boot: boot.to_owned() }
}

/// Gives an append more papers.
fn with(mut append: Append, paper: agora_core::provider::ledger::Paper) -> Append {
    append.papers.push(paper);
    append
}
