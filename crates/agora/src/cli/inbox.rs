//! `agora inbox`: the questions that wait for somebody.

use agora_core::provider::ledger::{OpenFilter, OpenQuestion};
use agora_engine::Agora;
use clap::Args;
use serde_json::{Value, json};

use super::Context;
use super::dispatch::{open, span};
use crate::asking;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::table::Table;

/// List the questions that are open
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  agora inbox\n  agora inbox --json")]
pub(super) struct Inbox {
    /// How many are shown, those that wait longest first
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    most: usize,
}

impl Inbox {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let agora = open(context).await?;
        let namespace = Some(context.config.namespace.clone());
        let filter = OpenFilter { namespace, after: None, most: self.most };
        let questions = agora.inbox(&filter).await?;
        context
            .ui
            .result(|| questions.iter().map(document).collect::<Vec<_>>(), || table(&questions, context))?;
        untended(context, &agora).await?;
        match questions.first() {
            Some(first) => context.ui.hint(format_args!(
                "`agora show {0}` shows one whole, `agora answer {0} VALUE` answers it",
                first.question_id
            )),
            None => context.ui.note("no question is open"),
        }
        Ok(Exit::Done)
    }
}

/// Says when there are timers that nobody turns.
async fn untended(context: &Context, agora: &Agora) -> Result<(), Failure> {
    if let Some(next) = agora.next_timer().await?.filter(|_| !agora.is_served()) {
        context.ui.note(format_args!(
            "a timer is set for {next}, and nobody turns it by then: `agora serve` does, and every command about dispatches"
        ));
    }
    Ok(())
}

/// The question as programs get it.
pub(super) fn document(open: &OpenQuestion) -> Value {
    let items = open.question.items();
    let labels = |item: &agora_core::question::Item| {
        item.options().iter().map(|choice| choice.label.clone()).collect::<Vec<_>>()
    };
    json!({
        "questionId": open.question_id,
        "threadId": open.thread_id,
        "dispatchId": open.dispatch_id,
        "subagent": open.subagent,
        "labels": open.labels,
        "question": items.first().map(|item| item.question()),
        "options": items.first().map(labels),
        "context": open.question.context(),
        "questions": items,
        "askedAt": open.asked_at,
    })
}

fn table(questions: &[OpenQuestion], context: &Context) -> String {
    if questions.is_empty() {
        return String::new();
    }
    let now = context.config.now();
    let mut table = Table::new(["QUESTION", "SUBAGENT", "WAITS", "ASKS"]);
    for open in questions {
        let waits = u64::try_from(now.as_millis() - open.asked_at.as_millis()).unwrap_or(0);
        let asks = asking::headline(&open.question);
        table.row([open.question_id.to_string(), open.subagent.to_string(), span(waits), asks]);
    }
    table.text()
}
