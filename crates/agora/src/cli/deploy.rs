//! `agora deploy`: everything that a file describes.

use std::path::PathBuf;

use agora_core::catalogue::Change;
use agora_engine::{Applied, Plan};
use clap::Args;
use serde_json::{Value, json};

use super::bundle::{self, word};
use super::{Allowed, Context};
use crate::failure::Failure;
use crate::outside::Terminal;

/// Register everything that a file describes
#[derive(Debug, Args)]
#[command(
    long_about = "Register everything that a file describes, in YAML or TOML.\n\n\
        Every entry is checked before the first is registered. Paths are relative to the file:\n\n  \
        capabilities:\n    house-style: { from: ./house-style }\n  \
        subagents:\n    base: { systemPrompt: You are careful. }\n    \
        planner:\n      extends: base\n      from: ./agents/planner.md\n      capabilities: [house-style]\n      \
        verify: { command: cargo test, timeoutSeconds: 300 }\n  \
        envs:\n    default:\n      values: { LOG_LEVEL: info }\n      \
        secrets: { ANTHROPIC_API_KEY: { from_env: ANTHROPIC_API_KEY } }",
    after_help = "Example:\n  agora deploy --from agora.deploy.yaml --dry-run"
)]
pub(super) struct Deploy {
    /// The file
    #[arg(long, value_name = "FILE", default_value = "agora.deploy.yaml")]
    from: PathBuf,
    /// Check everything and say what would change, but change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    allowed: Allowed,
}

impl Deploy {
    pub(super) async fn run(self, context: &Context) -> Result<(), Failure> {
        let allowed = &self.allowed.patterns;
        let agora = context.config.agora();
        let plan = agora.plan_deployment(&self.from, &Terminal, allowed).await.map_err(|error| {
            bundle::missing(
                error,
                &self.from,
                "`agora deploy --help` shows such a file; `--from FILE` names another",
            )
        })?;
        if self.dry_run { foretell(context, &plan) } else { carry_out(context, plan, allowed).await }
    }
}

/// Says what a plan would change.
pub(super) fn foretell(context: &Context, plan: &Plan) -> Result<(), Failure> {
    let entries: Vec<_> = plan.entries().collect();
    let json = || {
        entries
        .iter()
        .map(|entry| json!({"kind": entry.kind, "name": entry.name, "contentHash": entry.content_hash, "change": word(entry.change)}))
        .collect::<Vec<Value>>()
    };
    context.ui.result(json, || {
        entries.iter().map(|entry| line(entry.change, entry.kind.as_str(), entry.name.as_str(), "")).collect()
    })?;
    context.ui.note(format!("{}; nothing was registered", count(entries.iter().map(|entry| entry.change))));
    Ok(())
}

/// Carries a plan out, and says what changed.
pub(super) async fn carry_out(
    context: &Context,
    plan: Plan,
    allowed: &[agora_core::credential::Pattern],
) -> Result<(), Failure> {
    let applied = context.config.agora().apply(plan, allowed).await?;
    let json = || applied.iter().map(json_of).collect::<Vec<Value>>();
    context.ui.result(json, || {
        let line = |done: &Applied| {
            let rotated: Vec<&str> = done.rotated.iter().map(|variable| variable.as_str()).collect();
            let more = if rotated.is_empty() {
                String::new()
            } else {
                format!("  (rotated {})", rotated.join(", "))
            };
            line(done.registration.change, done.kind.as_str(), done.name.as_str(), &more)
        };
        applied.iter().map(line).collect()
    })?;
    context.ui.note(count(applied.iter().map(|done| done.registration.change)));
    Ok(())
}

fn json_of(done: &Applied) -> Value {
    let more = json!({"kind": done.kind, "change": word(done.registration.change), "rotated": done.rotated});
    bundle::json_of(&done.name, &done.registration.version, more)
}

fn line(change: Change, kind: &str, name: &str, more: &str) -> String {
    format!("{:<10} {kind:<11} {name}{more}\n", word(change))
}

fn count(changes: impl Iterator<Item = Change>) -> String {
    let changes: Vec<Change> = changes.collect();
    let of = |wanted| changes.iter().filter(|change| **change == wanted).count();
    format!("{} new, {} changed, {} unchanged", of(Change::New), of(Change::Changed), of(Change::Unchanged))
}
