//! `agora dispatch run`: a subagent runs, and its words are the result.

use agora_core::bundle::{Budget, VariableName};
use agora_core::secret::ShortSecrets;
use agora_engine::{Agora, Dispatch, DispatchResult, LoginSource, SecretSource, Thread, UsedLogin};
use clap::Args;
use serde_json::{Value, json};

use super::pause::{self, Pause};
use super::{open, start_carrier};
use crate::cli::Context;
use crate::cli::explain::read_input;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::outside::Terminal;
use crate::progress::Progress;
use crate::story;

/// Run a subagent, and wait for what it says
#[derive(Debug, Args)]
#[command(
    long_about = "Run a subagent, and wait for what it says. Its final words go to standard output; with `--json` the whole result does.\n\nCtrl-C cancels it and waits until nothing of it is left; a second one leaves at once, and the next command about dispatches takes it in.",
    after_help = "Examples:\n  agora dispatch run --subagent planner --input '{\"task\": \"split the parser\"}'\n  agora dispatch run --subagent planner --prompt 'split the parser' --detach"
)]
pub(in crate::cli) struct Run {
    /// The subagent: its name, `name@sha256:…`, or `name@<RFC 3339 time>`
    #[arg(long, value_name = "NAME")]
    subagent: String,
    /// Where it runs
    #[arg(long, value_name = "NAME", default_value = "local")]
    target: String,
    /// An env bundle; may be given again, later ones win. Without one, `default` is used if there is one
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// The input as JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// The task, as the input's `task`
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Lay this capability over the workspace instead of the assigned ones; may be given again
    #[arg(long, value_name = "NAME", conflicts_with = "add_capability")]
    capability: Vec<String>,
    /// Lay this capability over the workspace after the assigned ones; may be given again
    #[arg(long, value_name = "NAME")]
    add_capability: Vec<String>,
    /// What was worked out before, as JSON or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    partial_state: Option<String>,
    /// Another model than the subagent's
    #[arg(long)]
    model: Option<String>,
    /// Another runtime than the subagent's
    #[arg(long)]
    runtime: Option<String>,
    /// A secret for this thread alone, as `KEY=env:NAME`, `KEY=file:PATH`, `KEY=stdin` or `KEY` to be asked
    #[arg(long, value_name = "KEY=SOURCE")]
    secret: Vec<String>,
    /// The agent's time in seconds, at most a day
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,
    /// What the thread may use up, as JSON: `turns`, `tokens`, `minutes`, `usd`, `onLimit`
    #[arg(long, value_name = "JSON")]
    budget: Option<String>,
    /// Days that what is left of the thread is kept after its end
    #[arg(long, value_name = "DAYS")]
    retention_days: Option<u32>,
    /// A label to find it by; may be given again
    #[arg(long)]
    label: Vec<String>,
    /// Higher ones start first
    #[arg(long, allow_negative_numbers = true, default_value_t = 0)]
    priority: i32,
    /// The same request under the same key is one dispatch
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// The dispatch's id, instead of one that is made
    #[arg(long, value_name = "ID")]
    dispatch_id: Option<String>,
    /// Return as soon as it is accepted; it runs on by itself
    #[arg(long)]
    detach: bool,
    /// End with code 0, not 4, when the agent asks something
    #[arg(long)]
    pause_ok: bool,
}

