//! `agora dispatch run`: a subagent runs, and its words are the result.

use agora_core::wall::Isolation;
use agora_engine::{Agora, Dispatch, DispatchResult, LoginSource, NeedsInput, Thread, UsedLogin};
use clap::Args;
use serde_json::{Value, json};

use super::options::{Manner, Options};
use super::pause::{self, Pause};
use super::{open_to_run, start_carrier};
use crate::asking;
use crate::cli::Context;
use crate::cli::explain::read_input;
use crate::dispatch_story;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::left_out;
use crate::person;
use crate::progress::Progress;

/// Run a subagent, and wait for what it says
#[derive(Debug, Args)]
#[command(
    long_about = "Run a subagent, and wait for what it says. Its final words go to standard output; with `--json` the whole result does.\n\nCtrl-C cancels it and waits until nothing of it is left; a second one leaves at once, and the next command about dispatches takes it in.",
    after_help = "Examples:\n  agora dispatch run --subagent planner --input '{\"task\": \"split it\"}'\n  agora dispatch run --subagent planner --prompt 'split the parser' --detach\n  agora dispatch run --subagent fixer --workspace . --prompt 'fix it'"
)]
pub(in crate::cli) struct Run {
    /// The subagent: its name, `name@sha256:…`, or `name@<RFC 3339 time>`
    #[arg(long, value_name = "NAME")]
    subagent: String,
    /// The input as JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// The task, as the input's `task`
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    #[command(flatten)]
    options: Options,
}

impl Run {
    pub(in crate::cli) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let manner = self.options.manner();
        let input = input(self.input.as_deref(), self.prompt)?;
        let dispatch = self.options.request(context, self.subagent)?.input(input);
        run(context, &open_to_run(context).await?, dispatch, manner).await
    }
}

/// Reads the input, with the task in it.
pub(in crate::cli) fn input(given: Option<&str>, task: Option<String>) -> Result<Value, Failure> {
    let mut input = given.map(read_input).transpose()?.unwrap_or_default();
    input.extend(task.map(|task| ("task".to_owned(), json!(task))));
    Ok(Value::Object(input))
}

/// Dispatches, and waits for the end unless it is to run by itself.
pub(in crate::cli) async fn run(
    context: &Context,
    agora: &Agora,
    dispatch: Dispatch,
    manner: Manner,
) -> Result<Exit, Failure> {
    if manner.detach {
        let thread = agora.accept(dispatch.unwatched()).await?;
        warn(context, agora, &thread).await?;
        start_carrier(context, std::slice::from_ref(thread.id()))?;
        return accepted(context, &thread).await;
    }
    let thread = agora.dispatch(dispatch).await?;
    warn(context, agora, &thread).await?;
    follow(context, agora, &thread, manner.pause_ok).await
}

/// Says with what an agent logs in that nobody named, what it does not get to see, and when nothing stands between it and this machine.
pub(in crate::cli) async fn warn(context: &Context, agora: &Agora, thread: &Thread) -> Result<(), Failure> {
    announce(context, thread);
    if let Some(ground) = thread.ground() {
        left_out::tell(context.ui, context.config.users_home().as_deref(), ground);
    }
    if agora.has_open_targets() {
        let target = thread.describe().await?.target;
        if agora.target(&target).is_some_and(|target| target.wall.isolation == Isolation::None) {
            context.ui.warn("there is no wall: the agent may do whatever you may (`isolation = \"none\"`)");
        }
    }
    Ok(())
}

/// Says with what an agent logs in that nobody named. With `--json` it is in the document.
pub(in crate::cli) fn announce(context: &Context, thread: &Thread) {
    if let Some(UsedLogin { source: LoginSource::Around, login }) = thread.login() {
        context
            .ui
            .note(format_args!("it logs in with `{}` of this environment", login.variables.join("` and `")));
    }
}

