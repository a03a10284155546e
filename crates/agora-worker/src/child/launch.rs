//! From a guard to the program: the steps between fork and exec.

use std::io::{self, PipeReader, PipeWriter};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use agora_core::wall::{Level, PROCESSES};
use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, chdir, getegid, geteuid, getpid, getppid, getrlimit,
    ioctl_tiocsctty, set_parent_process_death_signal, setrlimit, setsid, waitpid,
};

use super::control::{Frame, Hitch, Obstacle, Task};
use super::group::Group;
use super::{init, tree};
use crate::sandbox::syscall::{fork_into, fork_into_namespaces};
use crate::sandbox::wall::{Part, Refused, filter, namespaces, restrict, shed};

/// The code of a child that did not become the program, as a shell would end. Nobody sees it but the guard.
pub(super) const NOT_STARTED: u8 = 127;

/// A program that runs.
#[derive(Debug)]
pub(super) struct Launched {
    /// The program, or the first process of its namespaces.
    pub(super) agent: Pid,
    pub(super) grouped: Grouped,
    /// The way to that first process.
    pub(super) init: Option<UnixStream>,
}

/// Whether the limits are in the hands of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouped {
    Yes,
    No,
}

/// Starts the program, and returns when it is running. Only for a process with one thread.
pub(super) fn launch(task: &Task, group: &Group) -> Result<Launched, Obstacle> {
    let unprepared = |error: io::Error| Obstacle::Guard(number_of(&error));
    let (hitches, mouth) = io::pipe().map_err(unprepared)?;
    let room = task.wall.as_ref().filter(|wall| wall.level == Level::Namespaces);
    let (agent, init) = match room {
        Some(wall) => {
            let (ours, theirs) = UnixStream::pair().map_err(unprepared)?;
            let (user, group_id) = (geteuid(), getegid());
            let first = fork_into_namespaces(namespaces(wall.network), move || {
                let mut mouth = mouth;
                match init::enter(wall, task.memory, group, (user, group_id), &mut mouth) {
                    Ok(()) => init::stand(task, theirs, mouth),
                    Err(obstacle) => {
                        let _ = Hitch::Fatal(obstacle).write(&mut mouth);
                        NOT_STARTED
                    }
                }
            });
            let first = first.map_err(|error| {
                Obstacle::Wall(Refused {
                    part: Part::Namespaces,
                    error: Errno::from_io_error(&error).unwrap_or(Errno::IO),
                })
            });
            (first?, Some(ours))
        }
        None => {
            let guard = getpid();
            let agent = fork_into(move || {
                let mut mouth = mouth;
                let obstacle = turn_into_program(task, group, guard, &mut mouth);
                let _ = Hitch::Fatal(obstacle).write(&mut mouth);
                NOT_STARTED
            });
            (agent.map_err(unprepared)?, None)
        }
    };
    let heard = hear_hitches(hitches);
    if heard.is_err() {
        let _ = waitpid(Some(agent), WaitOptions::empty());
    }
    let grouped = if group.dirs.is_empty() { Grouped::No } else { heard? };
    heard.map(|_| Launched { agent, grouped, init })
}

/// Listens until the pipe ends, which is when the child has become the program.
fn hear_hitches(mut hitches: PipeReader) -> Result<Grouped, Obstacle> {
    let mut grouped = Grouped::Yes;
    loop {
        match Hitch::read(&mut hitches) {
            Ok(None) => return Ok(grouped),
            Ok(Some(Hitch::NotGrouped)) => grouped = Grouped::No,
            Ok(Some(Hitch::Fatal(obstacle))) => return Err(obstacle),
            Err(error) => return Err(Obstacle::Guard(number_of(&error))),
        }
    }
}

/// Returns only when it failed.
fn turn_into_program(task: &Task, group: &Group, guard: Pid, mouth: &mut PipeWriter) -> Obstacle {
    // Should the guard be killed, at least the program itself goes at once; the worker sweeps up the rest.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid() != Some(guard) {
        return Obstacle::Guard(rustix::io::Errno::SRCH.raw_os_error());
    }
    go_first();
    if !group.enter() {
        let _ = Hitch::NotGrouped.write(mouth);
    }
    if let Some(wall) = &task.wall {
        let user = wall.agent.unwrap_or_else(|| geteuid().as_raw());
        // The kernel counts what else the user runs.
        limit_processes(tree::of_user(user).saturating_add(u64::from(task.processes.unwrap_or(PROCESSES))));
        if let Err(refused) = shed(wall.agent) {
            return Obstacle::Wall(refused);
        }
    }
    // Should the guard be killed, at least the program itself goes at once; the worker sweeps up the rest. Not earlier: whoever
    // becomes another user loses it.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid() != Some(guard) {
        return Obstacle::Guard(Errno::SRCH.raw_os_error());
    }
    become_program(task)
}

/// The last steps to the program, which are the same behind every wall. Returns only when they failed.
pub(super) fn become_program(task: &Task) -> Obstacle {
    if let Err(error) = setsid() {
        return Obstacle::Guard(error.raw_os_error());
    }
    // The leader of a session has one, by which it is told of Ctrl-C, of another size, and that whoever sat there is gone.
    if task.terminal
        && let Err(error) = ioctl_tiocsctty(std::io::stdin())
    {
        return Obstacle::Guard(error.raw_os_error());
    }
    if let Err(error) = chdir(&task.directory) {
        return Obstacle::Directory(error.raw_os_error());
    }
    if let Some(wall) = &task.wall {
        leave_no_core();
        if let Err(refused) = restrict(wall).and_then(|()| filter(wall)) {
            return Obstacle::Wall(refused);
        }
    }
    Obstacle::Program(number_of(&exec(task)))
}

/// When memory is short, this goes before anything else of the machine: the guard and the worker stay to say so. Only while it
/// is still its own: what has become somebody else may not.
pub(super) fn go_first() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

/// Keeps the memory of a program that crashes, with what it was told in confidence, from the workspace, and from whatever of the machine
/// takes such memory, as root. One byte and not none: that is for both, and none is for the file alone.
fn leave_no_core() {
    let known = getrlimit(Resource::Core);
    let one = |limit: Option<u64>| Some(limit.map_or(1, |limit| limit.min(1)));
    let _ = setrlimit(Resource::Core, Rlimit { current: one(known.maximum), maximum: one(known.maximum) });
}

/// Contains a fork bomb, also where nobody set a limit and where nobody can make a group.
pub(super) fn limit_processes(most: u64) {
    let known = getrlimit(Resource::Nproc);
    let lower = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    let _ =
        setrlimit(Resource::Nproc, Rlimit { current: lower(known.current), maximum: lower(known.maximum) });
}

#[expect(clippy::disallowed_methods, reason = "this module is the one place that starts a process")]
fn exec(task: &Task) -> io::Error {
    let environment = task.environment.iter().map(|(name, value)| (name, value));
    Command::new(Path::new(&task.program)).args(&task.arguments).env_clear().envs(environment).exec()
}

/// Errors that did not come from the system, such as a zero byte in a name, are invalid arguments.
pub(super) fn number_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error())
}
