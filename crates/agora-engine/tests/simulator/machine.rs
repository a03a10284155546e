//! What is outside the engines: workers, their files, leases, staged secrets. It outlives every process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agora_core::event::Event;
use agora_core::provider::ledger::{LedgerError, Watch};
use agora_core::question::Question;
use agora_core::reason::{Failure, FailureCode};
use agora_core::wire::keys::EngineKeys;
use agora_core::wire::line::{Line, Said};
use agora_core::wire::report::Report;
use agora_core::{DispatchId, QuestionId, ThreadId, Timestamp};
use async_trait::async_trait;
use tokio::sync::Notify;

use crate::executor::{Executor, Process};
use crate::journal::Journal;

/// Everybody's: workers are nobody's children here.
pub(crate) const WORKERS: Process = Process(0);

/// How much goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// In a thousand steps of the whole world: a process dies.
    pub(crate) crash: u64,
    /// In a thousand writes: there is no room.
    pub(crate) full: u64,
    /// In a thousand writes: it is done, and whoever asked for it hears that it is not.
    pub(crate) unheard: u64,
    /// In a thousand workers: it is killed.
    pub(crate) lost: u64,
    /// In a thousand workers: its provider has had enough of it for now.
    pub(crate) limited: u64,
    /// In a thousand leases: it is given although somebody has it.
    pub(crate) double_lease: u64,
    /// In a thousand readings: a clock is set, by hours at most.
    pub(crate) jump: u64,
}

impl Faults {
    pub(crate) const NONE: Self =
        Self { crash: 0, full: 0, unheard: 0, lost: 0, limited: 0, double_lease: 0, jump: 0 };
}

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) executor: Executor,
    pub(crate) keys: EngineKeys,
    pub(crate) faults: Mutex<Faults>,
    /// Something of a worker's or a lease changed.
    pub(crate) bell: Notify,
    /// Something was recorded, or a process died.
    changes: Arc<Changes>,
    /// Whether every worker asks, and nothing else.
    pub(crate) only_asks: AtomicBool,
    state: Mutex<State>,
    journal: Mutex<Journal>,
    /// How often each thing happened that a test wants to see happen.
    seen: Mutex<BTreeMap<&'static str, u64>>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) workers: BTreeMap<DispatchId, Worker>,
    /// Which thread a dispatch is of, as far as anything was staged for it.
    pub(crate) threads: BTreeMap<DispatchId, ThreadId>,
    pub(crate) outcomes: BTreeMap<DispatchId, String>,
    pub(crate) reports: BTreeMap<DispatchId, String>,
    pub(crate) lines: BTreeMap<DispatchId, String>,
    pub(crate) places: BTreeMap<DispatchId, Place>,
    /// Who carries a thread, or believes to.
    pub(crate) leases: BTreeMap<ThreadId, Vec<Process>>,
    pub(crate) secrets: BTreeSet<ThreadId>,
    /// Who tried to answer or decline which question.
    pub(crate) tries: BTreeSet<(QuestionId, String)>,
    /// How many workers ran at once, at most.
    pub(crate) busiest: usize,
}

/// A dispatch's place on the shelf.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) workspace: bool,
    pub(crate) snapshots: bool,
}

/// A worker, from its spawn on.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) alive: bool,
    /// Whether it got its bootstrap, and how often one did.
    pub(crate) runs: u32,
    pub(crate) told_to_end: bool,
}

/// Counts what was recorded, and wakes those who listen in the order they came.
#[derive(Debug, Default)]
struct Changes {
    count: AtomicU64,
    bell: Notify,
}

#[derive(Debug)]
struct MachineWatch {
    changes: Arc<Changes>,
    heard: u64,
}

