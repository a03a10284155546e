//! A story: some processes that dispatch, cancel, continue and recover; troubles; and what must be true when they are over.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use agora_core::blobs::Blobs;
use agora_core::entry::Happening;
use agora_core::event::{Event, Resolved, ResolvedBundle};
use agora_core::job::{Attendance, Job, JobEssentials};
use agora_core::provider::ledger::Ledger;
use agora_core::state::{Thread, ThreadState};
use agora_core::wire::line::{Line, Said};
use agora_core::wire::manifest::Limits;
use agora_core::{ContentHash, DispatchId, Namespace, ThreadId, Timestamp};
use agora_engine::{Engine, Sweep, Target, World};
use agora_testkit::ledger::MemoryLedger;

use crate::executor::{Executor, Process};
use crate::machine::{Faults, Machine};
use crate::seams::Seams;

/// More steps than any story that comes to an end takes.
const TOO_LONG: u32 = 400_000;

/// What the processes were told, which must hold whatever happened to them afterwards.
#[derive(Debug, Default)]
struct Told {
    accepted: Vec<(ThreadId, DispatchId)>,
}

struct Story {
    machine: Arc<Machine>,
    told: Arc<Mutex<Told>>,
    room: u32,
    processes: u64,
}

/// The clock of the ledger, which is the machine's.
#[derive(Debug)]
struct MachineClock(Executor);

impl agora_core::time::Clock for MachineClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.now())
    }
}

/// Plays the story of a seed, checks its end, and returns it in a text.
pub(crate) fn play(seed: u64, faults: Faults) -> String {
    let told = std::panic::catch_unwind(|| Story::new(seed, faults).play());
    match told {
        Ok(text) => text,
        Err(_) => panic!("seed {seed} failed: AGORA_SIM_SEED={seed} plays it again"),
    }
}

impl Story {
    fn new(seed: u64, faults: Faults) -> Self {
        let executor = Executor::new(seed);
        let ledger = MemoryLedger::new(Arc::new(MachineClock(executor.clone())));
        let room = 1 + u32::try_from(executor.chance(|chance| chance.below(2))).unwrap();
        Self { machine: Machine::new(executor, ledger, faults), told: Arc::default(), room, processes: 0 }
    }

    fn engine(&mut self) -> (Process, Engine) {
        self.processes += 1;
        let process = Process(self.processes);
        let executor = &self.machine.executor;
        let skew = i64::try_from(executor.chance(|chance| chance.below(2000))).unwrap() - 1000;
        let seams = Arc::new(Seams { machine: Arc::clone(&self.machine), process, skew });
        let target = Target::new(seams.clone(), self.room);
        let world = World {
            ledger: seams.clone(),
            leases: seams.clone(),
            shelf: seams.clone(),
            blobs: Blobs::new(seams.clone()),
            vault: seams.clone(),
            targets: BTreeMap::from([("local".parse().unwrap(), target)]),
            keys: self.machine.keys.clone(),
            receipt_key: None,
            clock: seams.clone(),
            alarm: seams.clone(),
            tasks: seams.clone(),
            entropy: seams,
            boot: "boot".to_owned(),
        };
        (process, Engine::new(world))
    }

    fn play(mut self) -> String {
        let executor = self.machine.executor.clone();
        let mut running: Vec<Process> = Vec::new();
        let mut to_come = 2 + executor.chance(|chance| chance.below(4));
        let mut steps = 0_u32;
        loop {
            if running.len() < 3 && to_come > 0 && (running.is_empty() || executor.chance(|c| c.one_of(10))) {
                to_come -= 1;
                running.push(self.start_process());
            }
            if !executor.step() && to_come == 0 {
                break;
            }
            running.retain(|process| executor.alive(*process));
            if !running.is_empty() && self.machine.strikes(|faults| faults.crash) {
                let victim = executor.chance(|chance| chance.below(running.len() as u64));
                self.kill(running.remove(usize::try_from(victim).unwrap()));
            }
            steps += 1;
            assert!(steps < TOO_LONG, "it does not come to an end");
            if running.is_empty() && to_come == 0 {
                break;
            }
        }
        self.heal();
        self.check()
    }

