//! `agora thread list`: a row a thread, those with the newest dispatch first.

use agora_core::provider::ledger::{DispatchRow, Filter, ThreadView};
use agora_core::{DispatchId, QuestionId, ThreadId, Timestamp};
use agora_engine::{Agora, Name, thread_state};
use clap::Args;
use serde::Serialize;

use crate::asking;
use crate::cli::Context;
use crate::cli::dispatch::list::{Which, between};
use crate::cli::dispatch::open;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::table::Table;

/// List threads, those with the newest dispatch first
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  agora thread list\n  agora thread list --json | jq 'map(select(.state == \"waiting\"))'"
)]
pub(in crate::cli) struct List {
    #[command(flatten)]
    which: Which,
}

/// A thread in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    thread_id: ThreadId,
    /// The thread's own, which its last dispatch's may differ from: a declined question fails the thread, and its dispatch still asked it.
    state: &'static str,
    subagent: Name,
    labels: Vec<Name>,
    /// The last one.
    dispatch_id: DispatchId,
    /// `None`, as all that follows: what is recorded of it cannot be read.
    dispatches: Option<usize>,
    /// The question that is open.
    question_id: Option<QuestionId>,
    question: Option<String>,
    began_at: Option<Timestamp>,
    moved_at: Option<Timestamp>,
}

impl List {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let agora = open(context).await?;
        let filter = Filter { last: true, ..self.which.filter(context) };
        let mut listed = Vec::new();
        for row in agora.dispatches(&filter).await? {
            listed.push(list_one(context, &agora, row).await?);
        }
        let now = context.config.now();
        context.ui.result(|| &listed, || table(&listed, now))?;
        match listed.first() {
            Some(newest) => {
                context
                    .ui
                    .hint(format_args!("`agora thread show {}` tells the whole story", newest.thread_id));
            }
            None => context.ui.hint("`agora dispatch run --subagent NAME` begins one"),
        }
        Ok(Exit::Done)
    }
}

/// Puts a thread in the list. One that cannot be read is there as well, and does not keep the others out of it.
async fn list_one(context: &Context, agora: &Agora, row: DispatchRow) -> Result<Listed, Failure> {
    let view = match agora.view(&row.thread_id).await {
        Ok(view) => Some(view),
        Err(error) if error.is_of_one_thread() => {
            context.ui.warning(&error.into());
            None
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Listed::new(row, view.as_ref()))
}

impl Listed {
    fn new(row: DispatchRow, view: Option<&ThreadView>) -> Self {
        let asked = view.and_then(|view| view.thread.open());
        Self {
            state: view.map_or("damaged", |view| thread_state(view.thread.state())),
            dispatches: view.map(|view| view.thread.dispatches().len()),
            question_id: asked.map(|asked| asked.id.clone()),
            question: asked.map(|asked| asking::headline(&asked.question)),
            began_at: view.map(|view| view.began_at),
            moved_at: view.map(|view| view.moved_at),
            thread_id: row.thread_id,
            subagent: row.subagent,
            labels: row.labels,
            dispatch_id: row.dispatch_id,
        }
    }
}

fn table(listed: &[Listed], now: Timestamp) -> String {
    if listed.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["THREAD", "STATE", "SUBAGENT", "DISPATCHES", "AGE", "LABELS", "ASKS"]);
    for one in listed {
        let labels: Vec<&str> = one.labels.iter().map(Name::as_str).collect();
        table.row([
            one.thread_id.to_string(),
            one.state.to_owned(),
            one.subagent.to_string(),
            one.dispatches.map(|count| count.to_string()).unwrap_or_default(),
            one.began_at.map(|began| between(began, now)).unwrap_or_default(),
            labels.join(" "),
            one.question.clone().unwrap_or_default(),
        ]);
    }
    table.text()
}
