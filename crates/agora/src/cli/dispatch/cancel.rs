//! `agora cancel`: ends whatever a thread does or waits for, from any process.

use agora_core::state::ThreadState;
use agora_engine::{Error, Thread};
use clap::Args;
use serde_json::json;

use super::{find, open};
use crate::cli::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::person;

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
        let before = match thread.view().await {
            Err(error) if error.is_of_one_thread() => return give_up(context, &thread, error).await,
            view => view?,
        };
        let view = thread.cancel_by(&person::at_the_terminal()).await?;
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

/// Gives up a thread that cannot be read: nothing can be recorded of it any more.
async fn give_up(context: &Context, thread: &Thread, why: Error) -> Result<Exit, Failure> {
    if !thread.discard().await? {
        return Err(why.into());
    }
    let kept = context.config.home().join("damaged").join(format!("{}.jsonl", thread.id()));
    let document = json!({"threadId": thread.id(), "dispatchId": thread.dispatch_id(), "state": "damaged", "cancelled": true, "kept": kept});
    context.ui.result(|| &document, || format!("{}\n", thread.id()))?;
    context.ui.note(format_args!(
        "it could not be read and is given up; what is left of its record is in `{}`",
        kept.display()
    ));
    Ok(Exit::Done)
}
