//! The way of a question: commands that are asked, people who are reminded, others who come after them, and the end of patience.
//!
//! ```text
//!  opened ─▶ step: a command ─── answers ───────────────────────────▶ answered + the next dispatch, one write
//!     │          │ no-response, no-channel
//!     │          ▼
//!     │      step: people ── escalate_after ─▶ the next step …         step     asks commands, for whoever has the lease
//!     │                                                                timers   whoever looks first turns them
//!     └──▶ remind_after, again and again; expire_after: fail, or the default that the asker named
//! ```
//!
//! Nothing here runs by itself: a carrier asks commands, and every command and `agora serve` turn what is due. Of several who do
//! the same one write wins, and the others look again.

pub(crate) mod said;
mod step;
mod timers;

use std::fmt;

use agora_core::route::CommandStep;
use async_trait::async_trait;

/// What came of running a command of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It ended well, and printed this.
    Said(Vec<u8>),
    /// It ran, and there is no answer: why.
    NoResponse(String),
    /// It could not be run: why.
    NoChannel(String),
}

/// Runs the commands of routes. They are the user's own programs, on the host, never the agent's.
#[async_trait]
pub trait RouteCommands: fmt::Debug + Send + Sync {
    /// Runs a command with this on its standard input, and hears it out. Whoever drops this before it is done ends the command with
    /// everything that it started.
    async fn run(&self, command: &CommandStep, input: &str) -> Heard;
}
