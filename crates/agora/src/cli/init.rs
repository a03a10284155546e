//! `agora init`: the place where everything is kept.

use clap::Args;
use serde_json::json;

use super::Context;
use crate::failure::Failure;

/// Make the place where agora keeps everything
#[derive(Debug, Args)]
#[command(
    long_about = "Make the place where agora keeps everything: $AGORA_HOME, else `agora` in the XDG data directory.\n\nEverything else makes it too when it first needs it; to do it by hand shows where it is, and that it works.",
    after_help = "Example:\n  agora init"
)]
pub(super) struct Init {}

impl Init {
    pub(super) fn run(self, context: &Context) -> Result<(), Failure> {
        let home = context.config.home();
        let existed = home.join("format").exists();
        context.config.agora().prepare()?;
        context.ui.note(if existed {
            "agora keeps everything here already:"
        } else {
            "agora keeps everything here:"
        });
        context
            .ui
            .result(|| json!({"home": home, "created": !existed}), || format!("{}\n", home.display()))?;
        context.ui.hint("`agora doctor` shows what this machine can do");
        context.ui.hint("`agora sync` registers a project's .claude/agents and .claude/skills");
        Ok(())
    }
}
