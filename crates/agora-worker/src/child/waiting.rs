//! A guard that was made before it is needed: a fork of the worker, from when that had one thread and knew no secret.
//!
//! To start the executable once more takes as long as a short program does, most of it in what the C library asks the processor about
//! itself. So the first program of a worker, which mostly is the only one, gets a guard that is there already. Every other one,
//! and the first where somebody killed this guard, gets one that is started.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::thread::set_name;

use super::family::{enrol, strike};
use super::guard::{let_go_of_streams, wait_for_task};
use crate::sandbox::syscall::{close_all_but, forget_environment, fork_into};

/// What `ps` calls it: its arguments are the worker's.
const NAME: &std::ffi::CStr = c"agora-guard";
/// What it keeps of the worker's environment: whose it is.
const KEPT: [&str; 2] = ["AGORA_DISPATCH_ID", "AGORA_DISPATCH_DIR"];

/// A guard without a task. Dropped without one, it is ended.
#[derive(Debug)]
pub struct Waiting {
    pub(super) process: Forked,
    pub(super) control: UnixStream,
}

impl Waiting {
    /// Makes one, which holds on to `life` for as long as it lives. Only for a process with one thread, as `fork_into`.
    pub(crate) fn fork(life: impl AsFd) -> io::Result<Self> {
        let (control, theirs) = UnixStream::pair()?;
        let life = life.as_fd().as_raw_fd();
        let id = fork_into(move || {
            close_all_but(&[theirs.as_raw_fd(), life]);
            forget_environment(&KEPT);
            let _ = set_name(NAME);
            // The worker's are not for a guard to keep open.
            let_go_of_streams();
            wait_for_task(theirs)
        })?;
        enrol(id);
        Ok(Self { process: Forked { id, waited_for: false }, control })
    }
}

/// A child of this process that it forked.
#[derive(Debug)]
pub(super) struct Forked {
    id: Pid,
    /// From then on its id may be somebody else's.
    waited_for: bool,
}

impl Forked {
    pub(super) fn id(&self) -> Pid {
        self.id
    }

    pub(super) fn kill(&self) {
        if !self.waited_for {
            let _ = kill_process(self.id, Signal::KILL);
        }
    }

    pub(super) fn wait(&mut self) {
        while !self.waited_for {
            self.waited_for = !matches!(waitpid(Some(self.id), WaitOptions::empty()), Err(Errno::INTR));
        }
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        self.kill();
        self.wait();
        strike(self.id);
    }
}
