//! What a process does: what people and programs ask of an engine, and what it promises them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use agora_core::answer::Answerer;
use agora_core::event::{Resolved, ResolvedBundle};
use agora_core::job::{Attendance, Job, JobEssentials};
use agora_core::wire::manifest::Limits;
use agora_core::{ContentHash, DispatchId, Namespace, QuestionId, ThreadId, Timestamp};
use agora_engine::{AcceptError, Carried, Engine, Novelty, RequestKey, Sweep};

use crate::machine::Machine;
use crate::people::{self, Manner};

/// A thing to ask of an engine.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    Accept(Option<Key>),
    Cancel(ThreadId),
    Continue(ThreadId),
    Answer(ThreadId, Manner),
    Decline(ThreadId),
    /// Carries a thread to its rest, and on when a limit is over, as `--detach` does.
    Attend(ThreadId),
    Recover,
    Sweep(Sweep, Option<u64>),
}

/// A key of the caller's, and what it is used for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    number: u64,
    request: u64,
}

/// What the processes did and were told, which must hold whatever happened to them afterwards.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<Words>);

#[derive(Debug, Default)]
pub(crate) struct Words {
    pub(crate) accepted: Vec<(ThreadId, DispatchId)>,
    pub(crate) keys: BTreeMap<u64, DispatchId>,
    /// Threads that somebody tried to cancel.
    pub(crate) cancels: BTreeSet<ThreadId>,
    /// How often somebody tried to go on with a thread.
    pub(crate) continues: BTreeMap<ThreadId, usize>,
    /// Answers that were told to count, with the dispatch that goes on.
    pub(crate) counted: BTreeMap<QuestionId, DispatchId>,
    /// What was begun by those who died: they, or their callers, try again.
    pub(crate) unfinished: BTreeMap<u64, Deed>,
    begun: u64,
}

impl Told {
    pub(crate) fn words(&self) -> MutexGuard<'_, Words> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deed {
    pub(crate) fn draw(machine: &Machine, told: &Told) -> Self {
        let known: Vec<ThreadId> = told
            .words()
            .accepted
            .iter()
            .map(|(thread, _)| thread.clone())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        machine.executor.chance(|chance| {
            let place = usize::try_from(chance.below(known.len() as u64)).unwrap();
            let thread = known.get(place).cloned();
            match (chance.below(30), thread) {
                (0..5, _) => Self::Accept(None),
                (8..12, Some(thread)) => Self::Cancel(thread),
                (12..14, Some(thread)) => Self::Continue(thread),
                (14..16, Some(thread)) => Self::Attend(thread),
                (16..18, _) => Self::Recover,
                (18, _) => Self::Sweep(Sweep::Really, chance.one_of(500).then(|| chance.below(6))),
                (19, _) => Self::Sweep(Sweep::DryRun, Some(0)),
                (20..28, Some(thread)) => Self::Answer(thread, people::manner(chance)),
                (28, Some(thread)) => Self::Decline(thread),
                _ => {
                    let request = u64::from(chance.one_of(100));
                    Self::Accept(Some(Key { number: chance.below(3), request }))
                }
            }
        })
    }

    /// Does it, and remembers that it was begun until it is done.
    pub(crate) async fn perform(self, machine: &Machine, engine: &Engine, told: &Told) {
        let number = {
            let mut words = told.words();
            words.begun += 1;
            let number = words.begun;
            words.unfinished.insert(number, self.clone());
            number
        };
        match self {
            Self::Accept(key) => accept(key, machine, engine, told).await,
            Self::Cancel(thread) => cancel(&thread, machine, engine, told).await,
            Self::Continue(thread) => go_on(&thread, machine, engine, told).await,
            Self::Answer(thread, manner) => people::answer(&thread, manner, machine, engine, told).await,
            Self::Decline(thread) => people::decline(&thread, machine, engine).await,
            Self::Attend(thread) => {
                if let Ok(Some(lease)) = engine.world().leases.try_take(&thread).await {
                    let _ = engine.carry_on(&thread, &*lease).await;
                }
            }
            Self::Recover => recover(machine, engine).await,
            Self::Sweep(mode, most) => drop(engine.sweep(mode, most).await),
        }
        told.words().unfinished.remove(&number);
    }
}

/// What every command does first. What nobody carries is carried to its rest.
pub(crate) async fn recover(machine: &Machine, engine: &Engine) {
    if let Ok(found) = engine.recover().await {
        if !found.settled.is_empty() {
            machine.note("settled");
        }
        for thread in found.orphans {
            aside(&thread, machine, engine).await;
        }
    }
}

pub(crate) async fn aside(thread: &ThreadId, machine: &Machine, engine: &Engine) {
    if let Ok(Carried::ByUs) = engine.carry_aside(thread).await {
        machine.note("carried aside as asked");
    }
}

