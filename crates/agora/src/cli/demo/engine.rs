//! The engine that the demo kills: a process of its own, which dispatches and then waits for an answer.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use agora_core::entry::{Entry, Happening};
use agora_core::event::Event;
use agora_core::record::Record;
use agora_engine::{Agora, Dispatch, Reaction, Thread};
use clap::Args;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use super::place::{Place, own_agora};
use super::{Cast, LABEL, script};
use crate::cli::Context;
use crate::config::Config;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::person;

/// Dispatch the demo's agent, and wait for an answer
#[derive(Debug, Args)]
pub(in crate::cli) struct DemoEngine {
    /// The home of the scripted agent's; a real one is dispatched from the user's own
    #[arg(long, conflicts_with = "agent")]
    home: Option<PathBuf>,
    #[arg(long)]
    agent: Option<String>,
    #[arg(long)]
    repository: PathBuf,
    /// What to take away when whoever started this is gone
    #[arg(long)]
    remove: Option<PathBuf>,
}

impl DemoEngine {
    pub(in crate::cli) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let starter = Starter::listen();
        let (agora, dispatch) = match (&self.home, &self.agent) {
            (Some(home), _) => {
                let agora = own_agora(&context.config, home)?;
                let name = script::NAME.parse().map_err(|_| Failure::bug("the agent has no name"))?;
                agora.register_subagent(&name, script::subagent()?, &[]).await?;
                (agora, Dispatch::to(script::NAME).input(json!({"task": script::TASK})))
            }
            (None, agent) => {
                let agent = agent.clone().unwrap_or_default();
                let task = json!({"task": script::REAL_TASK});
                (context.config.dispatching()?, Dispatch::to(agent).input(task))
            }
        };
        // Whoever plays may answer, and nobody else.
        let dispatch = dispatch.owner(person::at_the_terminal().principal);
        let thread = agora.dispatch(dispatch.workspace(&self.repository).label(LABEL)).await?;
        let told = tell(context, &agora, thread, &starter).await?;
        if let (Told::Alone, Some(dir)) = (told, &self.remove) {
            // Nobody else is left to do it, and nobody to be told that it failed.
            let _ = std::fs::remove_dir_all(dir);
        }
        Ok(Exit::Done)
    }
}

/// How telling came to an end.
enum Told {
    Everything,
    /// Whoever listened is gone.
    Alone,
}

/// Tells everything that happens to a thread, and waits for an answer that somebody else gives.
async fn tell(context: &Context, agora: &Agora, thread: Thread, starter: &Starter) -> Result<Told, Failure> {
    let id = thread.id().clone();
    let mut events = thread.events(0)?;
    let me = person::at_the_terminal();
    let driving = thread.drive(&me, |_| std::future::pending::<Reaction>());
    tokio::pin!(driving);
    let mut driven = false;
    loop {
        tokio::select! {
            biased;
            () = starter.gone() => {
                agora.thread(&id).await?.cancel().await?;
                return Ok(Told::Alone);
            }
            ended = &mut driving, if !driven => driven = ended.map(|_| true)?,
            entry = events.next() => match entry? {
                Some(entry) => context.ui.line(|| line(&entry), String::new)?,
                None => return Ok(Told::Everything),
            },
        }
    }
}

fn line(entry: &Entry) -> Value {
    let mut line = json!({"threadId": entry.thread_id, "kind": entry.what.kind()});
    match &entry.what {
        Happening::Event(event) => {
            line["dispatchId"] = json!(event.dispatch_id());
            if let Event::NeedsInput { question_id, .. } = event {
                line["questionId"] = json!(question_id);
            }
        }
        Happening::Record(Record::QuestionOpened { question_hash, .. }) => {
            line["questionHash"] = json!(question_hash);
        }
        Happening::Record(_) => {}
    }
    line
}

/// Whoever started this process: its end of the standard input closes with it, however it ends.
struct Starter(Arc<Semaphore>);

impl Starter {
    fn listen() -> Self {
        let gone = Arc::new(Semaphore::new(0));
        let heard = Arc::clone(&gone);
        std::thread::spawn(move || {
            let mut bytes = [0; 64];
            while matches!(io::stdin().lock().read(&mut bytes), Ok(1..)) {}
            heard.add_permits(1);
        });
        Self(gone)
    }

    async fn gone(&self) {
        let _ = self.0.acquire().await;
    }
}

/// The engine's process, in the hands of whoever started it. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct EngineProcess {
    child: Child,
    lines: mpsc::UnboundedReceiver<Value>,
}

impl EngineProcess {
    #[expect(
        clippy::disallowed_methods,
        reason = "the command starts itself, to have an engine that can be killed"
    )]
    pub(super) fn start(config: &Config, place: &Place, cast: Cast) -> Result<Self, Failure> {
        let unstarted = |error: io::Error| {
            Failure::outside("no-engine", "the demo's engine could not be started").because(error)
        };
        let mut command = Command::new(crate::config::program()?);
        command.args(["--json", "demo-engine", "--repository"]).arg(place.repository());
        match cast {
            Cast::Scripted => command.arg("--home").arg(place.home()).arg("--remove").arg(place.root()),
            Cast::Real(vendor) => {
                let namespace = config.namespace.as_str();
                command
                    .args(["--agent", vendor.name, "--namespace", namespace])
                    .arg("--remove")
                    .arg(place.root())
            }
        };
        // A group of its own: Ctrl-C in the terminal is for the demo, which ends this one.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(unstarted)?;
        let stdout = child.stdout.take().ok_or_else(|| Failure::bug("the engine has no output"))?;
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            let parsed = lines.filter_map(|line| serde_json::from_str(&line).ok());
            parsed.map_while(|line| sender.send(line).ok()).for_each(drop);
        });
        Ok(Self { child, lines })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next thing that it tells. `None`: it has ended.
    pub(super) async fn next(&mut self) -> Option<Value> {
        self.lines.recv().await
    }

    /// Kills it with a signal that nobody can catch, and returns when it is gone.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
