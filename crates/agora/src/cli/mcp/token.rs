//! `agora mcp token`: lets somebody in over HTTP.

use std::time::Duration;

use agora_core::Name;
use clap::Args;
use serde_json::json;

use super::tokens;
use crate::cli::Context;
use crate::exit::Exit;
use crate::failure::Failure;

/// Make a token for `agora mcp --http`
#[derive(Debug, Args)]
#[command(
    long_about = "Make a token for `agora mcp --http`. It is good until it ends, for as long as this home is: keep it like a password.\n\nA dispatched agent that is to dispatch gets one of a depth: `--depth 1`. What stands deeper than `[mcp] max_depth` is refused.",
    after_help = "Examples:\n  agora mcp token\n  agora mcp token --name nightly --days 7\n  agora mcp token --name planner --depth 1"
)]
pub(super) struct Token {
    /// For whom it is: its dispatches are told apart by it
    #[arg(long, value_name = "NAME", default_value = "local")]
    name: Name,
    /// How many agents stand between its holder and a person
    #[arg(long, default_value_t = 0)]
    depth: u32,
    /// How long it is good
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=366))]
    days: u32,
}

impl Token {
    pub(super) fn run(self, context: &Context) -> Result<Exit, Failure> {
        let life = Duration::from_secs(u64::from(self.days) * 24 * 60 * 60);
        let token = tokens(context)?.issue(self.name.clone(), self.depth, life, context.config.now());
        let document = json!({"token": token, "name": self.name, "depth": self.depth, "days": self.days});
        context.ui.result(|| &document, || format!("{token}\n"))?;
        Ok(Exit::Done)
    }
}
