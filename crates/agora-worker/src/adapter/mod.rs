//! Adapters: each knows one runtime. How to start it, teach it, read it, and go on with it.
//!
//! ```text
//!  Job ──▶ plan ──▶ Invocation ── run in the one place that starts programs ──▶ Listener ──▶ RuntimeExit
//! ```
//!
//! An adapter decides nothing: it says what its runtime reported, and the order of decision is in `steps/decide.rs`.

mod attended;
pub(crate) mod claude;
pub(crate) mod codex;
pub(crate) mod command;
pub(crate) mod external;
#[cfg(any(test, fuzzing))]
pub(crate) mod trial;
pub(crate) mod version;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use agora_core::bundle;
use agora_core::limits::PROMPT_BYTES;
use agora_core::login::{self, Vendor};
use agora_core::provider::compute::Terminal;
use agora_core::question::Question;
use agora_core::reason::FailureCode;
use agora_core::time::Timestamp;
use agora_core::wire::report::{SessionMark, Usage};
use serde_json::Value;

use crate::archive;
use crate::child::{Ended, How, Input, SoftSignal, Why};
use crate::fault::{Fault, workspace};
use crate::needs_input::{Unreadable, resume::Occasion};
use crate::place::Place;
use crate::progress::Progress;
use crate::steps::fetch::Task;
use external::External;

/// Which runtime runs the agent.
#[derive(Clone, Debug)]
pub(crate) enum Runtime {
    Claude,
    Codex,
    Command,
    External(External),
}

/// Step 2: finds the adapter by its word.
pub(crate) fn load(place: &Place) -> Result<Runtime, Fault> {
    match place.adapter.as_str() {
        "claude-code" => Ok(Runtime::Claude),
        "codex" => Ok(Runtime::Codex),
        "command" => Ok(Runtime::Command),
        name => External::load(name, place.adapters_dir.as_deref()).map(Runtime::External),
    }
}

/// What an adapter plans a run from.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) place: &'a Place,
    pub(crate) task: &'a Task,
    /// What the agent's environment has so far.
    pub(crate) environment: &'a Environment,
    /// What is asked, whole.
    pub(crate) prompt: String,
    /// What a conversation that goes on is told: the answer or a word more, without what it knows already.
    pub(crate) follow_up: String,
    /// The lines that teach asking, unless nobody is to ask.
    pub(crate) teaching: Option<String>,
    /// The conversation, when its files were put back.
    pub(crate) session: Option<&'a SessionMark>,
    /// What is left of the thread's budget.
    pub(crate) left: Allowance,
}

/// What is left of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Allowance {
    pub(crate) turns: Option<u32>,
    pub(crate) tokens: Option<u64>,
    pub(crate) usd: Option<f64>,
}

/// A program to run, and who listens to it.
pub(crate) struct Invocation {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    /// What the runtime needs beside the environment that every agent gets.
    pub(crate) environment: Vec<(&'static str, OsString)>,
    pub(crate) stdin: Input,
    pub(crate) soft: SoftSignal,
    pub(crate) listener: Box<dyn Listener>,
    /// Whether the conversation goes on, rather than begins.
    pub(crate) resumed: bool,
}

impl std::fmt::Debug for Invocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invocation").field("program", &self.program).finish_non_exhaustive()
    }
}

/// Hears what a runtime prints, while it runs.
pub(crate) trait Listener: Send {
    /// Hears a line of standard output, without its line break. May ask for the end of the run.
    fn line(&mut self, line: &[u8]) -> Option<Why>;

    /// Says how far the agent is, for a runtime that tells while it runs.
    fn progress(&self) -> Option<Progress> {
        None
    }

    /// Says what the runtime reported, once it has ended.
    fn conclude(self: Box<Self>, end: &End<'_>) -> RuntimeExit;
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct End<'a> {
    pub(crate) ended: &'a Ended,
    /// Head and tail of what it printed, with secrets hidden.
    pub(crate) stdout: &'a str,
    pub(crate) stderr: &'a str,
}

impl End<'_> {
    /// Says how the program ended, for a person.
    pub(crate) fn how(&self) -> String {
        match self.ended.how {
            How::Exited(code) => format!("ended with code {code}"),
            How::Killed(signal) => format!("was ended by signal {signal}"),
        }
    }

