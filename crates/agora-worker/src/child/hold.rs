//! The worker's hold on a guard: whatever happens, when it is let go nothing of the child is left.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::control::{Frame, Order, Report, Swept, Task};
use super::deadline::Deadline;
use super::disk::Room;
use super::family::{Member, sweep_orphans};
use super::group::Group;
use super::spec::{How, Why};
use super::waiting::Forked;

/// How long a guard may take from SIGKILL for all, or from the program's end, to its last report. Longer than its own limit
/// for a sweep: one that takes this long was stopped, and the worker does its work.
pub(super) const SWEEPING: Duration = Duration::from_secs(8);

/// How long a program can stop its guard, or hide its death, before that is seen.
const UNSEEN_AT_MOST: Duration = Duration::from_secs(1);

/// How often the disk is looked at: a call of a microsecond.
const DISK: Duration = Duration::from_millis(250);

/// What a waiting worker hears of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Report(Report),
    Stop(Why),
    /// The guard closed its end: it has ended or was killed.
    Gone,
    /// Nothing, until the deadline.
    Late,
}

/// Passes on what a guard says, and that it says no more.
fn listen(ear: &mut UnixStream, to: &Sender<Event>) {
    while let Ok(Some(report)) = Report::read(ear) {
        let _ = to.send(Event::Report(report));
    }
    let _ = to.send(Event::Gone);
}

/// The process that stands guard.
#[derive(Debug)]
pub(super) enum Post {
    Started(Member),
    Forked(Forked),
}

impl Post {
    fn id(&self) -> Option<Pid> {
        match self {
            Self::Started(member) => i32::try_from(member.id()).ok().and_then(Pid::from_raw),
            Self::Forked(forked) => Some(forked.id()),
        }
    }

    fn end(&mut self) {
        match self {
            Self::Started(member) => drop(member.kill().and_then(|()| member.wait())),
            Self::Forked(forked) => {
                forked.kill();
                forked.wait();
            }
        }
    }
}

/// A guard and what belongs to it.
#[derive(Debug)]
pub(super) struct Hold {
    guard: Post,
    control: UnixStream,
    group: Group,
    events: Receiver<Event>,
    pub(super) sender: Sender<Event>,
    ear: Option<JoinHandle<()>>,
    agent: Option<Pid>,
    state: State,
    /// The disk that the program writes to, until it was found too full.
    disk: Option<(PathBuf, Room)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Swept(Swept),
    Gone,
    Released,
}

/// What is known when a hold was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Released {
    pub(super) swept: Swept,
    /// Known when the worker had to sweep itself and met the program.
    pub(super) how: Option<How>,
}

impl Hold {
    /// Takes hold of a guard that speaks through `control`.
    pub(super) fn take(guard: Post, control: UnixStream, group: Group) -> io::Result<Self> {
        let mut hold = Self::of(guard, control, group);
        // From here on the hold tidies up.
        let mut ear = hold.control.try_clone()?;
        let sender = hold.sender.clone();
        let listen = move || listen(&mut ear, &sender);
        hold.ear = Some(thread::Builder::new().name("child-control".into()).spawn(listen)?);
        Ok(hold)
    }

    fn of(guard: Post, control: UnixStream, group: Group) -> Self {
        let (sender, events) = mpsc::channel();
        Self { guard, control, group, events, sender, ear: None, agent: None, state: State::Open, disk: None }
    }

    /// Says what the guard is for.
    pub(super) fn assign(&mut self, task: &Task) -> io::Result<()> {
        task.write(&mut self.control)
    }

    /// Sends an order. When it cannot be sent the guard is gone, which is an event of its own.
    pub(super) fn order(&mut self, order: Order) {
        let _ = order.write(&mut self.control);
    }

