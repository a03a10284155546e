//! What is outside the engines: workers, their files, leases, staged secrets. It outlives every process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agora_core::event::Event;
use agora_core::question::Question;
use agora_core::reason::{Failure, FailureCode};
use agora_core::wire::keys::EngineKeys;
use agora_core::wire::line::{Line, Said};
use agora_core::wire::report::Report;
use agora_core::{DispatchId, ThreadId, Timestamp};
use agora_testkit::ledger::MemoryLedger;
use tokio::sync::Notify;

use crate::executor::{Executor, Process};

/// Everybody's: workers are nobody's children here.
pub(crate) const WORKERS: Process = Process(0);

/// How much goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// In a thousand steps of the whole world: a process dies.
    pub(crate) crash: u64,
    /// In a thousand writes: there is no room.
    pub(crate) full: u64,
    /// In a thousand workers: it is killed.
    pub(crate) lost: u64,
    /// In a thousand leases: it is given although somebody has it.
    pub(crate) double_lease: u64,
    /// In a thousand readings: a clock jumps.
    pub(crate) jump: u64,
}

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) executor: Executor,
    pub(crate) ledger: MemoryLedger,
    pub(crate) keys: EngineKeys,
    pub(crate) faults: Mutex<Faults>,
    pub(crate) bell: Notify,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) workers: BTreeMap<DispatchId, Worker>,
    pub(crate) outcomes: BTreeMap<DispatchId, String>,
    pub(crate) reports: BTreeMap<DispatchId, String>,
    pub(crate) lines: BTreeMap<DispatchId, String>,
    pub(crate) workspaces: BTreeSet<DispatchId>,
    pub(crate) leases: BTreeMap<ThreadId, u32>,
    pub(crate) secrets: BTreeSet<ThreadId>,
    /// How many workers ran at once, at most.
    pub(crate) busiest: usize,
}

/// A worker, from its spawn on.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) alive: bool,
    /// Whether it got its bootstrap, and how often one did.
    pub(crate) runs: u32,
    pub(crate) told_to_end: bool,
}

impl Machine {
    pub(crate) fn new(executor: Executor, ledger: MemoryLedger, faults: Faults) -> Arc<Self> {
        Arc::new(Self {
            executor,
            ledger,
            keys: EngineKeys::new([5; 32]),
            faults: Mutex::new(faults),
            bell: Notify::new(),
            state: Mutex::default(),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn faults(&self) -> Faults {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether something goes wrong now.
    pub(crate) fn strikes(&self, fault: impl FnOnce(Faults) -> u64) -> bool {
        let thousandths = fault(self.faults());
        thousandths > 0 && self.executor.chance(|chance| chance.one_of(thousandths))
    }

    /// Wakes everybody who waits for something of a worker's or a lease.
    pub(crate) fn ring(&self) {
        self.bell.notify_waiters();
    }

    /// A spawned worker gets its bootstrap, and runs.
    pub(crate) fn run(self: &Arc<Self>, id: &DispatchId) {
        {
            let mut state = self.state();
            if let Some(worker) = state.workers.get_mut(id) {
                worker.runs += 1;
            }
            let running = state.workers.values().filter(|worker| worker.alive && worker.runs > 0).count();
            state.busiest = state.busiest.max(running);
        }
        let (machine, id) = (Arc::clone(self), id.clone());
        self.executor.spawn(WORKERS, Box::pin(async move { machine.live(&id).await }));
    }

    fn say(&self, id: &DispatchId, said: Said) -> String {
        let line = Line { seq: 1, at: Timestamp::from_millis(self.executor.now()), said };
        line.to_text(&self.keys.event_key(id)).unwrap()
    }

    async fn live(self: &Arc<Self>, id: &DispatchId) {
        let started = self.say(id, Said::Event(Event::Started { dispatch_id: id.clone() }));
        self.executor.pause().await;
        if !self.is_alive(id) {
            return;
        }
        self.state().lines.insert(id.clone(), format!("{started}\n"));
        self.ring();
        let length = self.executor.chance(|chance| chance.below(3000));
        let mut over = self.executor.now() + i64::try_from(length).unwrap();
        if self.strikes(|faults| faults.lost) {
            over += 60_000;
            let (machine, id) = (Arc::clone(self), id.clone());
            let dies_at = self.executor.now() + i64::try_from(length).unwrap();
            self.executor.spawn(
                WORKERS,
                Box::pin(async move {
                    machine.executor.sleep_until(dies_at).await;
                    machine.die(&id);
                }),
            );
        }
        loop {
            let rung = self.bell.notified();
            if !self.is_alive(id) {
                return;
            }
            if self.state().workers.get(id).is_some_and(|worker| worker.told_to_end) {
                self.executor.pause().await;
                return self.end(id, Event::Cancelled { dispatch_id: id.clone(), duration_ms: 5 }).await;
            }
            if self.executor.now() >= over {
                break;
            }
            tokio::select! {
                biased;
                () = rung => {}
                () = self.executor.sleep_until(over) => {}
            }
        }
        let event = self.ending(id);
        self.end(id, event).await;
    }

    fn ending(&self, id: &DispatchId) -> Event {
        let (dispatch_id, duration_ms) = (id.clone(), 7);
        match self.executor.chance(|chance| chance.below(10)) {
            0..5 => Event::Finished { dispatch_id, duration_ms },
            5..7 => {
                let question: Question =
                    serde_json::from_value(serde_json::json!({"questions": [{"question": "A or B?"}]}))
                        .unwrap();
                let question_id = format!("q_{}", &id.as_str()[2..]).parse().unwrap();
                Event::NeedsInput { dispatch_id, duration_ms, question_id, question }
            }
            7..9 => {
                let failure = Failure::new(FailureCode::AgentExit, "it failed");
                Event::Failed { dispatch_id, duration_ms, failure }
            }
            _ => {
                let retry_at = Some(Timestamp::from_millis(self.executor.now() + 5000));
                let failure = Failure { retry_at, ..Failure::new(FailureCode::RateLimited, "later") };
                Event::Failed { dispatch_id, duration_ms, failure }
            }
        }
    }

    /// Stores report and outcome, and ends. Whoever stored an outcome first has decided.
    async fn end(self: &Arc<Self>, id: &DispatchId, event: Event) {
        let at = Timestamp::from_millis(self.executor.now());
        let report = Report { workspace_saved: true, ..Report::new(id.clone(), at) };
        let report = self.say(id, Said::Report(Box::new(report)));
        let outcome = self.say(id, Said::Event(event));
        self.executor.pause().await;
        if !self.is_alive(id) {
            return;
        }
        self.state().reports.insert(id.clone(), report);
        self.executor.pause().await;
        if !self.is_alive(id) {
            return;
        }
        self.state().outcomes.entry(id.clone()).or_insert(outcome);
        self.ring();
        self.executor.pause().await;
        self.die(id);
    }

    pub(crate) fn is_alive(&self, id: &DispatchId) -> bool {
        self.state().workers.get(id).is_some_and(|worker| worker.alive)
    }

    pub(crate) fn die(&self, id: &DispatchId) {
        if let Some(worker) = self.state().workers.get_mut(id) {
            worker.alive = false;
        }
        self.ring();
    }
}