async fn accept(key: Option<Key>, machine: &Machine, engine: &Engine, told: &Told) {
    let job = job(machine, engine);
    machine.state().secrets.insert(job.thread_id.clone());
    let asked = key.map(|Key { number, request }| RequestKey {
        key: format!("key {number}"),
        request: ContentHash::of(&request.to_le_bytes()),
    });
    // Whoever carries it right away takes room with the same write; whoever leaves it to others does not.
    let here = machine.executor.chance(|chance| chance.one_of(500));
    let lease = match here {
        true => engine.world().leases.try_take(&job.thread_id).await.ok().flatten(),
        false => None,
    };
    let accepted = match &lease {
        Some(lease) => engine.accept_with_room(job.clone(), asked, &**lease).await,
        None => engine.accept(job.clone(), asked).await,
    };
    let made = match &accepted {
        Ok(accepted) => Some(&accepted.dispatch_id),
        Err(AcceptError::KeyReused(id)) => Some(id),
        Err(_) => None,
    };
    if let (Some(Key { number, .. }), Some(made)) = (key, made) {
        let (mut words, journal) = (told.words(), machine.journal());
        let before = words.keys.insert(number, made.clone()).filter(|before| !journal.is_forgotten(before));
        let same = before.is_none_or(|before| before == *made) || journal.is_forgotten(made);
        assert!(same, "the key {number} has two dispatches");
    }
    if !accepted.as_ref().is_ok_and(|accepted| accepted.dispatch_id == job.dispatch_id) {
        let _ = engine.world().vault.forget(&job).await;
    }
    if let Ok(accepted) = accepted {
        machine.note(match accepted.novelty {
            Novelty::New => "accepted",
            Novelty::Known => "accepted before",
        });
        let promise = (accepted.thread_id.clone(), accepted.dispatch_id.clone());
        told.words().accepted.push(promise);
        match lease.filter(|_| accepted.thread_id == job.thread_id) {
            Some(lease) => {
                let (carrier, thread) = (engine.clone(), accepted.thread_id.clone());
                machine.note("carried from its acceptance");
                engine.world().tasks.start(Box::pin(async move {
                    let _ = carrier.carry_accepted(&thread, &*lease).await;
                }));
            }
            None => aside(&accepted.thread_id, machine, engine).await,
        }
        if machine.executor.chance(|chance| chance.one_of(300)) {
            see_it_end(&accepted.thread_id, &accepted.dispatch_id, machine, engine).await;
        }
    }
}

async fn see_it_end(thread: &ThreadId, dispatch: &DispatchId, machine: &Machine, engine: &Engine) {
    if engine.wait(thread, dispatch).await.is_ok() {
        machine.note("waited for");
        assert!(machine.journal().has_ended(dispatch), "{dispatch} was waited for, and has not ended");
    }
}

async fn cancel(thread: &ThreadId, machine: &Machine, engine: &Engine, told: &Told) {
    told.words().cancels.insert(thread.clone());
    let Ok(view) = engine.cancel(thread, Some(&Answerer::new("user:ann", "cli"))).await else { return };
    assert!(view.thread.has_ended(), "{thread} was cancelled, and is {:?}", view.thread.state());
    // Nothing of it is left when the cancel returns.
    let state = machine.state();
    for (dispatch, _) in view.thread.dispatches() {
        let alive = state.workers.get(dispatch).is_some_and(|worker| worker.alive);
        assert!(!alive, "{dispatch} was cancelled, and its worker is alive");
    }
}

async fn go_on(thread: &ThreadId, machine: &Machine, engine: &Engine, told: &Told) {
    *told.words().continues.entry(thread.clone()).or_default() += 1;
    if let Ok(accepted) = engine.go_on(thread, None, Some("more".to_owned()), Attendance::Watched).await {
        machine.note("continued");
        told.words().accepted.push((accepted.thread_id, accepted.dispatch_id));
        aside(thread, machine, engine).await;
    }
}

pub(crate) fn job(machine: &Machine, engine: &Engine) -> Job {
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
    let (double_leases, limits) = (machine.faults().double_lease > 0, machine.faults().limited > 0);
    machine.executor.chance(|chance| {
        job.priority = i32::try_from(chance.below(3)).unwrap();
        if chance.one_of(if limits { 900 } else { 500 }) {
            job.attendance = Attendance::Detached;
        }
        if chance.one_of(300) {
            // Its time is over about when it ends.
            job.limits.timeout_seconds = u32::try_from(1 + chance.below(3)).unwrap();
            job.overtime_seconds = u32::try_from(chance.below(2)).unwrap();
        }
        // Whoever believes in a lease for longer than an ended thread is kept would find nothing that says that it ended.
        if chance.one_of(300) && !double_leases {
            job.retention_days = 0;
        }
        job.owner = chance.one_of(500).then(|| "user:ann".parse().unwrap());
        if chance.one_of(600) {
            job.routes = people::routes(chance);
        }
    });
    job
}
