//! `agora run`: a task for an agent, here and now.

mod agent;
mod book;
mod each;
mod lines;

use std::io::{self, IsTerminal, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use agora_core::bundle::Subagent;
use agora_core::credential::Pattern;
use agora_core::limits::INPUT_BYTES;
use agora_engine::{Agora, Dispatch, Found, Name};
use clap::Args;
use serde_json::Value;

use super::dispatch::options::{Options, is_bare, workspace};
use super::dispatch::{open_to_run, run as one};
use super::{Context, parse};
use crate::exit::Exit;
use crate::failure::Failure;
use each::Each;

/// How many lines of `--each` run at once: what a laptop bears, and a provider's limit.
const JOBS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(3);

/// Run an agent on a task, in this repository
#[derive(Debug, Args)]
#[command(
    long_about = "Run an agent on a task, in this repository. Its final words go to standard output; with `--json` the whole result does.\n\nThe agent is `claude` or `codex` as they come with agora, or a subagent that you registered. It works on a copy: no file of yours is changed.\n\nCtrl-C cancels it and waits until nothing of it is left; a second one leaves at once, and the next command about dispatches takes it in.",
    after_help = "Examples:\n  agora run 'fix the flaky test'\n  agora run --agent codex - < task.md\n  agora run --agent planner --each tasks.jsonl --jobs 4"
)]
pub(super) struct Run {
    /// What to do; `-` reads it from standard input
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// claude, codex, or a subagent of yours. Without it: whichever of the two is installed and has a login
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// More input as JSON, or @FILE, for a subagent that wants some
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// Register what runs as a subagent of this name, with the model, runtime, capabilities and budget that are said here
    #[arg(long, value_name = "NAME", value_parser = parse::<Name>)]
    save: Option<Name>,
    /// Run it once for each line of a file: each a JSON object, the input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["task", "input"])]
    each: Option<PathBuf>,
    /// With `--each`: how many at once, 4 where nothing is said; the target's own limit holds too
    #[arg(long, value_name = "N", requires = "each", conflicts_with_all = ["task", "input"])]
    jobs: Option<NonZeroUsize>,
    /// With `--each`: a name under which the same file goes on where it stopped
    #[arg(long, value_name = "NAME", requires = "each", conflicts_with_all = ["task", "input"], value_parser = parse::<Name>)]
    resume_key: Option<Name>,
    #[command(flatten)]
    options: Options,
}

impl Run {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let manner = self.options.manner();
        let one_only = self.options.meant_for_one();
        if let (Some(_), Some(option)) = (&self.each, one_only) {
            return Err(Failure::wrong("usage", format!("`{option}` is for one dispatch, not for `--each`"))
                .hint("`--resume-key NAME` lets the same file go on where it stopped"));
        }
        let input = match &self.each {
            Some(_) => None,
            None => Some(one::input(self.input.as_deref(), task(self.task, self.input.is_some())?)?),
        };
        let has_workspace = self.options.names_a_workspace();
        let agora = open_to_run(context).await?;
        let dispatch = self.options.request(context, "claude")?;
        let agent = agent::choose(context, &agora, self.agent.as_deref(), &dispatch).await?;
        let mut dispatch = dispatch.subagent(agent.reference());
        if let Some(each) = self.each {
            let mut each = Each::new(&each, self.jobs.unwrap_or(JOBS), self.resume_key)?;
            dispatch = match &each.key {
                // The same words again are the same request, whatever was registered meanwhile.
                Some(_) => dispatch.subagent(agent.found.name.as_str()),
                None => dispatch,
            };
            each.check(&agora, &agent.found.body, &dispatch).await?;
            dispatch = if has_workspace { dispatch } else { here(context, dispatch) };
            dispatch = save(context, &agora, self.save.as_ref(), &agent.found, dispatch).await?;
            return each.run(context, &agora, dispatch, manner.pause_ok).await;
        }
        let mut input = input.unwrap_or_default();
        // Whoever has words of their own says in them what a task is.
        if agent.found.is_built_in() && !has_workspace {
            say_where(&mut input, context.config.below_repository().as_deref());
        }
        dispatch = dispatch.input(input);
        // Before anything is said or saved that holds only if it is accepted.
        agora.check(&dispatch).await?;
        dispatch = if has_workspace { dispatch } else { here(context, dispatch) };
        dispatch = save(context, &agora, self.save.as_ref(), &agent.found, dispatch).await?;
        one::run(context, &agora, dispatch, manner).await
    }
}

/// Returns what to do: the argument, else what comes on standard input.
fn task(argument: Option<String>, has_input: bool) -> Result<Option<String>, Failure> {
    let piped = match argument.as_deref() {
        Some("-") => true,
        Some(_) => false,
        None if has_input => return Ok(None),
        None => !io::stdin().is_terminal(),
    };
    let text = if piped { read_task()? } else { argument.unwrap_or_default() };
    if text.trim().is_empty() {
        return Err(Failure::wrong("no-task", "there is nothing to do: the task is missing")
            .hint("such as `agora run 'fix the flaky test'`")
            .hint("or from a file: `agora run - < task.md`"));
    }
    Ok(Some(text))
}

fn read_task() -> Result<String, Failure> {
    let mut text = String::new();
    let failed = |error: io::Error| {
        Failure::wrong("bad-input", "the task cannot be read from standard input").because(error)
    };
    let most = INPUT_BYTES as u64;
    io::stdin().lock().take(most + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > most {
        return Err(Failure::wrong("bad-input", format!("the task has more than {most} bytes (1 MiB)"))
            .hint("put it into a file of the repository, and let the task name it"));
    }
    Ok(text)
}

/// Adds to a task where it was said: an agent begins at the workspace's root, also when whoever asks does not stand there.
fn say_where(input: &mut Value, below: Option<&Path>) {
    let Some(below) = below.filter(|below| !below.as_os_str().is_empty()) else { return };
    if let Some(Value::String(task)) = input.get_mut("task") {
        let told = format!("\n\nThis was asked from the directory `{}` of the workspace.", below.display());
        task.push_str(&told);
    }
}

/// Lets it work on the repository that the current directory is in.
fn here(context: &Context, dispatch: Dispatch) -> Dispatch {
    match context.config.repository() {
        Some(repository) => dispatch.workspace(repository),
        // Without a working tree: what it holds is fetched from it.
        None if is_bare(Path::new(".")) => workspace(dispatch, ".".to_owned()),
        None => {
            context.ui.note("this is no git repository: the agent begins with an empty directory");
            dispatch
        }
    }
}

/// Registers what is about to run under a name, and lets that run.
async fn save(
    context: &Context,
    agora: &Agora,
    name: Option<&Name>,
    agent: &Found<Subagent>,
    mut dispatch: Dispatch,
) -> Result<Dispatch, Failure> {
    let Some(name) = name else { return Ok(dispatch) };
    let raw = dispatch.settle(agent.body.clone())?;
    // Its words passed when they were registered, with what was allowed then.
    let saved = agora.register_subagent(name, raw, &Pattern::all().collect::<Vec<_>>()).await?;
    let reference = format!("{name}@{}", saved.version.content_hash);
    context.ui.note(format_args!("saved as {reference}"));
    Ok(dispatch.subagent(reference))
}
