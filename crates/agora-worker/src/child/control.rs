//! What the worker and a guard say to each other.
//!
//! On the guard's command line is only which descriptor they speak through: everybody inside can read that line. The task comes first
//! through it, with the program's environment; all else is frames of five bytes: a tag, and a number in the machine's own byte order, since both ends are one
//! executable.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::io::Errno;

use super::spec::{How, SoftSignal};
use crate::sandbox::wall::{Part, Plan, Refused};

/// A task's arguments are one program's, and the kernel takes a few mebibytes of those.
const TASK_BYTES: usize = 64 << 20;

/// What a guard is started for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// The groups to put the program into.
    pub(super) groups: Vec<PathBuf>,
    /// To be watched when there are no groups, or they cannot be entered.
    pub(super) memory: Option<u64>,
    pub(super) processes: Option<u32>,
    /// What is to stand between the program and everything else.
    pub(super) wall: Option<Plan>,
    /// Whether its streams are a terminal that is to be its own.
    pub(super) terminal: bool,
    pub(super) directory: PathBuf,
    /// All that the program sees.
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
}

impl Task {
    /// Writes it: how many bytes it has, then words with a zero byte after each.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut bytes = Vec::new();
        for word in self.to_words()? {
            if word.as_bytes().contains(&0) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            bytes.extend_from_slice(word.as_bytes());
            bytes.push(0);
        }
        to.write_all(&(bytes.len() as u64).to_ne_bytes())?;
        to.write_all(&bytes)
    }

    /// Reads what [`Task::write`] wrote; `None` when it is something else.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut len = [0; 8];
        from.read_exact(&mut len)?;
        let Some(len) = usize::try_from(u64::from_ne_bytes(len)).ok().filter(|len| *len <= TASK_BYTES) else {
            return Ok(None);
        };
        let mut bytes = vec![0; len];
        from.read_exact(&mut bytes)?;
        let Some(words) = bytes.strip_suffix(&[0]) else { return Ok(None) };
        let words = words.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned());
        Ok(Self::parse(words))
    }

    /// Returns the words that [`Task::parse`] reads.
    fn to_words(&self) -> io::Result<Vec<OsString>> {
        let mut line: Vec<OsString> = Vec::new();
        let mut add = |name: &str, value: OsString| line.extend([name.into(), value]);
        self.groups.iter().for_each(|group| add("--group", group.into()));
        self.memory.iter().for_each(|bytes| add("--memory", bytes.to_string().into()));
        self.processes.iter().for_each(|count| add("--processes", count.to_string().into()));
        if let Some(wall) = &self.wall {
            // A path that is no text cannot be said, and is not shown.
            add("--wall", serde_json::to_string(wall).map_err(io::Error::other)?.into());
        }
        if self.terminal {
            add("--terminal", "own".into());
        }
        add("--directory", self.directory.clone().into());
        for (name, value) in &self.environment {
            add("--name", name.clone());
            add("--value", value.clone());
        }
        add("--", self.program.clone());
        line.extend_from_slice(&self.arguments);
        Ok(line)
    }

    /// Takes words apart; `None` when they are not what [`Task::to_words`] makes.
    fn parse(line: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut line = line.into_iter();
        let mut directory = None;
        let (mut groups, mut memory, mut processes, mut wall) = (Vec::new(), None, None, None);
        let (mut terminal, mut environment, mut variable) = (false, Vec::new(), None);
        let program = loop {
            let (name, value) = (line.next()?, line.next()?);
            match name.to_str()? {
                "--group" => groups.push(value.into()),
                "--memory" => memory = Some(number(&value)?),
                "--processes" => processes = Some(number(&value)?),
                "--wall" => wall = Some(serde_json::from_str(value.to_str()?).ok()?),
                "--terminal" => terminal = true,
                "--directory" => directory = Some(value.into()),
                "--name" => variable = Some(value),
                "--value" => environment.push((variable.take()?, value)),
                "--" => break value,
                _ => return None,
            }
        };
        let arguments = line.collect();
        let directory = directory?;
        Some(Self { groups, memory, processes, wall, terminal, directory, environment, program, arguments })
    }
}

fn number<T: std::str::FromStr>(text: &OsStr) -> Option<T> {
    text.to_str()?.parse().ok()
}

/// What the worker wants from a guard. The end of the file means [`Order::Kill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Soft(SoftSignal),
    Kill,
}

/// What a guard tells the worker: [`Report::Started`], [`Report::Ended`] and [`Report::Swept`] in this order, or one of the
/// others alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The program runs under this id.
    Started(i32),
    NotStarted(Obstacle),
    Ended(How),
    /// Nothing is left to do. The groups are gone too.
    Swept(Swept),
}

/// What kept a program from starting, with its error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    Directory(i32),
    Program(i32),
    Guard(i32),
    /// A part of the wall was refused.
    Wall(Refused),
}

/// What was found while sweeping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Swept {
    pub(super) out_of_memory: bool,
    pub(super) too_many_processes: bool,
    pub(super) leftovers: bool,
}

/// What a program in the making tells its guard, before it is the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hitch {
    /// It goes on without the groups.
    NotGrouped,
    Fatal(Obstacle),
}

/// Something that fits into one frame.
pub(super) trait Frame: Sized {
    fn pack(self) -> (u8, i32);
    fn unpack(tag: u8, number: i32) -> Option<Self>;

    fn write(self, to: &mut impl Write) -> io::Result<()> {
        let (tag, number) = self.pack();
        let [a, b, c, d] = number.to_ne_bytes();
        to.write_all(&[tag, a, b, c, d])
    }

