//! A terminal that a command is started in: what it writes there, as a person's terminal would get it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A command in a terminal of its own.
#[derive(Debug)]
pub struct Terminal {
    master: File,
    name: String,
    child: Child,
    seen: String,
}

impl Terminal {
    /// Starts a command whose three streams are a terminal of that width.
    pub fn start(mut command: Command, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let side =
            || OwnedFd::from(OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap());
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        // With it goes our own copy of the other side: else its end would never be heard of.
        drop(command);
        let name = name.to_str().unwrap().to_owned();
        Self { master: File::from(master), name, child, seen: String::new() }
    }

    /// Asks the command to end, as Ctrl-C does.
    pub fn interrupt(&self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    }

    /// Ends what the command has started.
    pub fn end_children(&self) {
        let id = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        for child in children.split_whitespace() {
            let child = rustix::process::Pid::from_raw(child.parse().unwrap()).unwrap();
            rustix::process::kill_process(child, rustix::process::Signal::TERM).unwrap();
        }
    }

    /// Makes the terminal another size, and tells the command as a shell's terminal does.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size).unwrap();
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::WINCH).unwrap();
    }

    /// Returns the name of the side that the command has.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Forgets what has come so far: what is read next is new.
    pub fn forget(&mut self) {
        self.seen.clear();
    }

    /// Returns how the terminal treats keys, as `stty` shows it.
    pub fn habits(&self) -> String {
        format!("{:?}", rustix::termios::tcgetattr(&self.master).unwrap())
    }

    /// Kills the command, and only it, and closes its terminal.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Types, as a person would.
    pub fn type_text(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Reads until a text has come, and returns everything so far.
    pub fn read_until(&mut self, text: &str) -> &str {
        while !self.seen.contains(text) {
            assert!(self.read(), "the command ended without `{text}`: {}", self.seen);
        }
        &self.seen
    }

    /// Reads until a text has come so many times since the beginning.
    pub fn read_times(&mut self, text: &str, times: usize) -> &str {
        while self.seen.matches(text).count() < times {
            assert!(self.read(), "the command ended without `{text}`, {times} times: {}", self.seen);
        }
        &self.seen
    }

    /// Reads until one of some texts is on the screen, however it was put there, and returns which: programs that draw move the cursor
    /// instead of writing spaces.
    pub fn read_until_shown(&mut self, texts: &[&str]) -> usize {
        let wanted: Vec<String> = texts.iter().map(|text| drawn(text)).collect();
        loop {
            let shown = drawn(&self.seen);
            if let Some(place) = wanted.iter().position(|text| shown.contains(text)) {
                return place;
            }
            assert!(self.read(), "the command ended without {texts:?}: {shown}");
        }
    }

    /// Presses a key again and again until a text is on the screen, as a person does whose key was not heard: programs take no keys in
    /// the moment in which they draw something new.
    pub fn press_until_shown(&mut self, keys: &str, text: &str) {
        let wanted = drawn(text);
        while !drawn(&self.seen).contains(&wanted) {
            self.press(keys);
            while self.says_more() && !drawn(&self.seen).contains(&wanted) {
                assert!(self.read(), "the command ended without `{text}`: {}", drawn(&self.seen));
            }
        }
    }

    /// Tells whether something comes within the patience of a person.
    fn says_more(&self) -> bool {
        let patience = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
        let mut master = [rustix::event::PollFd::new(&self.master, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut master, Some(&patience)).unwrap() > 0
    }

    /// Types keys.
    pub fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
        self.master.flush().unwrap();
    }

    /// Reads to the end, and returns everything with the code that the command ended with.
    pub fn finish(mut self) -> (String, Option<i32>) {
        while self.read() {}
        let code = self.child.wait().unwrap().code();
        (self.seen, code)
    }

    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        // When nobody has the other side open any more, the kernel says that there is an error.
        let count = self.master.read(&mut bytes).unwrap_or(0);
        let new = String::from_utf8_lossy(&bytes[..count]).into_owned();
        // As every terminal does: programs that draw ask where the cursor is and what this is, and wait for the answer.
        for (asked, answer) in [("\x1b[6n", "\x1b[1;1R"), ("\x1b[c", "\x1b[?1;2c")] {
            if new.contains(asked) {
                self.press(answer);
            }
        }
        self.seen.push_str(&new);
        count > 0
    }
}

/// Returns the letters of what was shown, without what moves the cursor, colours or spaces.
fn drawn(seen: &str) -> String {
    let (mut letters, mut shown) = (seen.chars().peekable(), String::new());
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\x1b', Some('[')) => {
                letters.next();
                while letters.next().is_some_and(|letter| !('@'..='~').contains(&letter)) {}
            }
            ('\x1b', Some(']')) => {
                while letters.next().is_some_and(|letter| letter != '\x07' && letter != '\\') {}
            }
            ('\x1b', Some(_)) => drop(letters.next()),
            (letter, _) if letter.is_whitespace() || letter.is_control() => {}
            (letter, _) => shown.push(letter),
        }
    }
    shown
}
