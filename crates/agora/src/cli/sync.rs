//! `agora sync`: what a project has for Claude Code.

use std::path::PathBuf;

use clap::Args;

use super::deploy::{carry_out, foretell};
use super::{Allowed, Context};
use crate::failure::Failure;

/// Register a project's .claude/agents and .claude/skills
#[derive(Debug, Args)]
#[command(
    long_about = "Register a project's .claude/agents/*.md as subagents and its .claude/skills/*/ as capabilities.\n\nEvery one is checked before the first is registered.",
    after_help = "Example:\n  agora sync --dry-run"
)]
pub(super) struct Sync {
    /// The project
    #[arg(long, value_name = "DIR", default_value = ".")]
    from: PathBuf,
    /// Check everything and say what would change, but change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    allowed: Allowed,
}

impl Sync {
    pub(super) async fn run(self, context: &Context) -> Result<(), Failure> {
        let plan = context.config.agora().plan_sync(&self.from, &self.allowed.patterns).await?;
        if self.dry_run {
            foretell(context, &plan)
        } else {
            carry_out(context, plan, &self.allowed.patterns).await
        }
    }
}
