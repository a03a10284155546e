//! `agora dispatch list` and `agora ls`: what runs and ran, newest first.

use agora_core::Timestamp;
use agora_core::provider::ledger::{DispatchRow, Filter, StateWord};
use agora_engine::{Agora, Name, shown_state};
use clap::Args;
use serde::Serialize;

use super::{open, span};
use crate::cli::{Context, parse};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::table::Table;

/// List dispatches, newest first
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  agora ls\n  agora dispatch list --live --json\n  agora ls --label nightly"
)]
pub(in crate::cli) struct List {
    #[command(flatten)]
    which: Which,
}

/// Which dispatches a list shows, or threads by their last dispatch.
#[derive(Debug, Args)]
pub(in crate::cli) struct Which {
    /// Only those that wait for room or run
    #[arg(long)]
    live: bool,
    /// Only those with this label
    #[arg(long, value_parser = parse::<Name>)]
    label: Option<Name>,
    /// List at most N
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    most: usize,
}

impl Which {
    pub(in crate::cli) fn filter(self, context: &Context) -> Filter {
        Filter {
            namespace: Some(context.config.namespace.clone()),
            label: self.label,
            states: self.live.then(|| vec![StateWord::Accepted, StateWord::Running]),
            most: self.most,
            ..Filter::default()
        }
    }
}

/// A dispatch in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Listed {
    dispatch_id: String,
    thread_id: String,
    subagent: Name,
    target: Name,
    state: &'static str,
    labels: Vec<Name>,
    accepted_at: Timestamp,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    /// Who sat at it, when a person had taken the thread over.
    #[serde(skip_serializing_if = "Option::is_none")]
    person: Option<String>,
    /// How many come before it, while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<u64>,
}

impl List {
    pub(in crate::cli) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let agora = open(context).await?;
        let rows = agora.dispatches(&self.which.filter(context)).await?;
        let mut listed = Vec::new();
        for row in rows {
            listed.push(list_one(context, &agora, row).await?);
        }
        let now = context.config.now();
        context.ui.result(|| &listed, || table(&listed, now))?;
        if listed.is_empty() {
            context.ui.hint("`agora run 'TASK'` runs an agent");
        }
        Ok(Exit::Done)
    }
}

/// Puts a dispatch in the list. One whose thread cannot be read is there as well, and does not keep the others out of it.
async fn list_one(context: &Context, agora: &Agora, row: DispatchRow) -> Result<Listed, Failure> {
    let waits = row.state == StateWord::Accepted && !row.claimed;
    let place = if waits { agora.place(&row.dispatch_id).await? } else { None };
    let (state, person) = match agora.person(&row.dispatch_id).await {
        Ok(by) => (shown_state(row.state, row.claimed), by.map(|by| by.principal)),
        Err(error) if error.is_of_one_thread() => {
            context.ui.warning(&error.into());
            ("damaged", None)
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Listed {
        person,
        state,
        dispatch_id: row.dispatch_id.to_string(),
        thread_id: row.thread_id.to_string(),
        subagent: row.subagent,
        target: row.target,
        labels: row.labels,
        accepted_at: row.accepted_at,
        started_at: row.started_at,
        ended_at: row.ended_at,
        place,
    })
}

fn table(listed: &[Listed], now: Timestamp) -> String {
    if listed.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["DISPATCH", "STATE", "SUBAGENT", "AGE", "TOOK", "LABELS"]);
    for one in listed {
        let state = match one.place {
            Some(0) => format!("{} (next)", one.state),
            Some(ahead) => format!("{} ({ahead} before it)", one.state),
            None => one.state.to_owned(),
        };
        let state = match &one.person {
            Some(person) => format!("{state} ({person})"),
            None => state,
        };
        let took = one.started_at.map(|from| between(from, one.ended_at.unwrap_or(now))).unwrap_or_default();
        let labels: Vec<&str> = one.labels.iter().map(Name::as_str).collect();
        table.row([
            one.dispatch_id.clone(),
            state,
            one.subagent.to_string(),
            between(one.accepted_at, now),
            took,
            labels.join(" "),
        ]);
    }
    table.text()
}

pub(in crate::cli) fn between(from: Timestamp, to: Timestamp) -> String {
    span(u64::try_from(to.as_millis().saturating_sub(from.as_millis())).unwrap_or(0))
}