    /// Waits for what happens next.
    pub(super) fn next(&mut self, deadline: Deadline) -> Event {
        let event = loop {
            let left = deadline.left().unwrap_or(Duration::MAX);
            let look = if self.disk.is_some() { DISK } else { UNSEEN_AT_MOST };
            match self.events.recv_timeout(left.min(look)) {
                Ok(event) => break event,
                // This end has a sender as well, so the channel does not close: time is up.
                Err(_) if left <= look => break Event::Late,
                Err(_) if self.disk_is_short() => break Event::Stop(Why::Disk),
                // It may have said a lot before it died, and nobody has listened yet: whoever listens hears all of it, and that it
                // is gone, also when somebody else keeps its end open.
                Err(_) if self.guard_is_dead() => drop(self.control.shutdown(Shutdown::Read)),
                Err(_) => {}
            }
        };
        match event {
            Event::Report(Report::Started(id)) => self.agent = Pid::from_raw(id.max(0)),
            Event::Report(Report::Swept(swept)) => self.state = State::Swept(swept),
            Event::Report(Report::NotStarted(_)) => self.state = State::Swept(Swept::default()),
            Event::Gone if self.state == State::Open => self.state = State::Gone,
            Event::Report(_) | Event::Stop(_) | Event::Gone | Event::Late => {}
        }
        event
    }

    /// Watches the disk of a directory from now on.
    pub(super) fn keep_room_on(&mut self, dir: &Path) {
        self.disk = Room::on(dir).map(|room| (dir.to_owned(), room));
    }

    /// Says once that there is too little room.
    fn disk_is_short(&mut self) -> bool {
        self.disk.take_if(|(dir, room)| room.is_short(dir)).is_some()
    }

    /// Looks whether the guard is dead, and lets it go on when it was stopped.
    ///
    /// A program that may send it signals can do both, and one that can open its descriptors can keep its end of the socket
    /// open.
    fn guard_is_dead(&self) -> bool {
        let Some(id) = self.guard.id() else { return false };
        // Left for `release` to wait for.
        let look =
            WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(id), look) {
            Ok(Some(status)) if status.stopped() => kill_process(id, Signal::CONT).is_err(),
            Ok(Some(_)) => true,
            Ok(None) | Err(_) => false,
        }
    }

    /// Lets go: ends the guard, and does its work if it did not do it.
    pub(super) fn release(&mut self) -> Released {
        let state = std::mem::replace(&mut self.state, State::Released);
        // A guard that has reported is done, and one that has not does not answer any more.
        self.guard.end();
        let _ = self.control.shutdown(Shutdown::Both);
        if let Some(ear) = self.ear.take() {
            let _ = ear.join();
        }
        match state {
            State::Swept(swept) => Released { swept, how: None },
            State::Open | State::Gone | State::Released => self.sweep_instead(),
        }
    }

    /// Now that the guard is dead, all that was below it is below the worker.
    fn sweep_instead(&self) -> Released {
        self.group.kill();
        let orphans = sweep_orphans(self.agent);
        let swept = Swept {
            out_of_memory: self.group.was_out_of_memory(),
            too_many_processes: self.group.was_full(),
            leftovers: orphans.leftovers,
        };
        Released { swept, how: orphans.how }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.state == State::Open {
            self.order(Order::Kill);
            let deadline = Deadline::after(SWEEPING);
            while self.state == State::Open && self.next(deadline) != Event::Late {}
        }
        if self.state != State::Released {
            self.release();
        }
        // The guard has done it, unless it was killed.
        self.group.remove();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a guard that is dead at once")]
    fn what_a_guard_said_before_it_died_is_heard_however_late_somebody_listens() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let said = [Report::Ended(How::Exited(0)), Report::Swept(Swept::default())];
        said.iter().for_each(|report| report.write(&mut theirs).unwrap());
        let mut ear = ours.try_clone().unwrap();
        let guard = Member::start(&mut Command::new("/bin/true")).unwrap();
        let mut hold = Hold::of(Post::Started(guard), ours, Group::default());
        let sender = hold.sender.clone();
        hold.ear = Some(thread::spawn(move || {
            // As on a busy machine: it comes to listening only after the death was seen.
            poll(&mut [PollFd::new(&ear, PollFlags::RDHUP)], None).unwrap();
            listen(&mut ear, &sender);
        }));
        // Somebody keeps its end open.
        let _kept = theirs;
        let heard = [(); 3].map(|()| hold.next(Deadline::after(Duration::from_secs(60))));
        assert_eq!(heard, [Event::Report(said[0]), Event::Report(said[1]), Event::Gone]);
    }
}
