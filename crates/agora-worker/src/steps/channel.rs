//! Steps 10 and 12: a program that brings messages to a running agent.
//!
//! A capability names it in `agora-channel.json`. What it prints, a JSON object a line, is appended to
//! `.agora/channel/inbox.jsonl`. When it writes `.agora/control/terminate`, the agent is asked to end.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::prepare::Ready;
use crate::child::drain::{Capped, Lines, Redacting, Tee};
use crate::child::{How, Input, Limits, Running, Sink, SoftSignal, Spec, Stopper, Why};
use crate::desk::Desk;
use crate::fault::{Fault, workspace};
use crate::needs_input::file::{self, Found};

const FILE: &str = "agora-channel.json";
const TERMINATE: &str = "terminate";
/// A line that is longer is no message.
const LONGEST_MESSAGE: usize = 1024 * 1024;
/// What the inbox takes. An agent that has not read that much will not.
const INBOX_BYTES: u64 = 64 * 1024 * 1024;

/// What `agora-channel.json` says.
struct Definition {
    program: String,
    arguments: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawDefinition {
    command: Vec<String>,
}

/// The agent may start: messages come, if there is a channel.
pub(crate) struct Listening {
    pub(crate) ready: Ready,
    pub(crate) channel: Option<Channel>,
}

/// A channel that runs.
pub(crate) struct Channel {
    running: Running,
    watch: Watch,
    stderr: Arc<Mutex<Capped>>,
    inbox: Arc<Mutex<Inbox>>,
}

/// Starts the channel, if a capability names one. One that cannot be started fails the dispatch: the agent would wait for
/// messages that never come.
pub(crate) fn start(ready: Ready, desk: &Desk) -> Result<Listening, Fault> {
    let Some(definition) = definition(&desk.place.work())? else {
        return Ok(Listening { ready, channel: None });
    };
    let control = desk.place.in_agora("control");
    let inbox = desk.place.in_agora("channel").join("inbox.jsonl");
    let make = || -> io::Result<(File, Watch)> {
        fs::create_dir_all(&control)?;
        fs::create_dir_all(desk.place.in_agora("channel"))?;
        let file = File::options().append(true).create(true).open(&inbox)?;
        desk.place.give(&control)?;
        desk.place.give(&desk.place.in_agora("channel"))?;
        Ok((file, Watch::new(&control)?))
    };
    let (inbox, watch) = make().map_err(workspace("making the channel's inbox"))?;
    let spec = Spec {
        program: program_path(&definition.program, &desk.place.inside().work),
        arguments: definition.arguments.into_iter().map(OsString::from).collect(),
        directory: desk.place.inside().work,
        environment: ready.environment.0.clone().into_iter().collect(),
        stdin: Input::Closed,
        limits: Limits { time: None, ..ready.task.limits() },
        soft: SoftSignal::Terminate,
        grace: crate::child::GRACE,
    };
    let inbox = Arc::new(Mutex::new(Inbox { file: inbox, written: 0, refused: 0 }));
    let stderr = Arc::new(Mutex::new(Capped::new(agora_core::limits::LINE_STDERR_BYTES)));
    let into = Arc::clone(&inbox);
    let messages = Lines::capped(LONGEST_MESSAGE, move |line: &[u8]| {
        into.lock().unwrap_or_else(PoisonError::into_inner).take(line);
    });
    let complaints = Tee(vec![Box::new(Redacting::new(&desk.redactor, Arc::clone(&stderr)))]);
    let running = desk
        .keeper
        .start(spec, Box::new(messages) as Box<dyn Sink>, Box::new(complaints))
        .map_err(|error| Fault::Channel(cause(&error)))?;
    Ok(Listening { ready, channel: Some(Channel { running, watch, stderr, inbox }) })
}

fn cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

/// A program of the workspace is named from its root.
fn program_path(program: &str, work: &Path) -> PathBuf {
    let path = PathBuf::from(program);
    if path.is_relative() && program.contains('/') { work.join(path) } else { path }
}

fn definition(work: &Path) -> Result<Option<Definition>, Fault> {
    let wrong = |why: &str| Fault::Channel(format!("`{FILE}` {why}"));
    let bytes = match file::read(work, Path::new(FILE), LONGEST_MESSAGE as u64) {
        Ok(Found::Nothing) => return Ok(None),
        Ok(Found::Bytes(bytes)) => bytes,
        Ok(Found::NotAFile(what)) => return Err(wrong(&format!("is {what}"))),
        Err(error) => return Err(wrong(&format!("cannot be read: {error}"))),
    };
    let shape = || wrong("is not `{\"command\": [\"program\", \"argument\", …]}`");
    let raw: RawDefinition = serde_json::from_slice(&bytes).map_err(|_| shape())?;
    let mut words = raw.command.into_iter();
    match words.next() {
        Some(program) if !program.trim().is_empty() => {
            Ok(Some(Definition { program, arguments: words.collect() }))
        }
        Some(_) | None => Err(shape()),
    }
}

impl Channel {
    /// From now on the channel may end the agent.
    pub(crate) fn may_stop(&mut self, agent: Stopper) -> io::Result<()> {
        self.watch.start(agent)
    }

