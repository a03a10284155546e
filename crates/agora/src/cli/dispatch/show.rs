//! `agora show` and `agora dispatch describe`: what became of a dispatch.

use clap::Args;

use super::{find, open};
use crate::cli::Context;
use crate::dispatch_story;
use crate::exit::Exit;
use crate::failure::Failure;

/// Show what became of a dispatch
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  agora show @\n  agora dispatch describe d_7f3k --json")]
pub(in crate::cli) struct Show {
    /// A dispatch, thread or question id, the beginning of one, a label, or `@` for the last one
    #[arg(value_name = "ID", default_value = "@")]
    id: String,
}

impl Show {
    pub(in crate::cli) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let agora = open(context).await?;
        let result = find(&agora, &self.id).await?.describe().await?;
        context.ui.result(|| &result, || dispatch_story::whole(&result))?;
        if let Some(hint) = result.needs_input.as_ref().and_then(dispatch_story::to_answer) {
            context.ui.hint(hint);
        }
        Ok(Exit::Done)
    }
}
