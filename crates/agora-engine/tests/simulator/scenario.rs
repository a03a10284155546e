//! A story: some processes that do what engines do, troubles, and a world that heals.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use agora_core::blobs::Blobs;
use agora_core::provider::ledger::Ledger;
use agora_engine::{AgentsMay, Engine, Quiet, Sweep, Target, World};

use crate::deed::{self, Deed, Told};
use crate::executor::{Executor, Process};
use crate::grounds::NoGrounds;
use crate::machine::{Faults, Machine};
use crate::seams::{Seams, whole};
use crate::store::{Kind, Store};

/// More steps than any story that comes to an end takes.
const TOO_LONG: u32 = 400_000;

/// A story that was told to its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    /// What was recorded, a line each.
    pub(crate) text: String,
    /// What happened, and how often.
    pub(crate) seen: BTreeMap<&'static str, u64>,
}

pub(crate) struct Story {
    pub(crate) machine: Arc<Machine>,
    pub(crate) told: Arc<Told>,
    pub(crate) room: u32,
    pub(crate) store: Store,
    pub(crate) ledger: Arc<dyn Ledger>,
    /// Whether processes find a disk with little room for the ledger.
    cramped: bool,
    processes: u64,
}

/// Plays the story of a seed, checks its end, and returns it, or what was wrong.
pub(crate) fn try_play(seed: u64, faults: Faults, kind: Kind) -> Result<Ending, String> {
    std::panic::catch_unwind(|| Story::new(seed, faults, kind).play()).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
    })
}

/// Plays a story that must come to a good end.
pub(crate) fn play(seed: u64, faults: Faults, kind: Kind) -> Ending {
    match try_play(seed, faults, kind) {
        Ok(ending) => ending,
        Err(wrong) => {
            let file = if kind == Kind::File { " AGORA_SIM_FILE=1" } else { "" };
            panic!("seed {seed}: {wrong}\n`AGORA_SIM_SEED={seed}{file}` plays it again")
        }
    }
}

impl Story {
    pub(crate) fn new(seed: u64, faults: Faults, kind: Kind) -> Self {
        let executor = Executor::new(seed);
        let room = 1 + u32::try_from(executor.chance(|chance| chance.below(2))).unwrap();
        let store = Store::new(kind, &executor);
        let cramped = kind == Kind::File && faults.full > 0;
        let (machine, ledger) = (Machine::new(executor, faults), store.ledger());
        Self { machine, told: Arc::default(), room, store, ledger, cramped, processes: 0 }
    }

    pub(crate) fn engine(&mut self) -> (Process, Engine) {
        self.processes += 1;
        let process = Process(self.processes);
        let (skew, pages) = self.machine.executor.chance(|chance| {
            let pages =
                (self.cramped && chance.one_of(300)).then(|| u32::try_from(chance.below(60)).unwrap());
            (i64::try_from(chance.below(2000)).unwrap() - 1000, pages)
        });
        if pages.is_some() {
            self.machine.note("little room");
        }
        let (machine, ledger) = (Arc::clone(&self.machine), self.store.open(pages));
        let seams = Arc::new(Seams { machine, process, ledger, skew: AtomicI64::new(skew) });
        let target = Target::new(seams.clone(), self.room);
        let world = World {
            ledger: seams.clone(),
            leases: seams.clone(),
            grounds: Arc::new(NoGrounds),
            shelf: seams.clone(),
            blobs: Blobs::new(seams.clone()),
            vault: seams.clone(),
            targets: BTreeMap::from([("local".parse().unwrap(), target)]),
            keys: self.machine.keys.clone(),
            clock: seams.clone(),
            alarm: seams.clone(),
            tasks: seams.clone(),
            entropy: seams.clone(),
            boot: "boot".to_owned(),
            agents: AgentsMay::Relay,
            notifier: Arc::new(Quiet),
            commands: seams,
        };
        (process, Engine::new(world))
    }

    fn play(mut self) -> Ending {
        self.trouble();
        self.heal();
        let text = self.store.enter(|| self.check());
        Ending { text, seen: self.machine.noted() }
    }

    fn trouble(&mut self) {
        let executor = self.machine.executor.clone();
        let mut running: Vec<Process> = Vec::new();
        let mut to_come = 2 + executor.chance(|chance| chance.below(4));
        let mut steps = 0_u32;
        while !running.is_empty() || to_come > 0 {
            if running.len() < 3 && to_come > 0 && (running.is_empty() || executor.chance(|c| c.one_of(10))) {
                to_come -= 1;
                running.push(self.start_process());
            }
            let moved = self.store.enter(|| executor.step());
            assert!(moved || to_come > 0, "somebody waits for what never comes");
            running.retain(|process| executor.alive(*process));
            if !running.is_empty() && self.machine.strikes("crash", |faults| faults.crash) {
                let victim = executor.chance(|chance| chance.below(running.len() as u64));
                self.kill(running.remove(usize::try_from(victim).unwrap()));
            }
            steps += 1;
            assert!(steps < TOO_LONG, "it does not come to an end");
        }
    }

    fn kill(&self, process: Process) {
        self.machine.executor.kill(process);
        // The death of a process closes the bell that it held open.
        self.machine.recorded();
        self.machine.ring();
    }

    /// A process: it recovers, as every command does, and then does a few things one after another. It may begin with what one that
    /// died did not come to the end of.
    fn start_process(&mut self) -> Process {
        let (process, engine) = self.engine();
        let (machine, told) = (Arc::clone(&self.machine), Arc::clone(&self.told));
        let again = self.machine.executor.chance(|chance| chance.one_of(500));
        let again = self.told.words().unfinished.pop_first().map(|(_, deed)| deed).filter(|_| again);
        let task = async move {
            deed::recover(&machine, &engine).await;
            if let Some(again) = again {
                machine.note("tried again");
                again.perform(&machine, &engine, &told).await;
            }
            let deeds = 1 + machine.executor.chance(|chance| chance.below(4));
            for _ in 0..deeds {
                Deed::draw(&machine, &told).perform(&machine, &engine, &told).await;
                machine.executor.pause().await;
            }
        };
        self.machine.executor.spawn(process, Box::pin(task));
        process
    }

    /// No more troubles: commands run one after another until nothing is left to do.
    fn heal(&mut self) {
        *self.machine.faults.lock().unwrap() = Faults::NONE;
        self.cramped = false;
        let executor = self.machine.executor.clone();
        for _ in 0..50 {
            let (process, engine) = self.engine();
            let machine = Arc::clone(&self.machine);
            executor.spawn(
                process,
                Box::pin(async move {
                    deed::recover(&machine, &engine).await;
                    engine.sweep(Sweep::Really, None).await.unwrap();
                }),
            );
            let mut steps = 0;
            while executor.alive(process) && self.store.enter(|| executor.step()) {
                steps += 1;
                assert!(steps < TOO_LONG, "it does not heal");
            }
            self.kill(process);
            if self.store.enter(|| self.at_rest()) {
                return;
            }
            // Timers that are due later, by clocks that were wrong, and workers that run on.
            let next = self.machine.journal().next_move().map_or(0, |next| next.as_millis() + 2_000);
            let until = next.max(executor.now() + 20_000);
            let wait = executor.sleep_until(until);
            executor.spawn(process, Box::pin(wait));
            while executor.alive(process) && executor.step() {}
        }
        panic!("nobody brings it to rest");
    }

    fn at_rest(&self) -> bool {
        let carried = whole(self.ledger.carried()).unwrap();
        let alive = self.machine.state().workers.values().any(|worker| worker.alive);
        carried.is_empty() && self.machine.journal().next_move().is_none() && !alive
    }
}
