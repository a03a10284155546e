//! `agora thread`: one piece of work, across all its dispatches.

use agora_core::provider::ledger::{Filter, ThreadView};
use agora_core::state::{DispatchState, ThreadState};
use agora_engine::{DispatchResult, QuestionStory};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Context;
use super::dispatch::list::List;
use super::dispatch::open;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::story::change;

/// Look at threads: one piece of work, across all its dispatches
#[derive(Debug, Subcommand)]
pub(super) enum Thread {
    /// List threads, by their last dispatches
    #[command(after_help = "Example:\n  agora thread list --json")]
    List(List),
    /// Tell a thread's whole story
    #[command(after_help = "Example:\n  agora thread show @")]
    Show(Show),
}

#[derive(Debug, Args)]
pub(super) struct Show {
    /// A dispatch, thread or question id, the beginning of one, a label, or `@` for the last one
    #[arg(value_name = "ID", default_value = "@")]
    id: String,
}

impl Thread {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self {
            Self::List(list) => list.run(context).await,
            Self::Show(show) => show.run(context).await,
        }
    }
}

impl Show {
    async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let agora = open(context).await?;
        let thread = agora.find(&self.id).await?;
        let view = thread.view().await?;
        let filter = Filter { thread: Some(thread.id().clone()), most: usize::MAX, ..Filter::default() };
        let mut dispatches = Vec::new();
        for row in agora.dispatches(&filter).await?.into_iter().rev() {
            dispatches.push(agora.find(row.dispatch_id.as_str()).await?.describe().await?);
        }
        let document = document(&view, &dispatches);
        context.ui.result(|| &document, || text(&view, &dispatches))?;
        Ok(Exit::Done)
    }
}

fn state(view: &ThreadView) -> &'static str {
    match view.thread.state() {
        ThreadState::Running => "running",
        ThreadState::Waiting => "waiting",
        ThreadState::Resuming => "resuming",
        ThreadState::Finished => "finished",
        ThreadState::Failed(_) => "failed",
        ThreadState::Cancelled => "cancelled",
    }
}

fn document(view: &ThreadView, dispatches: &[DispatchResult]) -> Value {
    let failure = match view.thread.state() {
        ThreadState::Failed(failure) => Some(failure),
        _ => None,
    };
    let questions = view.thread.questions().iter().map(QuestionStory::from);
    json!({
        "threadId": view.thread_id,
        "state": state(view),
        "failure": failure,
        "beganAt": view.began_at,
        "dispatches": dispatches,
        "questions": questions.collect::<Vec<_>>(),
    })
}

fn text(view: &ThreadView, dispatches: &[DispatchResult]) -> String {
    let mut lines = vec![format!("thread:      {} ({})", view.thread_id, state(view))];
    for ((_, state), result) in view.thread.dispatches().iter().zip(dispatches) {
        lines.push(format!("{}  {}  {}", result.accepted_at, result.dispatch_id, result.state));
        match state {
            DispatchState::Failed(failure) => {
                lines.push(format!(
                    "  {}: {}",
                    failure.code,
                    failure.detail.trim_end().replace('\n', "\n  ")
                ));
            }
            DispatchState::NeedsInput => {
                lines.extend(result.needs_input.iter().map(|asked| format!("  asked: {}", asked.question)));
            }
            _ => {}
        }
        let patch = result.patch_since_pause.as_ref().or(result.patch.as_ref());
        if let Some(patch) = patch.filter(|patch| patch.files > 0) {
            lines.push(format!("  {}", change(patch)));
        }
    }
    lines.join("\n") + "\n"
}