    fn kill(&self, process: Process) {
        self.machine.executor.kill(process);
        // The death of a process closes the bell that it held open.
        self.machine.ledger.ring();
        self.machine.ring();
    }

    /// A process: it recovers, as every command does, and then does a few things one after another.
    fn start_process(&mut self) -> Process {
        let (process, engine) = self.engine();
        let (machine, told) = (Arc::clone(&self.machine), Arc::clone(&self.told));
        let task = async move {
            recover(&engine).await;
            let deeds = 1 + machine.executor.chance(|chance| chance.below(4));
            for _ in 0..deeds {
                deed(&machine, &engine, &told).await;
                machine.executor.pause().await;
            }
        };
        self.machine.executor.spawn(process, Box::pin(task));
        process
    }

    /// No more troubles: commands run one after another until nothing is left to do.
    fn heal(&mut self) {
        *self.machine.faults.lock().unwrap() = Faults::default();
        let executor = self.machine.executor.clone();
        for _ in 0..50 {
            let (process, engine) = self.engine();
            executor.spawn(
                process,
                Box::pin(async move {
                    recover(&engine).await;
                    engine.sweep(Sweep::Really, None).await.unwrap();
                }),
            );
            let mut steps = 0;
            while executor.alive(process) && executor.step() {
                steps += 1;
                assert!(steps < TOO_LONG, "it does not heal");
            }
            self.kill(process);
            if self.at_rest() {
                return;
            }
            // Timers that are due later, and workers that run on.
            let until = executor.now() + 20_000;
            let wait = executor.sleep_until(until);
            executor.spawn(process, Box::pin(wait));
            while executor.alive(process) && executor.step() {}
        }
        panic!("nobody brings it to rest");
    }

    fn at_rest(&self) -> bool {
        let ledger = &self.machine.ledger;
        let carried = now(ledger.carried()).unwrap();
        let due = now(ledger.next_due()).unwrap();
        let alive = self.machine.state().workers.values().any(|worker| worker.alive);
        carried.is_empty() && due.is_none() && !alive
    }

    fn check(&self) -> String {
        let (ledger, state) = (&self.machine.ledger, self.machine.state());
        let told = self.told.lock().unwrap();
        let mut story = String::new();
        assert!(state.leases.is_empty(), "a lease is left: {:?}", state.leases);
        assert!(
            state.busiest <= self.room as usize,
            "{} ran at once, with room for {}",
            state.busiest,
            self.room
        );
        for (id, worker) in &state.workers {
            assert!(!worker.alive && worker.runs <= 1, "{id}: {worker:?}");
        }
        for (thread_id, first) in &told.accepted {
            let view = now(ledger.thread(thread_id)).unwrap().expect("what was accepted is not lost");
            let entries = now(ledger.read(thread_id, 0, usize::MAX)).unwrap();
            let mut folded: Option<Thread> = None;
            for (entry, seq) in entries.iter().zip(1..) {
                assert_eq!(entry.seq, seq);
                folded = Some(match folded {
                    None => Thread::begin(&entry.what).unwrap(),
                    Some(thread) => thread.after(&entry.what).unwrap(),
                });
            }
            assert_eq!(folded.as_ref(), Some(&view.thread), "replay is what was live");
            assert!(entries.windows(2).all(|pair| pair[0].at <= pair[1].at), "time runs forward");
            assert_eq!(view.thread.dispatches()[0].0, *first);
            let waits = matches!(view.thread.state(), ThreadState::Waiting);
            assert!(waits || view.thread.has_ended(), "{thread_id} rests: {:?}", view.thread.state());
            assert!(waits || !state.secrets.contains(thread_id), "{thread_id}: its secrets are gone");
            for entry in &entries {
                writeln!(story, "{thread_id} {} {}", entry.seq, entry.what.kind()).unwrap();
                if let Happening::Event(event) = &entry.what
                    && event.is_terminal()
                {
                    self.check_end(event, state.outcomes.get(event.dispatch_id()));
                    let id = event.dispatch_id();
                    assert!(!state.workspaces.contains(id), "{id}: its workspace is left");
                }
            }
        }
        story
    }

