//! The process between the worker and a program: it starts the program, and lets nothing of it survive.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, chdir, getpid, kill_process_group, set_child_subreaper,
    set_dumpable_behavior, setsid, wait,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::control::{Frame, Obstacle, Order, Report, Swept, Task};
use super::deadline::Deadline;
use super::group::Group;
use super::launch::{Grouped, Launched, launch};
use super::spec::SoftSignal;
use super::streams::Theirs;
use super::tree;
use crate::sandbox::syscall::{adopt, inherit_only_standard_streams};

/// The code for a command line that no keeper wrote.
const USAGE: u8 = 2;
/// How often limits are looked at that the kernel does not keep. A tree of a hundred processes is read in a millisecond.
const TICK: Duration = Duration::from_millis(200);
/// How long a sweep may take. Everything was sent SIGKILL; only what hangs in the kernel, or is not ours to kill, stays.
const SWEEP: Duration = Duration::from_secs(5);
/// How long to wait for a death that is on its way before looking again.
const PAUSE: Duration = Duration::from_millis(5);

/// Runs as a guard: the whole life of `agora-worker guard` and of `agora worker guard`, whose further arguments these are.
pub fn guard(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let number = arguments.into_iter().next().and_then(|number| number.to_str()?.parse().ok());
    let Some(Ok(control)) = number.map(adopt) else { return ExitCode::from(USAGE) };
    ExitCode::from(stand(UnixStream::from(control), prepare))
}

/// Runs as a guard that was forked, and has neither a task nor its program's streams yet. Returns the code to end with.
pub(super) fn wait_for_task(control: UnixStream) -> u8 {
    // Before anybody waits for it.
    let prepared = prepare();
    match Theirs::receive(&control) {
        Ok(Some(streams)) => stand(control, || prepared.and_then(|()| streams.take().map_err(obstacle))),
        // The worker has ended, or has no use for it.
        Ok(None) | Err(_) => 0,
    }
}

/// Does what a guard is there for, from its task to its last word.
fn stand(mut control: UnixStream, prepare: impl FnOnce() -> Result<(), Obstacle>) -> u8 {
    let Ok(Some(task)) = Task::read(&mut control) else { return USAGE };
    let group = Group { dirs: task.groups.clone() };
    // The bell after the launch: what is launched may be a first process, with a bell of its own.
    let launched = prepare().and_then(|()| launch(&task, &group));
    let report = match launched.and_then(|launched| Ok((launched, bell().map_err(obstacle)?))) {
        Ok((Launched { agent, grouped, init }, deaths)) => {
            let watched = Watched::new(&task, &group, grouped);
            Guard { control: &mut control, deaths, agent: Some(agent), init, group, watched }.keep(agent)
        }
        Err(obstacle) => {
            group.remove();
            Report::NotStarted(obstacle)
        }
    };
    // A worker that is gone does not mind.
    let _ = report.write(&mut control);
    0
}

/// Makes this process fit to be a guard.
fn prepare() -> Result<(), Obstacle> {
    let prepare = || {
        inherit_only_standard_streams()?;
        // So that a guard keeps no directory busy.
        chdir("/")?;
        // A guard is not to be ended by a terminal, nor by whoever ends all processes politely: it would end last, and does.
        // Handlers, not ignoring, which the program would inherit.
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
        setsid()?;
        set_child_subreaper(Some(getpid()))?;
        Ok(())
    };
    prepare().map_err(obstacle)
}

fn obstacle(error: io::Error) -> Obstacle {
    Obstacle::Guard(error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()))
}

/// Returns where the death of a child is told.
pub(super) fn bell() -> io::Result<UnixStream> {
    let (deaths, bell) = UnixStream::pair()?;
    deaths.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGCHLD, bell)?;
    Ok(deaths)
}

/// The limits that the guard has to look at itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    Nothing,
    /// What a group of version 1 does at its limit: it kills one process, and the rest goes on without it.
    Group,
    Tree {
        memory: Option<u64>,
        processes: Option<u32>,
    },
}

impl Watched {
    fn new(task: &Task, group: &Group, grouped: Grouped) -> Self {
        match (grouped, task) {
            (Grouped::Yes, _) if group.needs_watching() => Self::Group,
            (Grouped::Yes, _) | (_, Task { memory: None, processes: None, .. }) => Self::Nothing,
            (Grouped::No, Task { memory, processes, .. }) => {
                Self::Tree { memory: *memory, processes: *processes }
            }
        }
    }
}

struct Guard<'a> {
    control: &'a mut UnixStream,
    deaths: UnixStream,
    /// `None` once it was waited for: from then on its id may be somebody else's.
    agent: Option<Pid>,
    /// The way to the first process of its namespaces, which then is `agent`.
    init: Option<UnixStream>,
    group: Group,
    watched: Watched,
}

/// What waiting for children came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaped {
    /// And there are no more children.
    Everyone,
    Somebody,
    Nobody,
}

