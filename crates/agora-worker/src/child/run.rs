//! Starts children.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{getpid, set_child_subreaper};

use super::control::{Obstacle, Report, Task};
use super::deadline::{Deadline, Since};
use super::drain::Sink;
use super::family::Member;
use super::flow::Flows;
use super::group::{Group, Places};
use super::hold::{Event, Hold, Post};
use super::spec::{Input, Limits, Spec, StartError};
use super::streams::{self, Ours, Theirs};
use super::wait::Running;
use super::waiting::Waiting;
use crate::sandbox::probe::Cgroup;
use crate::sandbox::wall::{Plan, Refused};

/// How long the way from spawn to exec may take. Milliseconds, unless the program lies on a file system that hangs.
const STARTING: Duration = Duration::from_secs(30);
/// How much of a label goes into the name of a group: a name may have 255 bytes.
const LONGEST_LABEL: usize = 64;

/// The program that stands guard, as far as its own arguments: a task follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardProgram {
    pub program: PathBuf,
    /// What makes it run [`guard`](super::guard()).
    pub arguments: Vec<OsString>,
}

/// Tells whether a limit would be kept by a control group here, without a keeper.
pub(crate) fn kernel_can_limit() -> bool {
    Places::find().can_limit()
}

/// Starts children and keeps them.
///
/// Only for a process that starts its children nowhere else: should a guard be killed, every child that is not known here is
/// taken for what that guard left behind.
#[derive(Debug)]
pub struct Keeper {
    guard: GuardProgram,
    /// A guard that is there already.
    waiting: Mutex<Option<Waiting>>,
    label: String,
    places: OnceLock<Places>,
    started: AtomicU64,
    wall: Option<Plan>,
    /// A directory of the worker's own, on the disk that children write to.
    own: Option<PathBuf>,
}

impl Keeper {
    /// For a worker, `guard` is its own executable. The label is in the name of every control group: with the dispatch's id, groups
    /// that outlive a machine's mishap can be told apart.
    pub fn new(guard: GuardProgram, label: &str) -> Self {
        // For the day that a guard is killed. Every kernel that Rust supports can do it.
        let _ = set_child_subreaper(Some(getpid()));
        let safe = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let label = label.chars().take(LONGEST_LABEL).map(safe).collect();
        let (places, started) = (OnceLock::new(), AtomicU64::new(0));
        Self { guard, waiting: Mutex::default(), label, places, started, wall: None, own: None }
    }

    /// Lets a guard that waits stand over the first child.
    #[must_use]
    pub fn with_waiting(self, waiting: Option<Waiting>) -> Self {
        Self { waiting: Mutex::new(waiting), ..self }
    }

    /// Uses groups at a place that is known, or none; otherwise one is looked for when a limit asks for it first.
    #[must_use]
    pub fn with_groups(mut self, cgroup: Cgroup) -> Self {
        self.places = OnceLock::from(Places::with(cgroup));
        self
    }

    /// Puts a wall around everything that is started from here on.
    pub(crate) fn build(&mut self, wall: Option<Plan>) {
        self.wall = wall;
    }

    /// Keeps a directory of the worker's own usable: children that leave too little room on its disk are ended, and what they did to its
    /// modes is undone.
    pub fn protect(&mut self, dir: PathBuf) {
        self.own = Some(dir);
    }

