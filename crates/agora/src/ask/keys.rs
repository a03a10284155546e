//! Keys from a terminal, one at a time: not a line, and not echoed. The terminal is as it was when this is dropped.

use std::io::{self, IsTerminal, Read};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use super::menu::Key;

/// How long the rest of a key's sequence may take after its first byte. A person's escape key has no rest.
const SEQUENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The terminal that a person types at, in a mode in which every key is heard.
#[derive(Debug)]
pub(crate) struct Keys {
    before: Termios,
}

impl Keys {
    /// Takes over standard input. `None` where it is no terminal.
    pub(crate) fn listen() -> io::Result<Option<Self>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(&stdin)?;
        let mut now = before.clone();
        now.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        now.special_codes[SpecialCodeIndex::VMIN] = 1;
        now.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&stdin, OptionalActions::Drain, &now)?;
        Ok(Some(Self { before }))
    }

    /// Waits for the next key that means something. The end of the input is an interruption: nobody is there any more.
    pub(crate) fn next(&mut self) -> io::Result<Key> {
        loop {
            let Some(first) = byte()? else { return Ok(Key::Interrupt) };
            let key = match first {
                b'\r' | b'\n' => Some(Key::Enter),
                3 | 4 => Some(Key::Interrupt),
                0x1b => self.sequence()?,
                first => character(first)?.map(Key::Character),
            };
            if let Some(key) = key {
                return Ok(key);
            }
        }
    }

    /// Reads what follows an escape: an arrow, something else, or nothing.
    fn sequence(&self) -> io::Result<Option<Key>> {
        if !follows()? {
            return Ok(Some(Key::Escape));
        }
        if !matches!(byte()?, Some(b'[' | b'O')) {
            return Ok(None);
        }
        loop {
            match byte()? {
                Some(b'A') => return Ok(Some(Key::Up)),
                Some(b'B') => return Ok(Some(Key::Down)),
                Some(0x40..=0x7e) | None => return Ok(None),
                Some(_) => {}
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.before);
    }
}

fn follows() -> io::Result<bool> {
    let stdin = io::stdin();
    let mut poll_for = [PollFd::new(&stdin, PollFlags::IN)];
    Ok(poll(&mut poll_for, Some(&SEQUENCE))? > 0)
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

/// Reads a line as the terminal gives it, with its own editing. `None` at the end of the input.
pub(crate) fn line() -> io::Result<Option<String>> {
    let mut text = Vec::new();
    let mut bytes = [0; 4096];
    let stdin = io::stdin();
    loop {
        let count = stdin.lock().read(&mut bytes)?;
        text.extend_from_slice(&bytes[..count]);
        if count == 0 && text.is_empty() {
            return Ok(None);
        }
        if count == 0 || text.ends_with(b"\n") {
            let text = String::from_utf8_lossy(&text);
            return Ok(Some(text.strip_suffix('\n').unwrap_or(&text).to_owned()));
        }
    }
}