impl Run {
    pub(in crate::cli) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let (detach, pause_ok) = (self.detach, self.pause_ok);
        let dispatch = self.request()?;
        let agora = open(context).await?;
        if detach {
            let thread = agora.accept(dispatch.unwatched()).await?;
            warn(context, &thread);
            start_carrier(context, std::slice::from_ref(thread.id()))?;
            return accepted(context, &thread).await;
        }
        let thread = agora.dispatch(dispatch).await?;
        warn(context, &thread);
        follow(context, &agora, &thread, pause_ok).await
    }

    fn request(self) -> Result<Dispatch, Failure> {
        let mut dispatch = Dispatch::to(self.subagent).target(self.target).priority(self.priority);
        dispatch = self.env.into_iter().fold(dispatch, Dispatch::env);
        dispatch = self.label.into_iter().fold(dispatch, Dispatch::label);
        if !self.capability.is_empty() {
            dispatch = dispatch.capabilities(self.capability);
        }
        if !self.add_capability.is_empty() {
            dispatch = dispatch.add_capabilities(self.add_capability);
        }
        let mut input = self.input.as_deref().map(read_input).transpose()?.unwrap_or_default();
        if let Some(prompt) = self.prompt {
            input.insert("task".to_owned(), json!(prompt));
        }
        dispatch = dispatch.input(Value::Object(input));
        if let Some(state) = self.partial_state.as_deref() {
            dispatch = dispatch.partial_state(read_state(state)?);
        }
        if let Some(budget) = self.budget.as_deref() {
            let budget: Budget = serde_json::from_str(budget).map_err(|error| {
                Failure::wrong("bad-budget", "the budget cannot be used")
                    .because(error)
                    .hint("such as `--budget '{\"turns\": 20, \"usd\": 2.5}'`")
            })?;
            dispatch = dispatch.budget(budget);
        }
        for secret in &self.secret {
            let (variable, value) = read_secret(secret)?;
            dispatch = dispatch.secret(variable, value);
        }
        let given = (self.model, self.runtime, self.idempotency_key, self.dispatch_id);
        dispatch = optional(dispatch, given.0, Dispatch::model);
        dispatch = optional(dispatch, given.1, Dispatch::runtime);
        dispatch = optional(dispatch, given.2, Dispatch::idempotency_key);
        dispatch = optional(dispatch, given.3, Dispatch::dispatch_id);
        dispatch = optional(dispatch, self.timeout, Dispatch::timeout_seconds);
        Ok(optional(dispatch, self.retention_days, Dispatch::retention_days))
    }
}

fn optional<T>(dispatch: Dispatch, value: Option<T>, set: impl FnOnce(Dispatch, T) -> Dispatch) -> Dispatch {
    match value {
        Some(value) => set(dispatch, value),
        None => dispatch,
    }
}

fn read_state(argument: &str) -> Result<Value, Failure> {
    // Read as the value of an object's only key, so that there is one way to read JSON or a file.
    match argument.strip_prefix('@') {
        Some(_) => read_input(argument).map(Value::Object),
        None => serde_json::from_str(argument)
            .map_err(|error| Failure::wrong("bad-state", "the partial state is not JSON").because(error)),
    }
}

pub(in crate::cli) fn read_secret(
    argument: &str,
) -> Result<(VariableName, agora_core::secret::SecretValue), Failure> {
    let (key, source) = argument.split_once('=').unwrap_or((argument, "prompt"));
    let variable: VariableName = key.parse().map_err(|error| {
        Failure::wrong("usage", format!("`{key}` is not a variable's name")).because(error)
    })?;
    let source = SecretSource::parse(source).map_err(|error| {
        Failure::wrong("secret-source", format!("the secret for `{key}` cannot be taken")).because(error)
    })?;
    let value = source.value(variable.as_str(), &Terminal, ShortSecrets::Refuse)?;
    Ok((variable, value))
}

/// Says with what an agent logs in that nobody named, and what stands between it and this machine: nothing yet.
pub(super) fn warn(context: &Context, thread: &Thread) {
    if let Some(UsedLogin { source: LoginSource::Around, login }) = thread.login() {
        context
            .ui
            .note(format_args!("it logs in with `{}` of this environment", login.variables.join("` and `")));
    }
    context.ui.warn("no sandbox yet: the agent may do whatever you may (`isolation: none`)");
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

/// As [`follow`], with the result in a document of the caller's. Whoever sits at a terminal is asked right there, and it goes on.
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
        if let Some(asked) = result.needs_input.as_ref().filter(|_| context.ui.can_ask() && !pause_ok) {
            context.ui.result(|| Value::Null, || story::words(&result))?;
            match pause::ask(context, agora, &result.subagent, asked).await? {
                Pause::GoesOn(thread) => {
                    next = Some(*thread);
                    continue;
                }
                Pause::Over(exit) => return Ok(exit),
            }
        }
        context.ui.result(|| wrap(json!(result)), || story::words(&result))?;
        story::tell(context.ui, &result);
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
    tokio::select! {
        biased;
        () = interrupts.next() => {}
        ended = thread.cancel() => {
            ended?;
            tell(context, &thread.describe().await?)?;
        }
    }
    Ok(Exit::Interrupted)
}

pub(super) fn tell(context: &Context, result: &DispatchResult) -> Result<(), Failure> {
    context.ui.result(|| result, || story::words(result))?;
    story::tell(context.ui, result);
    Ok(())
}
