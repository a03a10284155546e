//! `agora inbox`: the questions that wait for somebody.

mod follow;
mod walk;

use std::io::{self, IsTerminal};

use agora_core::provider::ledger::{OpenFilter, OpenQuestion};
use agora_core::route::Terms;
use agora_engine::{Agora, Difference};
use clap::Args;
use serde_json::{Value, json};

use super::Context;
use super::dispatch::{open, span};
use crate::asking;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::table::Table;

/// Answer the questions that are open, one by one, or list them
#[derive(Debug, Args)]
#[command(
    long_about = "On a terminal: walks through the questions that are open, those that wait longest first. Arrow keys or a number choose, typing writes, e opens an editor, d shows what was changed so far, s skips, x declines, q leaves. After an answer the work goes on by itself, and so does the walk.\n\nElsewhere, and with --json or --list: lists them. With --watch: follows them, a line for each that opens or is closed.",
    after_help = "Examples:\n  agora inbox                    # one by one\n  agora inbox --list\n  agora inbox --json | jq -r '.[].question'\n  agora inbox --watch --json     # a document a line, until Ctrl-C"
)]
pub(super) struct Inbox {
    /// List them, also on a terminal
    #[arg(long, conflicts_with = "watch")]
    list: bool,
    /// List at most N, those that wait longest first
    #[arg(long, value_name = "N", default_value_t = 50)]
    most: usize,
    /// Tell of those that are open, and then of each that opens or is closed, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

impl Inbox {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let agora = open(context).await?;
        if self.watch {
            return follow::follow(context, &agora).await;
        }
        if !self.list && context.ui.can_ask() && io::stdout().is_terminal() {
            return walk::walk(context, &agora).await;
        }
        let namespace = Some(context.config.namespace.clone());
        let filter = OpenFilter { namespace, after: None, most: self.most };
        let questions = agora.inbox(&filter).await?;
        let stale = agora.stale(&questions).await?;
        let documents =
            || questions.iter().zip(&stale).map(|(open, stale)| document(open, stale)).collect::<Vec<_>>();
        context.ui.result(documents, || table(&questions, &stale, context))?;
        if questions.len() < self.most && (questions.len() as u64) < agora.tally().await?.questions {
            damaged(context, &agora).await;
        }
        untended(context, &agora).await?;
        match questions.first() {
            Some(first) => {
                let terms = terms(&agora, first).await?;
                let how = asking::how(&first.question_id, &first.question, &terms, "");
                context.ui.hint(format_args!("`agora show {}` shows one whole, {how}", first.question_id));
            }
            None => context.ui.note("no question is open"),
        }
        Ok(Exit::Done)
    }
}

/// Names the threads whose question is open and cannot be read.
async fn damaged(context: &Context, agora: &Agora) {
    for (_, error) in agora.check_ledger().await.problems {
        context.ui.warning(&error.into());
    }
}

/// Returns what holds for a question.
async fn terms(agora: &Agora, open: &OpenQuestion) -> Result<Terms, Failure> {
    let view = agora.view(&open.thread_id).await?;
    let asked = view.thread.questions().iter().find(|asked| asked.id == open.question_id);
    Ok(asked.map(|asked| asked.terms.clone()).unwrap_or_default())
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
    let mut table = Table::new(["QUESTION", "SUBAGENT", "WAITS", "ASKS"]);
    let mut below = Vec::new();
    for (open, stale) in questions.iter().zip(stale) {
        let asks = asking::headline(&open.question);
        table.row([open.question_id.to_string(), open.subagent.to_string(), waits(context, open), asks]);
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

/// Says how long a question has waited.
fn waits(context: &Context, open: &OpenQuestion) -> String {
    let now = context.config.now();
    span(u64::try_from(now.as_millis() - open.asked_at.as_millis()).unwrap_or(0))
}
