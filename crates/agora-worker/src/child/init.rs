//! The first process of the namespaces: it makes the room, starts the program, and takes everything with it when it ends.

use std::io::PipeWriter;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use agora_core::wall::PROCESSES;
use rustix::process::{
    DumpableBehavior, Gid, Pid, Signal, Uid, WaitOptions, set_dumpable_behavior,
    set_parent_process_death_signal, wait,
};

use super::control::{Frame, Hitch, Obstacle, Order, Report, Task};
use super::group::Group;
use super::guard::{ask, bell, hear_bell, let_go_of_streams, news};
use super::launch::{NOT_STARTED, become_program, go_first, limit_processes, number_of};
use super::tree;
use crate::sandbox::syscall::{close_all_but, fork_into};
use crate::sandbox::wall::{IdMaps, Plan, furnish, shed};

/// Makes the room, and gives up everything that took.
pub(super) fn enter(
    wall: &Plan,
    memory: Option<u64>,
    group: &Group,
    (user, group_id): (Uid, Gid),
    mouth: &mut PipeWriter,
) -> Result<(), Obstacle> {
    go_first();
    // Early, while the groups can be seen.
    if !group.enter() {
        let _ = Hitch::NotGrouped.write(mouth);
    }
    if !user.is_root() {
        IdMaps::of(user.as_raw(), group_id.as_raw()).write().map_err(Obstacle::Wall)?;
    }
    furnish(wall, memory).map_err(Obstacle::Wall)?;
    // The kernel counts by user and namespace, and this one has nobody in it yet.
    limit_processes(u64::from(PROCESSES));
    shed(wall.agent).map_err(Obstacle::Wall)?;
    // What is in here may be as the program's user is, and must not be the program's to read or to trace.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    // When the guard is killed, everything goes.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| Obstacle::Guard(error.raw_os_error()))
}

/// Starts the program and stays until it has ended, or shall end. To leave then is what ends all others.
pub(super) fn stand(task: &Task, guard: UnixStream, mut mouth: PipeWriter) -> u8 {
    close_all_but(&[guard.as_raw_fd(), mouth.as_raw_fd()]);
    let program = fork_into(|| {
        let _ = Hitch::Fatal(become_program(task)).write(&mut mouth);
        NOT_STARTED
    });
    let program = match program {
        Ok(program) => program,
        Err(error) => {
            let _ = Hitch::Fatal(Obstacle::Guard(number_of(&error))).write(&mut mouth);
            return NOT_STARTED;
        }
    };
    // From here on the program speaks for itself.
    drop(mouth);
    let_go_of_streams();
    if let Ok(deaths) = bell() {
        watch(program, guard, deaths);
    }
    0
}

fn watch(program: Pid, mut guard: UnixStream, mut deaths: UnixStream) {
    loop {
        // Somebody may have died before there was a bell.
        while let Ok(Some((id, status))) = wait(WaitOptions::NOHANG) {
            if id == program
                && let Some(how) = tree::how(status)
            {
                let _ = Report::Ended(how).write(&mut guard);
                return;
            }
        }
        let [ordered, died] = news(&guard, &deaths, None);
        if died {
            hear_bell(&mut deaths);
        }
        if ordered {
            let Ok(Some(Order::Soft(signal))) = Order::read(&mut guard) else { return };
            ask(program, signal);
        }
    }
}