impl Guard<'_> {
    /// Stays until the program has ended, or shall end, and returns when everything is gone.
    fn keep(mut self, agent: Pid) -> Report {
        let _ = Report::Started(agent.as_raw_nonzero().get()).write(self.control);
        let_go_of_streams();
        // From here on, nobody but root opens its descriptors or reads its memory. Not earlier: what becomes the program may have
        // to write files about itself, which would be root's too.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        let mut found = self.watch();
        found.leftovers = !self.sweep();
        found.out_of_memory |= self.group.was_out_of_memory();
        found.too_many_processes |= self.group.was_full();
        self.group.remove();
        Report::Swept(found)
    }

    /// Watches until there is a reason to sweep.
    fn watch(&mut self) -> Swept {
        let tick = (self.watched != Watched::Nothing).then_some(TICK);
        let mut next_look = Deadline::after_if_any(tick);
        // Somebody may have died before there was a bell.
        self.reap();
        if self.agent.is_none() {
            return Swept::default();
        }
        loop {
            let ordered = self.news_within(next_look.left());
            self.reap();
            if self.agent.is_none() || (ordered && !self.obey()) {
                return Swept::default();
            }
            if next_look.passed() {
                next_look = Deadline::after_if_any(tick);
                if let Some(found) = self.passed_limit() {
                    return found;
                }
            }
        }
    }

    /// Waits for the death of a child or a word from the worker, and tells whether there is a word.
    fn news_within(&mut self, time: Option<Duration>) -> bool {
        let timeout = time.and_then(|time| Timespec::try_from(time).ok());
        let [ordered, died] = news(&*self.control, &self.deaths, timeout.as_ref());
        if died {
            hear_bell(&mut self.deaths);
        }
        ordered
    }

    /// Waits for all children that are dead, also for orphans, and tells the worker of the program's end.
    fn reap(&mut self) -> Reaped {
        let mut reaped = Reaped::Nobody;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((id, status))) => {
                    reaped = Reaped::Somebody;
                    if self.agent == Some(id)
                        && let Some(how) = tree::how(status)
                    {
                        self.agent = None;
                        // A first process ends after the program, and has said how that ended, unless it was killed.
                        let said = self.init.as_mut().and_then(|init| Report::read(init).ok().flatten());
                        let how = if let Some(Report::Ended(said)) = said { said } else { how };
                        let _ = Report::Ended(how).write(self.control);
                    }
                }
                Ok(None) => return reaped,
                Err(_) => return Reaped::Everyone,
            }
        }
    }

    /// Does what the worker wants, and tells whether the program may go on. It may not when the worker is gone.
    fn obey(&mut self) -> bool {
        let Ok(Some(Order::Soft(signal))) = Order::read(self.control) else { return false };
        match (self.agent, &mut self.init) {
            (Some(_), Some(init)) => drop(Order::Soft(signal).write(init)),
            (Some(agent), None) => ask(agent, signal),
            (None, _) => {}
        }
        true
    }

    fn passed_limit(&self) -> Option<Swept> {
        let (out_of_memory, too_many_processes) = match self.watched {
            Watched::Nothing => (false, false),
            Watched::Group => (self.group.was_out_of_memory(), false),
            Watched::Tree { memory, processes } => {
                let (usage, tree) = tree::usage();
                let more =
                    |limit| usage.more_memory_than(limit, tree::in_files(&tree, self.init.is_some()), &tree);
                (memory.is_some_and(more), processes.is_some_and(|limit| usage.processes > u64::from(limit)))
            }
        };
        let passed = out_of_memory || too_many_processes;
        passed.then(|| Swept { out_of_memory, too_many_processes, ..Swept::default() })
    }

    /// Kills until nobody is left, and tells whether that is so.
    fn sweep(&mut self) -> bool {
        let deadline = Deadline::after(SWEEP);
        while self.reap() != Reaped::Everyone {
            self.group.kill();
            if self.chase() == Reaped::Everyone {
                return true;
            }
            tree::kill_below(&|_| false);
            if deadline.passed() {
                return false;
            }
            self.news_within(Some(PAUSE));
        }
        true
    }

    /// Kills children as fast as they come: one that starts its successor and ends must be met before it has done so.
    fn chase(&mut self) -> Reaped {
        let deadline = Deadline::after(SWEEP / 10);
        let mut met = Vec::new();
        loop {
            let children = tree::children();
            children.iter().for_each(|child| tree::kill_child(*child));
            let reaped = self.reap();
            if reaped == Reaped::Everyone
                || (reaped == Reaped::Nobody && met == children)
                || deadline.passed()
            {
                return reaped;
            }
            met = children;
        }
    }
}

/// Asks a program, and whatever is in its group, to end.
pub(super) fn ask(program: Pid, signal: SoftSignal) {
    let signal = match signal {
        SoftSignal::Terminate => Signal::TERM,
        SoftSignal::Interrupt => Signal::INT,
        SoftSignal::HangUp => Signal::HUP,
    };
    let _ = kill_process_group(program, signal);
    // A program that was stopped could not act on it.
    let _ = kill_process_group(program, Signal::CONT);
}

/// Waits, and tells whether there is an order and whether a child has died.
pub(super) fn news(orders: &UnixStream, deaths: &UnixStream, timeout: Option<&Timespec>) -> [bool; 2] {
    let mut news = [PollFd::new(orders, PollFlags::IN), PollFd::new(deaths, PollFlags::IN)];
    // An interruption is a signal, and the only one that matters rings the bell as well.
    let _ = poll(&mut news, timeout);
    news.map(|one| !one.revents().is_empty())
}

pub(super) fn hear_bell(deaths: &mut UnixStream) {
    let mut bells = [0; 64];
    while deaths.read(&mut bells).is_ok_and(|read| read == bells.len()) {}
}

/// Closes the program's streams on this side, so that they end when the program closes them.
pub(super) fn let_go_of_streams() {
    // Not `/dev/null`: an empty container has none.
    if let Ok((end, _)) = UnixStream::pair() {
        let _ = dup2_stdin(&end).and_then(|()| dup2_stdout(&end)).and_then(|()| dup2_stderr(&end));
    }
}
