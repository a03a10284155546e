//! What demos left in the user's own home that were killed: a real agent's thread, which rests on a place that nobody plays in.

use std::path::Path;

use agora_core::provider::ledger::{Filter, StateWord};
use agora_engine::{Agora, Thread};

use super::{LABEL, place};
use crate::cli::Context;
use crate::failure::Failure;

/// How many dispatches are read at once.
const PAGE: usize = 50;

/// Cancels the threads of demos that were killed: nobody will answer there, and what they rest on is gone. What cannot be looked at is
/// left without a word, because a scripted demo needs nothing of this home.
pub(super) async fn cancel(context: &Context) {
    // A home that nothing was dispatched from is not made one by looking.
    if !context.config.home().join("ledger.sqlite").is_file() {
        return;
    }
    let Ok(agora) = context.config.dispatching() else { return };
    for thread in left(context, &agora).await.unwrap_or_default() {
        if thread.cancel().await.is_ok() {
            let id = thread.id();
            context.ui.note(format_args!("cancelled what a demo left open that was killed: {id}"));
        }
    }
}

/// Finds the threads: by their label, by where their work was taken from, and by who plays there.
async fn left(context: &Context, agora: &Agora) -> Result<Vec<Thread>, Failure> {
    let mut filter = Filter {
        namespace: Some(context.config.namespace.clone()),
        label: LABEL.parse().ok(),
        // The last dispatch of a thread that is open is in one of these.
        states: Some(vec![StateWord::Accepted, StateWord::Running, StateWord::NeedsInput]),
        most: PAGE,
        ..Filter::default()
    };
    let mut left: Vec<Thread> = Vec::new();
    loop {
        let rows = agora.dispatches(&filter).await?;
        for row in &rows {
            if left.iter().all(|known| *known.id() != row.thread_id) {
                let thread = agora.thread(&row.thread_id).await?;
                if !thread.view().await?.thread.has_ended() && is_left(&thread).await? {
                    left.push(thread);
                }
            }
        }
        match rows.last() {
            Some(last) if rows.len() == PAGE => filter.before = Some(last.dispatch_id.clone()),
            Some(_) | None => return Ok(left),
        }
    }
}

async fn is_left(thread: &Thread) -> Result<bool, Failure> {
    let workspace = thread.describe().await?.workspace;
    let source = workspace.as_ref().and_then(|workspace| workspace.ground.source.path());
    Ok(source.is_some_and(|path| place::is_left_behind(Path::new(path))))
}
