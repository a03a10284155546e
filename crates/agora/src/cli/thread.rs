//! `agora thread`: one piece of work, across all its dispatches.

mod list;

use clap::{Args, Subcommand};

use super::Context;
use super::dispatch::open;
use crate::asking;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::progress::columns;
use crate::thread_story;
use list::List;

/// Between these a story is told: narrower than this no timeline fits, and wider nobody reads.
const NARROWEST: usize = 40;
const WIDEST: usize = 110;

/// Look at threads: one piece of work, across all its dispatches
#[derive(Debug, Subcommand)]
pub(super) enum Thread {
    List(List),
    /// Tell a thread's whole story
    #[command(
        long_about = "Tell a thread's whole story, across all its pauses: what was dispatched, what was asked, who answered what by which door and after how long, what changed because of it, and what it all cost.",
        after_help = "Examples:\n  agora thread show @\n  agora thread show q_7f3k --json"
    )]
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
        let story = agora.find(&self.id).await?.story().await?;
        context.ui.result(|| &story, || thread_story::text(&story, columns().clamp(NARROWEST, WIDEST)))?;
        if let Some(open) = story.questions.last().filter(|question| question.state == "open") {
            let then = ", and the work goes on where it stopped";
            context.ui.hint(asking::how(&open.question_id, &open.asked, &open.terms, then));
        }
        Ok(Exit::Done)
    }
}
