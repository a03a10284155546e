//! `agora dispatch watch`: what happens to a thread, an event a line.

use agora_core::entry::{Entry, Happening};
use agora_core::event::Event;
use agora_core::record::Record;
use agora_core::state::ThreadState;
use clap::Args;
use serde_json::Value;

use super::{find, open};
use crate::cli::Context;
use crate::exit::Exit;
use crate::failure::Failure;

/// Follow what happens to a thread, an event a line
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  agora dispatch watch @ --json")]
pub(in crate::cli) struct Watch {
    /// A dispatch or thread id, the beginning of one, a label, or `@` for the last one
    #[arg(value_name = "ID", default_value = "@")]
    id: String,
    /// Leave out the first so many events
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
}

impl Watch {
    pub(in crate::cli) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let agora = open(context).await?;
        let thread = find(&agora, &self.id).await?;
        let mut events = thread.events(self.after)?;
        loop {
            let Some(entry) = events.next().await? else { return Ok(Exit::Done) };
            context.ui.line(|| json_of(&entry), || line(&entry))?;
            // A question may be open for a year; whoever waits for its answer watches again.
            let rests = matches!(thread.view().await?.thread.state(), ThreadState::Waiting);
            if rests && entry.what.kind() == "question.opened" {
                return Ok(Exit::Done);
            }
        }
    }
}

fn json_of(entry: &Entry) -> Value {
    entry.to_value().unwrap_or_default()
}

fn line(entry: &Entry) -> String {
    let more = match &entry.what {
        Happening::Event(Event::Failed { failure, .. }) => {
            format!(" {} {}: {}", failure.reason, failure.code, failure.detail)
        }
        Happening::Event(Event::NeedsInput { question, .. }) => {
            question.items().first().map(|item| format!(" {:?}", item.question())).unwrap_or_default()
        }
        Happening::Event(event) => format!(" {}", event.dispatch_id()),
        Happening::Record(Record::QuestionOpened { question_id, .. }) => format!(" {question_id}"),
        Happening::Record(_) => String::new(),
    };
    format!("{} {} {}{more}\n", entry.at, entry.seq, entry.what.kind())
}