    /// Returns the last words on standard error, short enough to read.
    pub(crate) fn last_words(&self) -> Option<String> {
        let line = self.stderr.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.chars().take(500).collect())
    }

    /// Says how it ended, with its last words.
    pub(crate) fn story(&self, program: &str) -> String {
        match self.last_words() {
            Some(words) => format!("{program} {}: {words}", self.how()),
            None => format!("{program} {}", self.how()),
        }
    }
}

/// What a runtime reported.
#[derive(Debug)]
pub(crate) struct RuntimeExit {
    pub(crate) verdict: Verdict,
    /// The agent's final text.
    pub(crate) text: String,
    pub(crate) structured: Option<Value>,
    pub(crate) usage: Option<Usage>,
    pub(crate) session: Option<SessionMark>,
    /// What the agent asked by a tool of the runtime's own.
    pub(crate) asked: Option<Result<Question, Unreadable>>,
    pub(crate) runtime_version: Option<String>,
    pub(crate) warnings: Vec<String>,
}

/// How the runtime says that it went.
#[derive(Debug)]
pub(crate) enum Verdict {
    Success,
    Failed {
        code: FailureCode,
        detail: String,
        retry_at: Option<Timestamp>,
    },
    /// The runtime stopped at a part of the budget that it counts itself.
    Budget(&'static str),
}

impl Verdict {
    pub(crate) fn failed(code: FailureCode, detail: impl Into<String>) -> Self {
        Self::Failed { code, detail: detail.into(), retry_at: None }
    }
}

impl RuntimeExit {
    pub(crate) fn new(verdict: Verdict, text: impl Into<String>) -> Self {
        Self {
            verdict,
            text: text.into(),
            structured: None,
            usage: None,
            session: None,
            asked: None,
            runtime_version: None,
            warnings: Vec::new(),
        }
    }
}

/// An agent's environment. Holds secrets: it has no printed form.
#[derive(Clone, Default)]
pub(crate) struct Environment(pub(crate) BTreeMap<OsString, OsString>);

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl Environment {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.get(name.as_ref() as &std::ffi::OsStr).is_some_and(|value| !value.is_empty())
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name.as_ref() as &std::ffi::OsStr)?.to_str().filter(|value| !value.is_empty())
    }
}

impl Runtime {
    /// Returns the runtime's word.
    pub(crate) fn word(&self) -> &str {
        match self {
            Self::Claude => "claude-code",
            Self::Codex => "codex",
            Self::Command => "command",
            Self::External(external) => external.name().as_str(),
        }
    }

    /// Returns the runtime whose rules the overlay follows. A dispatch may run on another than its subagent names.
    pub(crate) fn rules(&self) -> bundle::Runtime {
        match self {
            Self::Claude => bundle::Runtime::ClaudeCode,
            Self::Codex => bundle::Runtime::Codex,
            Self::Command => bundle::Runtime::Command(Vec::new()),
            Self::External(external) => bundle::Runtime::External(external.name().clone()),
        }
    }

    /// Plans the run.
    pub(crate) fn plan(&self, job: &Job<'_>) -> Result<Invocation, Fault> {
        check_size("the prompt", job.prompt.len(), 8 * PROMPT_BYTES)?;
        match self {
            Self::Claude => claude::plan(job),
            Self::Codex => codex::plan(job),
            Self::Command => command::plan(job),
            Self::External(external) => external.plan(job),
        }
    }

    /// Plans a run that a person sits at: the runtime's own interactive program, or a shell.
    pub(crate) fn attend(&self, job: &Job<'_>, terminal: &Terminal) -> Result<Invocation, Fault> {
        match self {
            Self::Claude => claude::attended::plan(job, terminal),
            Self::Codex => codex::attend(job, terminal),
            Self::Command | Self::External(_) => attended::shell(job, self.word(), terminal),
        }
    }

