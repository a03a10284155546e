//! Keys from a terminal, one at a time: not a line, and not echoed. The terminal is as it was when this is dropped.

use std::io::{self, IsTerminal, Write};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcsetattr,
};
use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level;

/// How long the rest of a key's sequence may take after its first byte. A person's escape key has no rest.
const SEQUENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// What a terminal is told so that it says where a pasted text begins and ends, and that it need not any more.
const PASTE_IS_SAID: &str = "\x1b[?2004h";
const PASTE_IS_NOT_SAID: &str = "\x1b[?2004l";

/// With this a pasted text ends.
const PASTE_END: &[u8] = b"\x1b[201~";

/// The longest text that may be pasted: as much as an answer may have.
const PASTE_BYTES: usize = 1 << 20;

/// A key that means something here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    Delete,
    Backspace,
    /// Everything before the cursor goes.
    EraseLine,
    EraseWord,
    Enter,
    Escape,
    /// Ctrl-C, or nobody is there any more.
    Interrupt,
    Character(char),
    Pasted(String),
}

/// What is heard first.
enum First {
    Byte(u8),
    /// A signal, or there will be no byte.
    Interrupt,
    Over,
}

/// The terminal that a person types at, in a mode in which every key is heard.
#[derive(Debug)]
pub(crate) struct Keys<'a> {
    before: Termios,
    /// Closed at its other end when nothing is asked any more.
    over: &'a UnixStream,
    /// Hears of signals, which a read would not wake up for.
    signals: UnixStream,
    listened: Vec<SigId>,
}

impl<'a> Keys<'a> {
    /// Takes over standard input. `None` where it is no terminal.
    pub(crate) fn listen(over: &'a UnixStream) -> io::Result<Option<Self>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let (signals, told) = UnixStream::pair()?;
        let mut listened = Vec::new();
        for signal in [SIGINT, SIGTERM] {
            listened.push(low_level::pipe::register(signal, told.try_clone()?)?);
        }
        let before = tcgetattr(&stdin)?;
        let mut now = before.clone();
        now.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        now.special_codes[SpecialCodeIndex::VMIN] = 1;
        now.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&stdin, OptionalActions::Drain, &now)?;
        tell(PASTE_IS_SAID);
        Ok(Some(Self { before, over, signals, listened }))
    }

    /// Waits for the next key that means something. The end of the input is an interruption: nobody is there any more. `None`: there
    /// is nothing to press a key for any more.
    pub(crate) fn next(&mut self) -> io::Result<Option<Key>> {
        loop {
            let first = match self.first()? {
                First::Byte(first) => first,
                First::Interrupt => return Ok(Some(Key::Interrupt)),
                First::Over => return Ok(None),
            };
            let key = match first {
                b'\r' | b'\n' => Some(Key::Enter),
                3 | 4 => Some(Key::Interrupt),
                1 => Some(Key::Home),
                5 => Some(Key::End),
                8 | 0x7f => Some(Key::Backspace),
                0x15 => Some(Key::EraseLine),
                0x17 => Some(Key::EraseWord),
                0x1b => self.sequence()?,
                first => character(first)?.map(Key::Character),
            };
            if key.is_some() {
                return Ok(key);
            }
        }
    }

    /// Waits for a byte, a signal, or that there is nothing to wait for.
    fn first(&self) -> io::Result<First> {
        let stdin = io::stdin();
        loop {
            let mut any = [
                PollFd::new(&stdin, PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
                PollFd::new(self.over, PollFlags::IN),
            ];
            match poll(&mut any, None) {
                Ok(_) if !any[1].revents().is_empty() => return Ok(First::Interrupt),
                Ok(_) if !any[2].revents().is_empty() => return Ok(First::Over),
                Ok(_) => return Ok(byte()?.map_or(First::Interrupt, First::Byte)),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads what follows an escape: an arrow, a pasted text, something else, or nothing.
    fn sequence(&self) -> io::Result<Option<Key>> {
        if !follows()? {
            return Ok(Some(Key::Escape));
        }
        if !matches!(byte()?, Some(b'[' | b'O')) {
            return Ok(None);
        }
        let mut number = Vec::new();
        loop {
            return Ok(match byte()? {
                Some(b'A') => Some(Key::Up),
                Some(b'B') => Some(Key::Down),
                Some(b'C') => Some(Key::Right),
                Some(b'D') => Some(Key::Left),
                Some(b'H') => Some(Key::Home),
                Some(b'F') => Some(Key::End),
                Some(b'~') => match number.as_slice() {
                    b"1" | b"7" => Some(Key::Home),
                    b"3" => Some(Key::Delete),
                    b"4" | b"8" => Some(Key::End),
                    b"200" => Some(pasted()?),
                    _ => None,
                },
                Some(0x40..=0x7e) | None => None,
                Some(digit) => {
                    number.push(digit);
                    continue;
                }
            });
        }
    }
}

impl Drop for Keys<'_> {
    fn drop(&mut self) {
        tell(PASTE_IS_NOT_SAID);
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.before);
        for id in self.listened.drain(..) {
            low_level::unregister(id);
        }
    }
}

/// Forgets what was typed and not read yet: whoever typed it had not seen what is asked now.
pub(crate) fn forget() -> io::Result<()> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        tcflush(&stdin, QueueSelector::IFlush)?;
    }
    Ok(())
}

/// Tells the terminal, where it is what standard error goes to.
fn tell(text: &str) {
    let mut stderr = io::stderr().lock();
    if !stderr.is_terminal() {
        return;
    }
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

fn follows() -> io::Result<bool> {
    let stdin = io::stdin();
    let mut poll_for = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut poll_for, Some(&SEQUENCE)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn byte() -> io::Result<Option<u8>> {
    let mut byte = [0];
    // Not through a buffer: it would keep what belongs to whoever reads next.
    let stdin = io::stdin();
    match rustix::io::read(&stdin, &mut byte) {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(byte[0])),
        Err(rustix::io::Errno::INTR) => self::byte(),
        Err(error) => Err(error.into()),
    }
}

/// Reads the rest of a character.
fn character(first: u8) -> io::Result<Option<char>> {
    let rest = match first {
        0x20..0x7f => 0,
        0xc2..=0xdf => 1,
        0xe0..=0xef => 2,
        0xf0..=0xf4 => 3,
        _ => return Ok(None),
    };
    let mut bytes = vec![first];
    for _ in 0..rest {
        bytes.extend(byte()?);
    }
    Ok(String::from_utf8(bytes).ok().and_then(|text| text.chars().next()))
}

/// Reads a text that was pasted, whose line breaks are not the enter key.
fn pasted() -> io::Result<Key> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(PASTE_END) {
        let Some(byte) = byte()? else { return Ok(Key::Interrupt) };
        bytes.push(byte);
        if bytes.len() > PASTE_BYTES {
            return Err(io::Error::other("more than an answer may have was pasted"));
        }
    }
    bytes.truncate(bytes.len() - PASTE_END.len());
    // A terminal sends a line break as the enter key does.
    Ok(Key::Pasted(String::from_utf8_lossy(&bytes).replace("\r\n", "\n").replace('\r', "\n")))
}