    /// Step 12: ends the channel, and says what went wrong with it.
    pub(crate) fn stop(self, desk: &mut Desk) {
        self.running.stopper().stop(Why::Channel);
        let ended = self.running.wait();
        self.watch.end();
        if ended.stopped.is_none() && ended.how != How::Exited(0) {
            let words = self.stderr.lock().unwrap_or_else(PoisonError::into_inner).text();
            let last = words.lines().last().unwrap_or_default();
            desk.warn(format!("the channel program ended by itself ({:?}): {last}", ended.how));
        }
        let refused = self.inbox.lock().unwrap_or_else(PoisonError::into_inner).refused;
        if refused > 0 {
            desk.warn(format!(
                "{refused} messages of the channel were not taken: no JSON object, or the inbox was full"
            ));
        }
    }
}

/// Where messages go.
struct Inbox {
    file: File,
    written: u64,
    refused: u64,
}

impl Inbox {
    fn take(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let message = serde_json::from_slice::<Map<String, Value>>(line).ok();
        let text = message.map(|message| format!("{}\n", Value::Object(message)));
        let taken = text.filter(|text| self.written + text.len() as u64 <= INBOX_BYTES).and_then(|text| {
            // One write a message: whoever reads sees whole lines.
            self.file.write_all(text.as_bytes()).ok().map(|()| text.len() as u64)
        });
        match taken {
            Some(size) => self.written += size,
            None => self.refused += 1,
        }
    }
}

/// Waits for the file that ends the agent.
struct Watch {
    events: Option<OwnedFd>,
    over: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn new(control: &Path) -> io::Result<Self> {
        let events = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let flags =
            inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::CLOSE_WRITE;
        inotify::add_watch(&events, control, flags)?;
        Ok(Self { events: Some(events), over: Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?), thread: None })
    }

    fn start(&mut self, agent: Stopper) -> io::Result<()> {
        let (Some(events), over) = (self.events.take(), Arc::clone(&self.over)) else { return Ok(()) };
        let wait = move || {
            while !is_over(&events, &over) {
                if was_written(&events) {
                    agent.stop(Why::Channel);
                    return;
                }
            }
        };
        self.thread = Some(std::thread::Builder::new().name("channel-control".into()).spawn(wait)?);
        Ok(())
    }

    fn end(self) {
        let _ = rustix::io::write(&*self.over, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread {
            let _ = thread.join();
        }
    }
}

/// Waits for something to happen. Tells whether it was the end.
fn is_over(events: &OwnedFd, over: &OwnedFd) -> bool {
    let mut both = [PollFd::new(events, PollFlags::IN), PollFd::new(over, PollFlags::IN)];
    match poll(&mut both, None) {
        Ok(_) => both[1].revents().contains(PollFlags::IN),
        Err(rustix::io::Errno::INTR) => false,
        Err(_) => true,
    }
}

fn was_written(events: &OwnedFd) -> bool {
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(events, &mut buffer);
    let mut written = false;
    while let Ok(event) = reader.next() {
        written |= event.file_name().is_some_and(|name| name.to_bytes() == TERMINATE.as_bytes());
    }
    written
}
