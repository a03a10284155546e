//! `agora inbox`: the questions that wait for somebody.

use agora_core::provider::ledger::{OpenFilter, OpenQuestion};
use agora_engine::Difference;
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
        let stale = agora.stale(&questions).await?;
        let documents =
            || questions.iter().zip(&stale).map(|(open, stale)| document(open, stale)).collect::<Vec<_>>();
        context.ui.result(documents, || table(&questions, &stale, context))?;
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

/// The question as programs get it.
pub(super) fn document(open: &OpenQuestion, stale: &[Difference]) -> Value {
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
        "stale": stale,
    })
}

fn table(questions: &[OpenQuestion], stale: &[Vec<Difference>], context: &Context) -> String {
    if questions.is_empty() {
        return String::new();
    }
    let now = context.config.now();
    let mut table = Table::new(["QUESTION", "SUBAGENT", "WAITS", "ASKS"]);
    let mut below = Vec::new();
    for (open, stale) in questions.iter().zip(stale) {
        let waits = u64::try_from(now.as_millis() - open.asked_at.as_millis()).unwrap_or(0);
        let asks = asking::headline(&open.question);
        table.row([open.question_id.to_string(), open.subagent.to_string(), span(waits), asks]);
        below.push(asking::changes(stale));
    }
    under_rows(&table.text(), &below)
}

/// Puts lines under the rows of a table, which has one line above its first row.
fn under_rows(table: &str, below: &[Vec<String>]) -> String {
    let mut lines = table.lines();
    let mut text: String = lines.next().into_iter().map(|line| format!("{line}\n")).collect();
    for (row, below) in lines.zip(below) {
        text.push_str(row);
        text.push('\n');
        text.extend(below.iter().map(|line| format!("  {line}\n")));
    }
    text
}
