//! The terminal of a person who took a thread over. The worker never speaks through it: it is the agent's.

use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread::{self, JoinHandle};

use agora_core::provider::compute::Terminal;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::child::{Stopper, Why};
use crate::descriptors;

/// Takes the terminal that comes before the bootstrap, where standard input is a socket. A pipe brings none.
pub(crate) fn receive(stdin: impl AsFd) -> io::Result<Option<Terminal>> {
    // With a byte of its own, and not one of the bootstrap's.
    match descriptors::receive(stdin) {
        Ok(ends) => Ok(ends.into_iter().next().map(Terminal::new)),
        Err(Errno::NOTSOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Watches whether anybody sits at a terminal, until this is dropped.
#[derive(Debug)]
pub(crate) struct Vigil {
    /// Dropping it is the sign that nobody needs to watch any more.
    over: Option<PipeWriter>,
    watcher: Option<JoinHandle<()>>,
}

impl Vigil {
    /// Stops the agent when the other end of its terminal is closed: one that does not care for that would go on for nobody.
    pub(crate) fn keep(terminal: Terminal, agent: Stopper) -> io::Result<Self> {
        let (ended, over) = io::pipe()?;
        let watch = move || {
            if hangs_up(terminal.as_fd(), ended.as_fd()) {
                agent.stop(Why::Terminal);
            }
        };
        let watcher = thread::Builder::new().name("terminal".into()).spawn(watch)?;
        Ok(Self { over: Some(over), watcher: Some(watcher) })
    }
}

impl Drop for Vigil {
    fn drop(&mut self) {
        self.over = None;
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

/// Returns true when the terminal's other end is closed, and false when the watch is over before that.
fn hangs_up(terminal: BorrowedFd<'_>, ended: BorrowedFd<'_>) -> bool {
    loop {
        let mut both = [
            PollFd::from_borrowed_fd(terminal, PollFlags::empty()),
            PollFd::from_borrowed_fd(ended, PollFlags::IN),
        ];
        match poll(&mut both, None) {
            Ok(_) if !both[1].revents().is_empty() => return false,
            Ok(_) if both[0].revents().contains(PollFlags::HUP) => return true,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
