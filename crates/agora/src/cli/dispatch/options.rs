//! How a dispatch is to run: the options that `run` and `dispatch run` share.

use std::path::Path;

use agora_core::bundle::{Budget, VariableName};
use agora_core::limits::{LONGEST_DISPATCH_SECONDS, LONGEST_RETENTION_DAYS};
use agora_core::secret::{SecretValue, ShortSecrets};
use agora_engine::{Dispatch, SecretSource};
use clap::{Args, value_parser};
use serde_json::Value;
use serde_json::error::Category;

use crate::cli::Context;
use crate::cli::env::warn_of_inline;
use crate::cli::explain::read_input;
use crate::failure::Failure;
use crate::outside::Terminal;
use crate::person;

/// How it is to run, and whether anybody waits.
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// Where it runs
    #[arg(long, value_name = "NAME", default_value = "local")]
    target: String,
    /// An env bundle; may be given again, later ones win. Without one, `default` is used if there is one
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// Lay this capability over the workspace instead of the assigned ones; may be given again
    #[arg(long, value_name = "NAME", conflicts_with = "add_capability")]
    capability: Vec<String>,
    /// Lay this capability over the workspace after the assigned ones; may be given again
    #[arg(long, value_name = "NAME")]
    add_capability: Vec<String>,
    /// What the agent works on: a directory (in a git repository: that repository as it is now), or a repository's URL
    #[arg(long, value_name = "DIR|URL")]
    workspace: Option<String>,
    /// Work on this commit, branch or tag of the repository instead of what is there now
    #[arg(long, value_name = "REF")]
    base: Option<String>,
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
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u32).range(1..=i64::from(LONGEST_DISPATCH_SECONDS)))]
    timeout: Option<u32>,
    /// What the thread may use up, as JSON: `turns`, `tokens`, `minutes`, `usd`, `onLimit`
    #[arg(long, value_name = "JSON")]
    budget: Option<String>,
    /// Days that what is left of the thread is kept after its end
    #[arg(long, value_name = "DAYS", value_parser = value_parser!(u32).range(1..=i64::from(LONGEST_RETENTION_DAYS)))]
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

/// Whether anybody waits, and what a question is to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Manner {
    pub(in crate::cli) detach: bool,
    pub(in crate::cli) pause_ok: bool,
}

impl Options {
    pub(in crate::cli) fn manner(&self) -> Manner {
        Manner { detach: self.detach, pause_ok: self.pause_ok }
    }

    pub(in crate::cli) fn names_a_workspace(&self) -> bool {
        self.workspace.is_some()
    }

    /// Tells which of the options that mean one dispatch was given.
    pub(in crate::cli) fn meant_for_one(&self) -> Option<&'static str> {
        let given = [
            (self.idempotency_key.is_some(), "--idempotency-key"),
            (self.dispatch_id.is_some(), "--dispatch-id"),
            (self.detach, "--detach"),
        ];
        given.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
    }

    /// Asks for a subagent to run like this.
    pub(in crate::cli) fn request(
        self,
        context: &Context,
        subagent: impl Into<String>,
    ) -> Result<Dispatch, Failure> {
        let mut dispatch = Dispatch::to(subagent).target(self.target).priority(self.priority);
        dispatch = dispatch.owner(person::at_the_terminal().principal);
        dispatch = self.env.into_iter().fold(dispatch, Dispatch::env);
        dispatch = self.label.into_iter().fold(dispatch, Dispatch::label);
        if !self.capability.is_empty() {
            dispatch = dispatch.capabilities(self.capability);
        }
        if !self.add_capability.is_empty() {
            dispatch = dispatch.add_capabilities(self.add_capability);
        }
        dispatch = optional(dispatch, self.workspace, workspace);
        dispatch = optional(dispatch, self.base, Dispatch::base);
        if let Some(state) = self.partial_state.as_deref() {
            dispatch = dispatch.partial_state(read_state(state)?);
        }
        if let Some(budget) = self.budget.as_deref() {
            dispatch = dispatch.budget(read_budget(budget)?);
        }
        for secret in &self.secret {
            let (variable, value) = read_secret(context, secret)?;
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

fn read_budget(text: &str) -> Result<Budget, Failure> {
    let wrong = |why: String| {
        Failure::wrong("bad-budget", "the budget cannot be used")
            .because(why)
            .hint("such as `--budget '{\"turns\": 20, \"usd\": 2.5}'`")
    };
    let is_json = |error: &serde_json::Error| error.classify() == Category::Data;
    let budget: Budget = serde_json::from_str(text).map_err(|error| match is_json(&error) {
        true => wrong(error.to_string()),
        false => wrong(format!("it is not JSON: {error}")),
    })?;
    budget.check().map_err(|error| wrong(error.to_string()))?;
    Ok(budget)
}

fn optional<T>(dispatch: Dispatch, value: Option<T>, set: impl FnOnce(Dispatch, T) -> Dispatch) -> Dispatch {
    match value {
        Some(value) => set(dispatch, value),
        None => dispatch,
    }
}

/// Tells a directory from a URL, as git does.
pub(in crate::cli) fn workspace(dispatch: Dispatch, text: String) -> Dispatch {
    let path = Path::new(&text);
    if is_bare(path) {
        // git fetches in a directory of agora's.
        let whole =
            std::fs::canonicalize(path).ok().and_then(|path| path.into_os_string().into_string().ok());
        return dispatch.workspace_from(whole.unwrap_or(text));
    }
    let remote = text.contains("://")
        || (!path.exists() && text.split('/').next().is_some_and(|host| host.contains(':')));
    if remote { dispatch.workspace_from(text) } else { dispatch.workspace(text) }
}

/// Tells whether a repository has no working tree to take: it is fetched from, like one elsewhere.
pub(in crate::cli) fn is_bare(path: &Path) -> bool {
    path.join("HEAD").is_file() && path.join("objects").is_dir()
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
    context: &Context,
    argument: &str,
) -> Result<(VariableName, SecretValue), Failure> {
    let (key, source) = argument.split_once('=').unwrap_or((argument, "prompt"));
    let variable: VariableName = key.parse().map_err(|error| {
        Failure::wrong("usage", format!("`{key}` is not a variable's name")).because(error)
    })?;
    let source = SecretSource::parse(source).map_err(|error| {
        Failure::wrong("secret-source", format!("the secret for `{key}` cannot be taken")).because(error)
    })?;
    if source.is_inline() {
        warn_of_inline(context, &variable);
    }
    let value = source.value(variable.as_str(), &Terminal, ShortSecrets::Refuse)?;
    Ok((variable, value))
}
