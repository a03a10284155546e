//! `agora carry`: what `--detach` leaves behind. It carries threads until each of them rests, and ends.

use agora_core::ThreadId;
use clap::Args;

use crate::cli::{Context, parse};
use crate::exit::Exit;
use crate::failure::Failure;

/// Carry threads until each of them rests
#[derive(Debug, Args)]
pub(in crate::cli) struct Carry {
    #[arg(value_name = "THREAD", required = true, value_parser = parse::<ThreadId>)]
    threads: Vec<ThreadId>,
}

impl Carry {
    pub(in crate::cli) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        context.config.carrying()?.carry(self.threads).await?;
        Ok(Exit::Done)
    }
}
