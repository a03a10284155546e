//! `agora continue`: goes on with a thread that came to an end.

use agora_core::job::Attendance;
use clap::Args;

use super::run::{accepted, follow, warn};
use super::{find, open_to_run, start_carrier};
use crate::cli::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::person;

/// Go on with a thread that ended, in the same conversation and workspace
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  agora continue @ 'also add a test'\n  agora continue t_7f3k --detach")]
pub(in crate::cli) struct Continue {
    /// A dispatch or thread id, the beginning of one, a label, or `@` for the last one
    #[arg(value_name = "ID")]
    id: String,
    /// What to do now; without it the agent goes on where it stopped
    #[arg(value_name = "MESSAGE")]
    message: Option<String>,
    /// Return as soon as it is accepted
    #[arg(long)]
    detach: bool,
    /// End with code 0, not 4, when the agent asks something
    #[arg(long)]
    pause_ok: bool,
}

impl Continue {
    pub(in crate::cli) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if self.message.as_ref().is_some_and(|message| message.trim().is_empty()) {
            return Err(Failure::wrong("no-task", "the message says nothing")
                .hint(format!("`agora continue {}` without one goes on where the agent stopped", self.id)));
        }
        let agora = open_to_run(context).await?;
        let thread = find(&agora, &self.id).await?;
        let attendance = if self.detach { Attendance::Detached } else { Attendance::Watched };
        let next = thread.go_on_by(&person::at_the_terminal(), self.message, attendance).await?;
        warn(context, &agora, &next).await?;
        if self.detach {
            start_carrier(context, std::slice::from_ref(next.id()))?;
            return accepted(context, &next).await;
        }
        follow(context, &agora, &next, self.pause_ok).await
    }
}
