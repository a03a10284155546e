//! The commands of routes, as programs of this machine.

use agora_core::route::CommandStep;
use agora_providers::program::{self, Program, Ran};
use async_trait::async_trait;

use crate::route::{Heard, RouteCommands};

/// Runs them as the user's own.
#[derive(Debug)]
pub(super) struct LocalCommands;

#[async_trait]
impl RouteCommands for LocalCommands {
    async fn run(&self, command: &CommandStep, input: &str) -> Heard {
        let CommandStep { argv, dir, .. } = command.clone();
        match program::run(&Program { argv, dir, variables: Vec::new() }, input).await {
            Ran::Said(bytes) => Heard::Said(bytes),
            Ran::Failed(why) => Heard::NoResponse(why),
            Ran::NotStarted(why) => Heard::NoChannel(why),
        }
    }
}