    /// Returns `None` at the end of the file, also when it comes in the middle of a frame: the writer was killed.
    fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut bytes = [0; 5];
        match from.read_exact(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let [tag, a, b, c, d] = bytes;
        let frame = Self::unpack(tag, i32::from_ne_bytes([a, b, c, d]));
        frame.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl Frame for Order {
    fn pack(self) -> (u8, i32) {
        match self {
            Self::Soft(SoftSignal::Terminate) => (1, 0),
            Self::Soft(SoftSignal::Interrupt) => (2, 0),
            Self::Kill => (3, 0),
            Self::Soft(SoftSignal::HangUp) => (4, 0),
        }
    }

    fn unpack(tag: u8, _: i32) -> Option<Self> {
        match tag {
            1 => Some(Self::Soft(SoftSignal::Terminate)),
            2 => Some(Self::Soft(SoftSignal::Interrupt)),
            3 => Some(Self::Kill),
            4 => Some(Self::Soft(SoftSignal::HangUp)),
            _ => None,
        }
    }
}

impl Frame for Report {
    fn pack(self) -> (u8, i32) {
        match self {
            Self::Started(id) => (1, id),
            Self::NotStarted(obstacle) => obstacle.pack(),
            Self::Ended(How::Exited(code)) => (2, code),
            Self::Ended(How::Killed(signal)) => (3, signal),
            Self::Swept(Swept { out_of_memory, too_many_processes, leftovers }) => {
                (4, i32::from(out_of_memory) | i32::from(too_many_processes) << 1 | i32::from(leftovers) << 2)
            }
        }
    }

    fn unpack(tag: u8, number: i32) -> Option<Self> {
        match tag {
            1 => Some(Self::Started(number)),
            2 => Some(Self::Ended(How::Exited(number))),
            3 => Some(Self::Ended(How::Killed(number))),
            4 => Some(Self::Swept(Swept {
                out_of_memory: number & 1 != 0,
                too_many_processes: number & 2 != 0,
                leftovers: number & 4 != 0,
            })),
            _ => Obstacle::unpack(tag, number).map(Self::NotStarted),
        }
    }
}

impl Frame for Obstacle {
    fn pack(self) -> (u8, i32) {
        match self {
            Self::Directory(errno) => (10, errno),
            Self::Program(errno) => (11, errno),
            Self::Guard(errno) => (12, errno),
            Self::Wall(Refused { part, error }) => {
                (13, i32::from(part.number()) << 16 | (error.raw_os_error() & 0xffff))
            }
        }
    }

    fn unpack(tag: u8, number: i32) -> Option<Self> {
        match tag {
            10 => Some(Self::Directory(number)),
            11 => Some(Self::Program(number)),
            12 => Some(Self::Guard(number)),
            13 => {
                let part = Part::from_number(u8::try_from(number >> 16).ok()?)?;
                let error = number & 0xffff;
                let known = (1..4096).contains(&error);
                known.then(|| Self::Wall(Refused { part, error: Errno::from_raw_os_error(error) }))
            }
            _ => None,
        }
    }
}

impl Frame for Hitch {
    fn pack(self) -> (u8, i32) {
        match self {
            Self::NotGrouped => (1, 0),
            Self::Fatal(obstacle) => obstacle.pack(),
        }
    }

    fn unpack(tag: u8, number: i32) -> Option<Self> {
        match tag {
            1 => Some(Self::NotGrouped),
            _ => Obstacle::unpack(tag, number).map(Self::Fatal),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_frame_that_is_understood_comes_back_as_it_was_meant(tag: u8, number: i32) {
            fn check<T: Frame + Copy + PartialEq + std::fmt::Debug>(tag: u8, number: i32) {
                let Some(meant) = T::unpack(tag, number) else { return };
                let mut line = Vec::new();
                meant.write(&mut line).unwrap();
                assert_eq!(T::read(&mut line.as_slice()).unwrap(), Some(meant));
                assert_eq!(T::read(&mut &line[..4]).unwrap(), None);
            }
            check::<Order>(tag, number);
            check::<Report>(tag, number);
            check::<Hitch>(tag, number);
        }

        #[test]
        fn a_task_survives_the_command_line(
            groups in prop::collection::vec("[-/a-z]{0,8}", 0..3),
            memory: Option<u64>,
            processes: Option<u32>,
            words in prop::collection::vec("[-/a-z \n]{0,8}", 2..6),
        ) {
            let task = Task {
                groups: groups.into_iter().map(PathBuf::from).collect(),
                memory,
                processes,
                wall: None,
                terminal: words.len() % 2 == 0,
                directory: words[0].clone().into(),
                environment: words.iter().map(|word| ("--".into(), word.into())).collect(),
                program: words[1].clone().into(),
                arguments: words[2..].iter().map(OsString::from).collect(),
            };
            let mut line = Vec::new();
            task.write(&mut line).unwrap();
            prop_assert_eq!(Task::read(&mut line.as_slice()).unwrap(), Some(task));
        }
    }

    #[test]
    fn an_unknown_tag_is_not_a_report() {
        assert_eq!(
            Report::read(&mut [99, 0, 0, 0, 0].as_slice()).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }

    #[test]
    fn what_is_no_task_is_refused() {
        for words in [
            &["--directory", "/"][..],
            &["--memory", "x", "--", "true"],
            &["--", "true"],
            &["--what", "1"],
            &["--directory", "/", "--value", "of nothing", "--", "true"],
            &[],
        ] {
            assert_eq!(Task::parse(words.iter().map(OsString::from)), None, "{words:?}");
        }
        let mut endless: Vec<u8> = u64::MAX.to_ne_bytes().to_vec();
        assert_eq!(Task::read(&mut endless.as_slice()).unwrap(), None);
        endless.truncate(4);
        assert!(Task::read(&mut endless.as_slice()).is_err());
    }
}
