//! What is asked of a child, and how it ended.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use agora_core::provider::compute::Terminal;

/// How long a child has between the soft signal and SIGKILL.
pub const GRACE: Duration = Duration::from_secs(10);

/// A program to run to its end.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Without a slash it is looked for in the `PATH` of `environment`.
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub directory: PathBuf,
    /// All that it sees: nothing is inherited.
    pub environment: Vec<(OsString, OsString)>,
    pub stdin: Input,
    pub limits: Limits,
    pub soft: SoftSignal,
    /// Usually [`GRACE`].
    pub grace: Duration,
}

/// What the child finds on its standard input.
#[derive(Clone)]
pub enum Input {
    Closed,
    /// Written as fast as the child reads; then the end of the file. A child need not read it.
    Bytes(Vec<u8>),
    /// Also its standard output and error, and its controlling terminal: nothing of what it prints is heard here.
    Terminal(Terminal),
}

impl std::fmt::Debug for Input {
    /// Says only how much it is: a prompt does not belong in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("Closed"),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::Terminal(_) => f.write_str("Terminal"),
        }
    }
}

/// What the child, with all that it starts, may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// After this the child gets its soft signal, then its grace, then SIGKILL.
    pub time: Option<Duration>,
    /// More than this ends everything.
    pub memory_bytes: Option<u64>,
    /// Processes and threads at the same time, as the kernel counts them. A control group refuses to start one more;
    /// without a group, one more ends everything.
    pub processes: Option<u32>,
}

/// The signal that asks the child to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftSignal {
    Terminate,
    Interrupt,
    /// As when a terminal goes away. A shell at a terminal ignores the others.
    HangUp,
}

/// Why a child was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Cancelled,
    Time,
    /// It has asked its question, and what it does from here on is lost.
    Sentinel,
    Channel,
    Budget,
    /// It fills the disk. There is no grace: it would go on filling it.
    Disk,
    /// Whoever sat at its terminal is gone.
    Terminal,
    /// The model's service cannot be reached, and the program would wait for it for ever.
    Unreachable,
}

/// How a child's own process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Exited(i32),
    /// The number of the signal.
    Killed(i32),
}

/// The end of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub how: How,
    /// The first reason to stop it, when it did not end before that by itself.
    pub stopped: Option<Why>,
    /// The memory limit was passed and something was killed for it.
    pub out_of_memory: bool,
    /// The limit on processes was passed, or was in the way.
    pub too_many_processes: bool,
    /// From its start to its own end.
    pub duration: Duration,
    /// Something could not be killed, or somebody outside still holds its output open.
    pub leftovers: bool,
}

/// Why a child was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("could not start `{program}`")]
    Program { program: PathBuf, source: io::Error },
    #[error("could not enter `{directory}`")]
    Directory { directory: PathBuf, source: io::Error },
    /// Not the program's fault: the machine gave no process, no thread or no descriptor.
    #[error("could not prepare the start of `{program}`")]
    Guard { program: PathBuf, source: io::Error },
    /// The program would have run with less around it than was promised.
    #[error("could not build the wall around `{program}`: {doing} failed")]
    Wall { program: PathBuf, doing: &'static str, source: io::Error },
}
