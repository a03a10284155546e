//! Starts a worker, so that at no moment a crash leaves a second one possible or a first one unknown.
//!
//! ```text
//!  turn ─▶ life ─▶ nothing said? ─▶ spawn ─▶ who it is, stored ─▶ bootstrap ─▶ it works
//!                                     └──── the starter dies in here: the worker's input ends, it does nothing
//! ```

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Sender};
use std::thread;

use agora_core::provider::compute::Launch;

use super::identity::Identity;
use super::life::{Life, open_to_write};
use super::past;
use super::stdin::WorkerInput;
use crate::compute::turn::Turn;
use crate::dispatch_dir::DispatchDir;
use crate::home::Home;

/// The worker's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerProgram {
    pub program: PathBuf,
    /// What makes it a worker, for a program that is more than that.
    pub arguments: Vec<OsString>,
}

/// What came of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Started,
    /// There is a worker, or was one.
    Already,
}

/// Everything that workers are started from.
#[derive(Clone, Debug)]
pub(super) struct Starter {
    pub(super) home: Home,
    pub(super) worker: WorkerProgram,
    pub(super) environment: Vec<(OsString, OsString)>,
}

impl Starter {
    pub(super) fn start(&self, dir: &DispatchDir, launch: &Launch) -> io::Result<Start> {
        let turn = Turn::take(dir)?;
        let Some(life) = Life::take(dir, &turn)? else { return Ok(Start::Already) };
        let started = match past(dir) {
            Ok(true) => Ok(Start::Already),
            Ok(false) => self.spawn(dir, launch, &life).map(|()| Start::Started),
            Err(error) => Err(error),
        };
        if !matches!(started, Ok(Start::Started)) {
            life.give_back();
        }
        started
    }

    fn spawn(&self, dir: &DispatchDir, launch: &Launch, life: &Life) -> io::Result<()> {
        // Before there is something to wait for: a worker that nobody waits for would stay as a dead entry in the table.
        let reaper = reaper()?;
        let mut command = self.command(dir, launch);
        let (theirs, stdin) = WorkerInput::new(launch.terminal.as_ref())?;
        command.stdin(theirs).stdout(open_to_write(&dir.events())?).stderr(life.share()?);
        let mut child = command.spawn()?;
        // With it goes our own copy of the worker's end.
        drop(command);
        let told = self.introduce(dir, &child, stdin, launch);
        if told.is_err() {
            // It has no guards: they come after the bootstrap.
            let _ = child.kill();
            let _ = child.wait();
            let _ = fs::remove_file(dir.worker());
        } else if let Err(mpsc::SendError(mut child)) = reaper.send(child) {
            // The thread was there a moment ago.
            let _ = child.try_wait();
        }
        told
    }

    /// Stores who the worker is, and only then tells it what to do.
    fn introduce(
        &self,
        dir: &DispatchDir,
        child: &Child,
        stdin: WorkerInput,
        launch: &Launch,
    ) -> io::Result<()> {
        let identity = Identity::of(child.id())?;
        self.home.put(&dir.worker(), &identity.to_bytes()?).map_err(io::Error::other)?;
        stdin.tell(launch.bootstrap.expose().as_bytes())
    }

    #[expect(clippy::disallowed_methods, reason = "this provider runs workers as processes")]
    fn command(&self, dir: &DispatchDir, launch: &Launch) -> Command {
        let mut command = Command::new(&self.worker.program);
        command
            .args(&self.worker.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("AGORA_DISPATCH_ID", launch.dispatch_id.as_str())
            .env("AGORA_DISPATCH_DIR", dir.root())
            .env("AGORA_ADAPTER", &launch.runtime)
            // What a terminal sends to the engine's group is not meant for the worker.
            .process_group(0);
        let adapters = self.home.root().join("adapters");
        if adapters.is_dir() {
            command.env("AGORA_ADAPTERS_DIR", adapters);
        }
        command
    }
}

/// Starts a thread that waits for the child that it is handed.
fn reaper() -> io::Result<Sender<Child>> {
    let (sender, child) = mpsc::channel::<Child>();
    let wait = move || {
        if let Ok(mut child) = child.recv() {
            let _ = child.wait();
        }
    };
    thread::Builder::new().name("worker-reaper".into()).stack_size(128 * 1024).spawn(wait)?;
    Ok(sender)
}
