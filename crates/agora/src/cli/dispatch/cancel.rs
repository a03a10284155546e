//! `agora cancel`: ends whatever a thread does or waits for, from any process.

use agora_core::state::ThreadState;
use clap::Args;
use serde_json::json;

use super::{find, open};
use crate::cli::Context;
use crate::exit::Exit;
use crate::failure::Failure;

/// Cancel a dispatch, or a thread that waits
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  agora cancel @\n  agora dispatch cancel d_7f3k")]
pub(in crate::cli) struct Cancel {
    /// A dispatch, thread or question id, the beginning of one, a label, or `@` for the last one
    #[arg(value_name = "ID")]
    id: String,
}

impl Cancel {
    pub(in crate::cli) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let agora = open(context).await?;
        let thread = find(&agora, &self.id).await?;
        let before = thread.view().await?;
        let view = thread.cancel().await?;
        let cancelled = *view.thread.state() == ThreadState::Cancelled;
        let state = match view.thread.state() {
            ThreadState::Cancelled => "cancelled",
            ThreadState::Finished => "finished",
            ThreadState::Failed(_) => "failed",
            ThreadState::Running | ThreadState::Waiting | ThreadState::Resuming => "running",
        };
        let document = json!({"threadId": thread.id(), "dispatchId": thread.dispatch_id(), "state": state, "cancelled": cancelled});
        context.ui.result(|| &document, || format!("{}\n", thread.id()))?;
        if !cancelled {
            context.ui.note(format_args!("it had {state} before the cancel; nothing was changed"));
        } else if before.thread.state() == view.thread.state() {
            context.ui.note("it was cancelled before");
        } else {
            context.ui.note("cancelled; nothing of it is left running");
        }
        Ok(Exit::Done)
    }
}