    /// Returns where the runtime keeps its conversation, below the agent's home.
    pub(crate) fn session_files(&self) -> Option<&'static Path> {
        match self {
            Self::Claude => Some(Path::new(claude::PROJECTS)),
            Self::Codex => Some(Path::new(codex::SESSIONS)),
            Self::Command => None,
            Self::External(_) => Some(Path::new(external::SESSION_DIR)),
        }
    }

    /// Tells whether the worker puts down files for it to read, behind the wall.
    pub(crate) fn has_aids(&self) -> bool {
        match self {
            Self::Claude | Self::Codex | Self::External(_) => true,
            Self::Command => false,
        }
    }

    /// Returns whose program it is, as far as that matters for logging in.
    pub(crate) fn vendor(&self) -> Option<&'static Vendor> {
        match self {
            Self::Claude => Some(&login::CLAUDE),
            Self::Codex => Some(&login::CODEX),
            Self::Command | Self::External(_) => None,
        }
    }
}

/// Writes a file for programs behind the wall, which they may read and not change, and returns its path in their terms.
pub(crate) fn write_aid(place: &Place, name: &str, content: &str) -> Result<PathBuf, Fault> {
    let path = place.aids().join(name);
    let write = || -> io::Result<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        File::options().write(true).create_new(true).open(&path)?.write_all(content.as_bytes())?;
        place.give(&place.aids())
    };
    write().map_err(workspace("writing the runtime's settings"))?;
    Ok(place.inside().aids.join(name))
}

/// Writes a file into the agent's home and gives it to the agent. Whatever a setup script put in its way goes: it may be a link, and
/// the worker may write where the agent may not.
pub(crate) fn write_home(place: &Place, name: &Path, content: &str) -> Result<(), Fault> {
    let write = || -> io::Result<()> {
        archive::make_way(&place.home(), name.parent().unwrap_or(Path::new("")))?;
        let path = place.home().join(name);
        archive::remove(&path)?;
        File::options().write(true).create_new(true).open(&path)?.write_all(content.as_bytes())?;
        place.give_along(&place.home(), name)
    };
    write().map_err(workspace("writing the runtime's settings"))
}

pub(crate) fn check_size(what: &'static str, size: usize, most: usize) -> Result<(), Fault> {
    if size > most { Err(Fault::TooLarge { what, size, most }) } else { Ok(()) }
}

/// Tells what the agent is told on standard input: all of it, or what is new to a conversation that goes on.
pub(crate) fn words(job: &Job<'_>, resumed: bool) -> Vec<u8> {
    let goes_on = resumed && !matches!(job.task.occasion, Occasion::First);
    let text = if goes_on { &job.follow_up } else { &job.prompt };
    text.clone().into_bytes()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_is_written_through_a_link_that_a_setup_script_left() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let kept = elsewhere.path().join("config.toml");
        fs::write(&kept, "kept").unwrap();
        let variables = [("AGORA_DISPATCH_ID", "d_1".into()), ("AGORA_DISPATCH_DIR", dir.path().into())];
        let place = Place::new(&variables.map(|(name, value): (_, OsString)| (name.into(), value))).unwrap();
        fs::create_dir(place.home()).unwrap();
        let name = Path::new(".codex/config.toml");

        symlink(elsewhere.path(), place.home().join(".codex")).unwrap();
        write_home(&place, name, "ours").unwrap();
        assert_eq!(fs::read_to_string(place.home().join(name)).unwrap(), "ours");

        fs::remove_file(place.home().join(name)).unwrap();
        symlink(&kept, place.home().join(name)).unwrap();
        write_home(&place, name, "ours again").unwrap();
        assert_eq!(fs::read_to_string(place.home().join(name)).unwrap(), "ours again");
        assert_eq!(fs::read_to_string(kept).unwrap(), "kept");
    }
}
