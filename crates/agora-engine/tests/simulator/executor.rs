//! One thread, one order, one clock. What is ready runs in an order that chance decides; when nothing is ready, time passes.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use agora_engine::Task;

use crate::chance::Chance;

/// Which process something belongs to. A process that dies takes everything that is its own with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process(pub(crate) u64);

/// The machine that everything runs on.
#[derive(Clone)]
pub(crate) struct Executor(Arc<Mutex<State>>);

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("now", &self.now()).finish_non_exhaustive()
    }
}

struct State {
    chance: Chance,
    /// Milliseconds.
    now: i64,
    tasks: BTreeMap<u64, (Process, Option<Task>)>,
    ready: Vec<u64>,
    timers: BTreeMap<(i64, u64), Waker>,
    count: u64,
}

struct Alert {
    id: u64,
    executor: Executor,
}

impl Wake for Alert {
    fn wake(self: Arc<Self>) {
        let mut state = self.executor.lock();
        if !state.ready.contains(&self.id) {
            state.ready.push(self.id);
        }
    }
}

impl Executor {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            chance: Chance::new(seed),
            now: 1_763_233_200_000,
            tasks: BTreeMap::new(),
            ready: Vec::new(),
            timers: BTreeMap::new(),
            count: 0,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> i64 {
        self.lock().now
    }

    pub(crate) fn chance<T>(&self, draw: impl FnOnce(&mut Chance) -> T) -> T {
        draw(&mut self.lock().chance)
    }

    pub(crate) fn spawn(&self, process: Process, task: Task) {
        let mut state = self.lock();
        state.count += 1;
        let id = state.count;
        state.tasks.insert(id, (process, Some(task)));
        state.ready.push(id);
    }

    /// Ends a process at whatever it waits for.
    pub(crate) fn kill(&self, process: Process) {
        let dead: Vec<Task> = {
            let mut state = self.lock();
            let ids: Vec<u64> =
                state.tasks.iter().filter(|(_, (owner, _))| *owner == process).map(|(id, _)| *id).collect();
            state.ready.retain(|id| !ids.contains(id));
            ids.iter().filter_map(|id| state.tasks.remove(id)).filter_map(|(_, task)| task).collect()
        };
        // Outside the lock: what is dropped may wake others.
        drop(dead);
    }

    /// Returns which processes have something to do.
    pub(crate) fn alive(&self, process: Process) -> bool {
        self.lock().tasks.values().any(|(owner, _)| *owner == process)
    }

    /// Runs one task that is ready for one step, or lets time pass to the next timer. False: nothing will ever happen again.
    pub(crate) fn step(&self) -> bool {
        let picked = {
            let mut state = self.lock();
            if state.ready.is_empty() {
                let Some(((at, _), waker)) = state.timers.pop_first() else { return false };
                state.now = state.now.max(at);
                drop(state);
                waker.wake();
                return true;
            }
            let choices = state.ready.len() as u64;
            let place = state.chance.below(choices);
            let id = state.ready.swap_remove(usize::try_from(place).unwrap());
            let task = state.tasks.get_mut(&id).and_then(|(_, task)| task.take());
            task.map(|task| (id, task))
        };
        let Some((id, mut task)) = picked else { return true };
        let waker = Waker::from(Arc::new(Alert { id, executor: self.clone() }));
        let done = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut state = self.lock();
        if done {
            state.tasks.remove(&id);
        } else if let Some((_, slot)) = state.tasks.get_mut(&id) {
            *slot = Some(task);
            return true;
        }
        drop(state);
        drop(task);
        true
    }

    /// Waits until a moment.
    pub(crate) fn sleep_until(&self, at: i64) -> Sleep {
        Sleep { executor: self.clone(), at, set: None }
    }

    /// Lets others run, and perhaps some time pass.
    pub(crate) async fn pause(&self) {
        let delay = self.chance(|chance| if chance.one_of(600) { 0 } else { chance.below(200) });
        let at = self.now() + i64::try_from(delay).unwrap();
        Yield(false).await;
        self.sleep_until(at).await;
    }
}

/// Lets others run once.
struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Ends when its moment has come.
pub(crate) struct Sleep {
    executor: Executor,
    at: i64,
    set: Option<(i64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let executor = self.executor.clone();
        let mut state = executor.lock();
        if let Some(set) = self.set.take() {
            state.timers.remove(&set);
        }
        if state.now >= self.at {
            return Poll::Ready(());
        }
        state.count += 1;
        let key = (self.at, state.count);
        state.timers.insert(key, context.waker().clone());
        self.set = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(set) = self.set.take() {
            let waker = self.executor.lock().timers.remove(&set);
            drop(waker);
        }
    }
}