    /// What is recorded is what is stored, whoever stored it.
    fn check_end(&self, recorded: &Event, stored: Option<&String>) {
        let stored = stored.expect("an end goes by a stored outcome");
        let line = Line::parse(stored, &self.machine.keys.event_key(recorded.dispatch_id())).unwrap();
        assert_eq!(line.said, Said::Event(recorded.clone()));
    }
}

/// What every command does first. What nobody carries is carried to its rest.
async fn recover(engine: &Engine) {
    if let Ok(found) = engine.recover().await {
        for thread in found.orphans {
            let _ = engine.carry_aside(&thread).await;
        }
    }
}

async fn deed(machine: &Machine, engine: &Engine, told: &Mutex<Told>) {
    let known: Vec<ThreadId> =
        told.lock().unwrap().accepted.iter().map(|(thread, _)| thread.clone()).collect();
    let any = |machine: &Machine| {
        let place = machine.executor.chance(|chance| chance.below(known.len() as u64));
        known.get(usize::try_from(place).unwrap()).cloned()
    };
    match machine.executor.chance(|chance| chance.below(10)) {
        0..5 => {
            let job = job(machine, engine);
            let (thread, dispatch) = (job.thread_id.clone(), job.dispatch_id.clone());
            machine.state().secrets.insert(thread.clone());
            if engine.accept(job, None).await.is_ok() {
                told.lock().unwrap().accepted.push((thread.clone(), dispatch));
                let _ = engine.carry_aside(&thread).await;
            }
        }
        5..8 => {
            if let Some(thread) = any(machine)
                && let Ok(view) = engine.cancel(&thread).await
            {
                // Nothing of it is left when the cancel returns.
                let state = machine.state();
                for (dispatch, _) in view.thread.dispatches() {
                    assert!(
                        !state.workers.get(dispatch).is_some_and(|worker| worker.alive),
                        "{dispatch} is alive"
                    );
                }
            }
        }
        8 => {
            if let Some(thread) = any(machine)
                && engine.go_on(&thread, Some("more".to_owned()), Attendance::Watched).await.is_ok()
            {
                let _ = engine.carry_aside(&thread).await;
            }
        }
        _ => recover(engine).await,
    }
}

fn job(machine: &Machine, engine: &Engine) -> Job {
    let mut entropy = [0; 10];
    engine.world().entropy.draw(&mut entropy);
    let thread_id = ThreadId::from_entropy(entropy);
    engine.world().entropy.draw(&mut entropy);
    let subagent = ResolvedBundle {
        name: "planner".parse().unwrap(),
        content_hash: ContentHash::of(b"planner"),
        registered_at: Timestamp::from_millis(0),
    };
    let mut job = Job::new(JobEssentials {
        namespace: Namespace::default(),
        dispatch_id: DispatchId::from_entropy(entropy),
        thread_id,
        resolved: Resolved { subagent, capabilities: Vec::new(), env: Vec::new() },
        runtime: "command".to_owned(),
        input: serde_json::Map::new(),
        limits: Limits { timeout_seconds: 30, memory_bytes: None, processes: None, budget: None },
        target: "local".parse().unwrap(),
        retention_days: 30,
        overtime_seconds: 60,
        salt: String::new(),
    });
    machine.executor.chance(|chance| {
        job.priority = i32::try_from(chance.below(3)).unwrap();
        if chance.one_of(500) {
            job.attendance = Attendance::Detached;
        }
    });
    job
}

/// Runs what never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("it waits"),
    }
}
