//! `agora tell`: passes a message on by the ways that it names, in a process that nobody waits for.

use std::io::Read;

use agora_engine::NotifyMessage;
use clap::Args;

use super::Context;
use crate::failure::Failure;

/// More than a question and all around it.
const MOST_BYTES: u64 = 8 << 20;

/// Pass on what comes on standard input: how agora tells somebody without waiting for it
#[derive(Debug, Args)]
pub(super) struct Tell {}

impl Tell {
    pub(super) fn run(self, context: &Context) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        let wrong = |why: String| Failure::wrong("bad-message", "this is no message to pass on").because(why);
        let read = std::io::stdin().lock().take(MOST_BYTES).read_to_end(&mut bytes);
        read.map_err(|error| wrong(error.to_string()))?;
        let message: NotifyMessage =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        context.config.pass_on(&message);
        Ok(())
    }
}