/// Says which dispatch was accepted, when nobody waits for it.
pub(super) async fn accepted(context: &Context, thread: &Thread) -> Result<Exit, Failure> {
    let result = thread.describe().await?;
    context.ui.result(|| &result, || format!("{}\n", thread.dispatch_id()))?;
    context.ui.hint(format_args!(
        "`agora logs -f {}` follows it, `agora show {0}` tells how it went",
        thread.dispatch_id()
    ));
    Ok(Exit::Done)
}

/// Waits for a dispatch with a line that says how far it is, and tells how it ended.
pub(in crate::cli) async fn follow(
    context: &Context,
    agora: &Agora,
    thread: &Thread,
    pause_ok: bool,
) -> Result<Exit, Failure> {
    follow_to(context, agora, thread, pause_ok, &|result| result).await
}

/// As [`follow`], with the result in a document of the caller's. Whoever sits at a terminal is asked right there, if
/// they may answer, and it goes on.
pub(in crate::cli) async fn follow_to(
    context: &Context,
    agora: &Agora,
    thread: &Thread,
    pause_ok: bool,
    wrap: &dyn Fn(Value) -> Value,
) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let mut next: Option<Thread> = None;
    loop {
        let thread = next.as_ref().unwrap_or(thread);
        let Some(result) = watch(context, agora, thread, &mut interrupts).await? else {
            return cancel(context, thread, &mut interrupts).await;
        };
        if result.needs_input.is_some() {
            let latest = thread.latest().await?;
            if latest.dispatch_id() != thread.dispatch_id() {
                context.ui.note("its question was answered meanwhile; it goes on");
                next = Some(latest);
                continue;
            }
        }
        let can_answer =
            |asked: &&NeedsInput| context.ui.can_ask() && asking::only_others(&asked.terms).is_none();
        if let Some(asked) = result.needs_input.as_ref().filter(can_answer).filter(|_| !pause_ok) {
            context.ui.result(|| Value::Null, || dispatch_story::words(&result))?;
            let paused = pause::ask(context, agora, &result.subagent, &result.dispatch_id, asked).await?;
            interrupts.forget();
            match paused {
                Pause::GoesOn(thread) => {
                    next = Some(*thread);
                    continue;
                }
                Pause::Over(exit) => return Ok(exit),
            }
        }
        context.ui.result(|| wrap(json!(result)), || dispatch_story::words(&result))?;
        dispatch_story::tell(context.ui, &result);
        return Ok(match result.state {
            "finished" => Exit::Done,
            "needs_input" if pause_ok => Exit::Done,
            "needs_input" => Exit::Paused,
            _ => Exit::Failed,
        });
    }
}

/// Waits for a dispatch with a line that says how far it is. `None`: somebody pressed Ctrl-C.
async fn watch(
    context: &Context,
    agora: &Agora,
    thread: &Thread,
    interrupts: &mut Interrupts,
) -> Result<Option<DispatchResult>, Failure> {
    let mut progress = Progress::new(context.ui, agora.clone(), thread.dispatch_id().clone());
    let waiting = thread.wait();
    tokio::pin!(waiting);
    let ended = loop {
        tokio::select! {
            biased;
            () = interrupts.next() => break None,
            ended = &mut waiting => break Some(ended),
            () = progress.tick() => {}
        }
    };
    progress.clear();
    Ok(ended.transpose()?)
}

/// The first Ctrl-C cancels, and returns when nothing is left; the second leaves at once.
async fn cancel(context: &Context, thread: &Thread, interrupts: &mut Interrupts) -> Result<Exit, Failure> {
    context.ui.note("cancelling; Ctrl-C again leaves at once, and the next command takes it in");
    let by = person::at_the_terminal();
    tokio::select! {
        biased;
        () = interrupts.next() => {}
        ended = thread.cancel_by(&by) => {
            ended?;
            tell(context, &thread.describe().await?)?;
        }
    }
    Ok(Exit::Interrupted)
}

pub(super) fn tell(context: &Context, result: &DispatchResult) -> Result<(), Failure> {
    context.ui.result(|| result, || dispatch_story::words(result))?;
    dispatch_story::tell(context.ui, result);
    Ok(())
}
