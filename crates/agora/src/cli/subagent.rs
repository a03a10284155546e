//! `agora subagent`: what agent runs.

use std::path::PathBuf;

use agora_core::bundle::{RawSubagent, Subagent as SubagentBundle, Verify};
use agora_core::limits::VERIFY_SECONDS;
use agora_core::reference::BundleRef;
use agora_engine::{BundleKind, Name, read_subagent};
use clap::{Args, Subcommand};
use serde_json::Value;

use super::bundle::{self, Get, Versions};
use super::{Allowed, Context, parse};
use crate::failure::Failure;

const KIND: BundleKind = BundleKind::Subagent;

/// Register what agent runs, and assign capabilities to it
#[derive(Debug, Subcommand)]
pub(super) enum Subagent {
    /// Register a subagent from a file, from options, or from both (an option wins over the file)
    #[command(after_help = "Examples:\n  \
        agora subagent register --from .claude/agents/planner.md\n  \
        agora subagent register --name fixer --system-prompt 'You fix tests.' \\\n    \
        --prompt-template 'Fix: {{task}}' --verify-command 'cargo test'\n  \
        agora subagent register --name lint --runtime command -- ./lint.sh --strict")]
    Register(Box<Register>),
    /// Register a subagent again with other capabilities; their order decides who wins
    #[command(after_help = "Example:\n  agora subagent assign planner --capabilities house-style,tools")]
    Assign(Assign),
    /// List the subagents with their latest version
    #[command(after_help = "Example:\n  agora subagent list --json")]
    List,
    /// Show a subagent
    #[command(after_help = "Example:\n  agora subagent get planner")]
    Get(Get),
    /// List the versions of a subagent, newest first
    #[command(after_help = "Example:\n  agora subagent versions planner")]
    Versions(Versions),
}

#[derive(Debug, Args)]
pub(super) struct Register {
    /// The name to register it under; the file's own when left out
    #[arg(long, value_parser = parse::<Name>)]
    name: Option<Name>,
    /// A .yaml, .toml or .md file; a Claude agent file as it is
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// What it is for, in a sentence
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// What the agent is told about itself
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
    /// The prompt of each dispatch, in Mustache: {{task}}, {{#resumed}}{{answer}}{{/resumed}} …
    #[arg(long, value_name = "TEXT")]
    prompt_template: Option<String>,
    /// fast, standard, max, or a name that the runtime knows
    #[arg(long)]
    model: Option<String>,
    /// claude-code (the default), codex, command, or an external adapter
    #[arg(long)]
    runtime: Option<String>,
    /// A capability to lay over the workspace; may be given again, later wins
    #[arg(long = "capability", value_name = "REFERENCE", value_delimiter = ',', value_parser = parse::<BundleRef>)]
    capabilities: Vec<BundleRef>,
    /// A shell command that looks at the work afterwards, and reports
    #[arg(long, value_name = "COMMAND")]
    verify_command: Option<String>,
    /// How long it may take
    #[arg(long, value_name = "SECONDS", requires = "verify_command")]
    verify_timeout: Option<u32>,
    #[command(flatten)]
    allowed: Allowed,
    /// With `--runtime command`: the program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct Assign {
    /// The subagent
    #[arg(value_parser = parse::<Name>)]
    name: Name,
    /// All its capabilities from now on, in order; '' for none
    #[arg(long, value_name = "REFERENCES", value_delimiter = ',', required = true)]
    capabilities: Vec<String>,
}

impl Subagent {
    pub(super) async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Register(register) => register.run(context).await,
            Self::Assign(Assign { name, capabilities }) => {
                let given = capabilities.iter().filter(|text| !text.is_empty());
                let references = given.map(|text| parse::<BundleRef>(text)).collect::<Result<Vec<_>, _>>();
                let references = references.map_err(|error| Failure::wrong("usage", error))?;
                let registered = context.config.agora().assign(&name, references).await?;
                bundle::registered(context, KIND, &name, registered)
            }
            Self::List => bundle::list(context, KIND).await,
            Self::Versions(versions) => bundle::versions(context, KIND, &versions).await,
            Self::Get(get) => {
                let found = bundle::get::<SubagentBundle>(context, &get).await?;
                let fields = serde_json::to_value(RawSubagent::from(found.body.clone()))
                    .map_err(|error| Failure::bug(error.to_string()))?;
                let json = || bundle::json_of(&found.name, &found.version, fields.clone());
                context.ui.result(json, || format!("{}{}", bundle::heading(&found), readable(&fields)))
            }
        }
    }
}

impl Register {
    async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut raw = match &self.from {
            Some(file) => read_subagent(file).map_err(|error| {
                bundle::missing(
                    error,
                    file,
                    "`--from FILE` takes a .yaml, .toml or .md file that describes it",
                )
            })?,
            None => RawSubagent::default(),
        };
        let written = raw.name.as_deref().map(parse::<Name>).transpose();
        let written = written.map_err(|error| Failure::wrong("bad-name", error))?;
        let name = self.name.or(written).ok_or_else(|| {
            Failure::wrong("usage", "the subagent has no name")
                .hint("give one with `--name NAME`, or in the file")
        })?;
        let verify = self.verify_command.map(|command| {
            let timeout_seconds = self.verify_timeout.unwrap_or(VERIFY_SECONDS);
            Verify { command, timeout_seconds }
        });
        let list = |list: Vec<String>| Some(list).filter(|list| !list.is_empty());
        raw.description = self.description.or(raw.description);
        raw.system_prompt = self.system_prompt.or(raw.system_prompt);
        raw.prompt_template = self.prompt_template.or(raw.prompt_template);
        raw.model = self.model.or(raw.model);
        raw.runtime = self.runtime.or(raw.runtime);
        raw.command = list(self.command).or(raw.command);
        raw.capabilities = Some(self.capabilities).filter(|list| !list.is_empty()).or(raw.capabilities);
        raw.verify = verify.or(raw.verify);
        let registered = context.config.agora().register_subagent(&name, raw, &self.allowed.patterns).await?;
        bundle::registered(context, KIND, &name, registered)?;
        context.ui.hint(format!("`agora explain {name}` shows its prompts"));
        Ok(())
    }
}

/// Writes a subagent's fields for reading: texts as they are, the rest as JSON.
fn readable(fields: &Value) -> String {
    let line = |(key, value): (&String, &Value)| match value {
        Value::String(text) if text.contains('\n') => format!("{key}:\n{}\n", indented(text)),
        Value::String(text) => format!("{:<13}{text}\n", format!("{key}:")),
        other => format!("{:<13}{other}\n", format!("{key}:")),
    };
    fields.as_object().into_iter().flatten().map(line).collect()
}

/// Indents a text under its heading.
pub(super) fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