#[async_trait]
impl Watch for MachineWatch {
    async fn next(&mut self) -> Result<(), LedgerError> {
        // Whoever asks for the bell before looking at the count misses nothing.
        let rung = self.changes.bell.notified();
        if self.changes.count.load(Ordering::SeqCst) == self.heard {
            rung.await;
        }
        self.heard = self.changes.count.load(Ordering::SeqCst);
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Machine {
    pub(crate) fn new(executor: Executor, faults: Faults) -> Arc<Self> {
        Arc::new(Self {
            executor,
            keys: EngineKeys::new([5; 32]),
            faults: Mutex::new(faults),
            bell: Notify::new(),
            changes: Arc::default(),
            only_asks: AtomicBool::new(false),
            state: Mutex::default(),
            journal: Mutex::default(),
            seen: Mutex::default(),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        lock(&self.journal)
    }

    pub(crate) fn faults(&self) -> Faults {
        *lock(&self.faults)
    }

    /// Notes that something happened which must happen in some story.
    pub(crate) fn note(&self, what: &'static str) {
        *lock(&self.seen).entry(what).or_default() += 1;
    }

    pub(crate) fn noted(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.seen).clone()
    }

    /// Tells whether something goes wrong now.
    pub(crate) fn strikes(&self, what: &'static str, fault: impl FnOnce(Faults) -> u64) -> bool {
        let thousandths = fault(self.faults());
        let strikes = thousandths > 0 && self.executor.chance(|chance| chance.one_of(thousandths));
        if strikes {
            self.note(what);
        }
        strikes
    }

    /// Wakes everybody who waits for something of a worker's or a lease.
    pub(crate) fn ring(&self) {
        self.bell.notify_waiters();
    }

    /// Wakes everybody who listens to the ledger.
    pub(crate) fn recorded(&self) {
        self.changes.count.fetch_add(1, Ordering::SeqCst);
        self.changes.bell.notify_waiters();
    }

    pub(crate) fn watch(&self) -> Box<dyn Watch> {
        let heard = self.changes.count.load(Ordering::SeqCst);
        Box::new(MachineWatch { changes: Arc::clone(&self.changes), heard })
    }

    /// A worker is spawned, and waits for its bootstrap. Nothing is started for what has ended, nor beside another of the thread.
    pub(crate) fn spawn(&self, id: &DispatchId) {
        let mut state = self.state();
        assert!(!self.journal().has_ended(id), "{id} is started after its end");
        let thread = state.threads.get(id).expect("what is started was staged").clone();
        let of_thread = |other: &&DispatchId| state.threads.get(*other) == Some(&thread);
        let mut beside = state.workers.iter().filter(|(_, worker)| worker.alive).map(|(other, _)| other);
        assert_eq!(beside.find(of_thread), None, "invariant 2: another worker of {thread} is alive");
        state.workers.insert(id.clone(), Worker { alive: true, runs: 0, told_to_end: false });
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
        if self.strikes("lost worker", |faults| faults.lost) {
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
        let limited = self.strikes("limit", |faults| faults.limited);
        let only_asks = self.only_asks.load(Ordering::Relaxed);
        match self.executor.chance(|chance| if limited { 9 } else { chance.below(10) }) {
            0..4 if !only_asks => Event::Finished { dispatch_id, duration_ms },
            4..7 => self.asks(dispatch_id, duration_ms),
            _ if only_asks => self.asks(dispatch_id, duration_ms),
            7..9 => {
                let failure = Failure::new(FailureCode::AgentExit, "it failed");
                Event::Failed { dispatch_id, duration_ms, failure }
            }
            _ => {
                let later = self.executor.chance(|chance| chance.below(if limited { 1000 } else { 5000 }));
                let retry_at = self.executor.now() + i64::try_from(later).unwrap();
                let retry_at = Some(Timestamp::from_millis(retry_at));
                let failure = Failure { retry_at, ..Failure::new(FailureCode::RateLimited, "later") };
                Event::Failed { dispatch_id, duration_ms, failure }
            }
        }
    }

    /// Returns a pause: sometimes with a default, sometimes for people only.
    fn asks(&self, dispatch_id: DispatchId, duration_ms: u64) -> Event {
        let (default, human) = self.executor.chance(|chance| (chance.one_of(600), chance.one_of(100)));
        let mut item = serde_json::json!({"question": "Which?", "options": [{"label": "A"}, {"label": "B"}], "human": human});
        if default {
            item["default"] = "B".into();
        }
        let question: Question = serde_json::from_value(serde_json::json!({"questions": [item]})).unwrap();
        let question_id = format!("q_{}", &dispatch_id.as_str()[2..]).parse().unwrap();
        Event::NeedsInput { dispatch_id, duration_ms, question_id, question }
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
        {
            let mut state = self.state();
            state.reports.insert(id.clone(), report);
            state.places.entry(id.clone()).or_default().snapshots = true;
        }
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
