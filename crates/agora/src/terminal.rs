//! A terminal for somebody else's program, and everything that goes between it and the one that a person sits at.
//!
//! ```text
//!  person ── their terminal ── relay ── our end │ pair │ the program's end ── worker ── wall ── program
//! ```
//!
//! The program has an end of a pair that was made for it, and never the person's own terminal. The relay changes nothing and keeps nothing.

use std::fs::{File, Permissions};
use std::io::{self, IsTerminal, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use signal_hook::consts::SIGWINCH;
use tempfile::TempDir;
use tokio::sync::Notify;

use crate::ui::Form;

/// What a program that was ended in the middle may have left switched on, and no shell expects: a hidden cursor, the mouse, marks
/// around what is pasted, colours.
const CALM: &[u8] =
    b"\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[<u\x1b[0m";

/// Where a person sits.
#[derive(Debug)]
pub(crate) struct Seat {
    keys: OwnedFd,
    screen: OwnedFd,
}

/// A pair of ends: what is written into one is read from the other.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) ours: OwnedFd,
    pub(crate) theirs: OwnedFd,
}

impl Seat {
    /// Finds the person: they type on standard input, and look at standard output, or at standard error where the output is a document.
    /// `None` where nobody is.
    pub(crate) fn find(form: Form) -> io::Result<Option<Self>> {
        let screen = match form {
            Form::Text => io::stdout().is_terminal().then(|| io::stdout().as_fd().try_clone_to_owned()),
            Form::Json => io::stderr().is_terminal().then(|| io::stderr().as_fd().try_clone_to_owned()),
        };
        let Some(screen) = screen.filter(|_| io::stdin().is_terminal()).transpose()? else { return Ok(None) };
        Ok(Some(Self { keys: io::stdin().as_fd().try_clone_to_owned()?, screen }))
    }

    /// Makes a terminal as large as the person's own, and with the same habits.
    pub(crate) fn pair(&self) -> io::Result<Pair> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        // Not ours to be controlled by.
        let theirs = open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
        tcsetattr(&theirs, OptionalActions::Now, &tcgetattr(&self.keys)?)?;
        tcsetwinsize(&ours, tcgetwinsize(&self.screen)?)?;
        Ok(Pair { ours, theirs })
    }

    /// Gives every key to the program, Ctrl-C as well, until this is dropped.
    pub(crate) fn give_keys(&self) -> io::Result<Given<'_>> {
        let before = tcgetattr(&self.keys)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&self.keys, OptionalActions::Drain, &raw)?;
        Ok(Given { seat: self, before })
    }
}

/// A person's terminal in the program's hands. It is as it was when this is dropped, however that comes about.
#[derive(Debug)]
pub(crate) struct Given<'a> {
    seat: &'a Seat,
    before: Termios,
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.seat.screen, CALM);
        let _ = tcsetattr(&self.seat.keys, OptionalActions::Drain, &self.before);
    }
}

/// A person's own terminal while a program of theirs has it. It is as it was when this is dropped, however the program ended.
#[derive(Debug)]
pub(crate) struct Lent(Option<Termios>);

impl Lent {
    /// Remembers how the terminal is now.
    pub(crate) fn now() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(before) = &self.0 else { return };
        if io::stderr().is_terminal() {
            let _ = io::stderr().write_all(CALM);
        }
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, before);
    }
}

/// Makes a directory that nobody else looks into, for what a person's own program writes. It goes when this is dropped.
pub(crate) fn scratch(name: &str) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(name).permissions(Permissions::from_mode(0o700)).tempdir()
}

/// Carries bytes and sizes between the two terminals. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Rung when the program has something to show, which waits for [`Relay::open`].
    pub(crate) begun: Arc<Notify>,
    /// Rung when nobody has the program's end any more.
    pub(crate) ended: Arc<Notify>,
    /// One for keys and one for the screen: a byte lets them through, the end of the file ends it.
    gates: [PipeWriter; 2],
}

impl Relay {
    /// Waits for the program to show something, and tells it of every change of size.
    pub(crate) fn start(seat: &Seat, ours: OwnedFd) -> io::Result<Self> {
        let (begun, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let ((keys_gate, for_keys), (screen_gate, for_screen)) = (io::pipe()?, io::pipe()?);
        let (sizes, bell) = UnixStream::pair()?;
        sizes.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(SIGWINCH, bell)?;
        let (keys, screen) = (File::from(seat.keys.try_clone()?), seat.screen.try_clone()?);
        let program = File::from(ours.try_clone()?);
        let watched = screen.try_clone()?;
        let type_on = move || type_on(keys, &watched, program, sizes, keys_gate);
        thread::Builder::new().name("terminal-keys".into()).spawn(type_on)?;
        let (first, last) = (Arc::clone(&begun), Arc::clone(&ended));
        let show = move || {
            show(File::from(ours), File::from(screen), screen_gate, &first);
            last.notify_one();
        };
        thread::Builder::new().name("terminal-screen".into()).spawn(show)?;
        Ok(Self { begun, ended, gates: [for_keys, for_screen] })
    }

    /// Lets everything through from now on.
    pub(crate) fn open(&mut self) {
        // A thread that is gone has nothing to let through.
        let _ = self.gates.iter_mut().try_for_each(|gate| gate.write_all(b"k"));
    }
}

/// Shows what the program writes, until it is gone or nobody wants to see it any more.
fn show(mut program: File, mut screen: File, mut gate: PipeReader, begun: &Notify) {
    if !matches!(wait([program.as_fd(), gate.as_fd()]), Some([true, false])) {
        return;
    }
    begun.notify_one();
    if !matches!(gate.read(&mut [0]), Ok(1)) {
        return;
    }
    let mut bytes = [0; 16 * 1024];
    while let Some([true, false]) = wait([program.as_fd(), gate.as_fd()]) {
        // When nobody has the other end any more, the kernel says that there is an error.
        let count = program.read(&mut bytes).unwrap_or(0);
        if count == 0 || screen.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

/// Types what the person types, once that is wanted, and passes on every change of size.
fn type_on(mut keys: File, screen: &OwnedFd, mut program: File, mut sizes: UnixStream, mut gate: PipeReader) {
    let (mut open, mut bytes) = (false, [0; 4096]);
    loop {
        // Keys that nobody lets through are not read: they are for whoever reads before.
        let typed = if open { keys.as_fd() } else { gate.as_fd() };
        let Some([typed, resized, told]) = wait([typed, sizes.as_fd(), gate.as_fd()]) else { return };
        if resized {
            let mut rings = [0; 64];
            while sizes.read(&mut rings).is_ok_and(|read| read == rings.len()) {}
            let _ = tcgetwinsize(screen).and_then(|size| tcsetwinsize(&program, size));
        }
        if told {
            match gate.read(&mut [0]) {
                Ok(1) => open = true,
                Ok(_) | Err(_) => return,
            }
        } else if typed && open {
            match keys.read(&mut bytes) {
                // Whoever typed is gone: so is their terminal for the program.
                Ok(0) | Err(_) => return,
                Ok(count) if program.write_all(&bytes[..count]).is_err() => return,
                Ok(_) => {}
            }
        }
    }
}

/// Waits until something can be read, or has ended. `None` when one cannot wait.
fn wait<const N: usize>(from: [BorrowedFd<'_>; N]) -> Option<[bool; N]> {
    let mut news = from.map(|from| PollFd::from_borrowed_fd(from, PollFlags::IN));
    loop {
        match poll(&mut news, None) {
            Ok(_) => return Some(news.map(|one| !one.revents().is_empty())),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}