    /// Starts a child. Its output goes to the sinks, on threads of their own.
    pub fn start(
        &self,
        spec: Spec,
        stdout: Box<dyn Sink>,
        stderr: Box<dyn Sink>,
    ) -> Result<Running, StartError> {
        let unprepared = |source| StartError::Guard { program: spec.program.clone(), source };
        let (mut hold, ours) = self.set_guard(&spec).map_err(|source| match source.kind() {
            // The guard's own arguments are short.
            io::ErrorKind::ArgumentListTooLong => {
                StartError::Program { program: spec.program.clone(), source }
            }
            _ => unprepared(source),
        })?;
        match hold.next(Deadline::after(STARTING)) {
            Event::Report(Report::Started(_)) => {}
            Event::Report(Report::NotStarted(obstacle)) => return Err(not_started(&spec, obstacle)),
            Event::Late => return Err(unprepared(io::ErrorKind::TimedOut.into())),
            Event::Report(_) | Event::Stop(_) | Event::Gone => {
                return Err(unprepared(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        let since = Since::now();
        let (limits, soft, grace) = (spec.limits, spec.soft, spec.grace);
        let flows = start_flows(ours, spec.stdin, stdout, stderr)
            .map_err(|source| StartError::Guard { program: spec.program, source })?;
        Ok(Running::new(hold, flows, since, limits.time, soft, grace, self.own.clone()))
    }

    fn set_guard(&self, spec: &Spec) -> io::Result<(Hold, Ours)> {
        let (ours, theirs) = streams::make(&spec.stdin)?;
        let group = self.group(&spec.limits).unwrap_or_default();
        let task = Task {
            wall: self.wall.clone(),
            groups: group.dirs.clone(),
            memory: spec.limits.memory_bytes,
            processes: spec.limits.processes,
            terminal: matches!(spec.stdin, Input::Terminal(_)),
            directory: spec.directory.clone(),
            environment: spec.environment.clone(),
            program: spec.program.clone().into(),
            arguments: spec.arguments.clone(),
        };
        let (guard, control) = self.post(spec, theirs).inspect_err(|_| group.remove())?;
        let mut hold = Hold::take(guard, control, group)?;
        hold.assign(&task)?;
        if let Some(dir) = &self.own {
            hold.keep_room_on(dir);
        }
        Ok((hold, ours))
    }

    /// Returns a guard that has these streams, and the way to it: the one that waits, or else another.
    fn post(&self, spec: &Spec, streams: Theirs) -> io::Result<(Post, UnixStream)> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        match waiting {
            // Not when somebody has killed it.
            Some(Waiting { process, control }) if streams.send(&control).is_ok() => {
                Ok((Post::Forked(process), control))
            }
            Some(_) | None => self.start_guard(spec, streams),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this module is the one place that starts a process")]
    fn start_guard(&self, spec: &Spec, streams: Theirs) -> io::Result<(Post, UnixStream)> {
        let (control, theirs) = UnixStream::pair()?;
        let mut command = Command::new(&self.guard.program);
        command
            .args(&self.guard.arguments)
            .arg(theirs.as_raw_fd().to_string())
            .env_clear()
            // The program's, by which one sees whose guard it is.
            .envs(spec.environment.iter().map(|(name, value)| (name, value)));
        // No directory: with one, a static program cannot be spawned without a copy of all its memory.
        streams.give(&mut command);
        Ok((Post::Started(Member::start_with(&mut command, theirs.into())?), control))
    }

    /// Tells whether the kernel keeps limits here, in control groups. Else guards count, and end what has too much.
    pub(crate) fn kernel_keeps_limits(&self) -> bool {
        self.places.get_or_init(Places::find).can_limit()
    }

    /// A group costs some milliseconds, so there is one only for a limit.
    fn group(&self, limits: &Limits) -> Option<Group> {
        let Limits { memory_bytes, processes, time: _ } = limits;
        if memory_bytes.is_none() && processes.is_none() {
            return None;
        }
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let name = format!("agora-{}-{}-{number}", self.label, std::process::id());
        self.places.get_or_init(Places::find).make(&name, limits)
    }
}

fn start_flows(ours: Ours, input: Input, stdout: Box<dyn Sink>, stderr: Box<dyn Sink>) -> io::Result<Flows> {
    let mut flows = Flows::new()?;
    if let Some(stream) = ours.stdout {
        flows.drain_stdout(stream, stdout)?;
    }
    if let Some(stream) = ours.stderr {
        flows.drain_stderr(stream, stderr)?;
    }
    match (ours.stdin, input) {
        (Some(stream), Input::Bytes(bytes)) => flows.feed(stream, bytes)?,
        (_, Input::Closed | Input::Terminal(_)) | (None, Input::Bytes(_)) => {}
    }
    Ok(flows)
}

fn not_started(spec: &Spec, obstacle: Obstacle) -> StartError {
    let program = spec.program.clone();
    let source = io::Error::from_raw_os_error;
    match obstacle {
        Obstacle::Program(errno) => StartError::Program { program, source: source(errno) },
        Obstacle::Directory(errno) => {
            StartError::Directory { directory: spec.directory.clone(), source: source(errno) }
        }
        Obstacle::Guard(errno) => StartError::Guard { program, source: source(errno) },
        Obstacle::Wall(Refused { part, error }) => {
            StartError::Wall { program, doing: part.doing(), source: error.into() }
        }
    }
}
