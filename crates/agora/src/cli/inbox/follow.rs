//! `agora inbox --watch`: a line for each question that opens, and for each that is closed.

use agora_core::Timestamp;
use agora_engine::{Agora, Closing, Difference, InboxNews};
use serde_json::{Value, json};

use super::document;
use crate::asking;
use crate::cli::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::plain::plain;
use crate::ui;

/// Tells what is open, and then whatever changes, until Ctrl-C or until nobody reads it any more.
pub(super) async fn follow(context: &Context, agora: &Agora) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let mut news = agora.watch_inbox().await?;
    // Whoever reads may be gone long before there is anything to write.
    let mut gone = std::pin::pin!(ui::nobody_reads());
    loop {
        let next = tokio::select! {
            biased;
            () = interrupts.next() => return Ok(Exit::Interrupted),
            () = &mut gone => return Ok(Exit::Done),
            next = news.next() => next?,
        };
        let stale = match &next {
            InboxNews::Opened(open) => agora.stale(std::slice::from_ref(open)).await?.concat(),
            InboxNews::Closed { .. } => Vec::new(),
        };
        context.ui.line(|| json_of(&next, &stale), || line(&next))?;
    }
}

fn json_of(news: &InboxNews, stale: &[Difference]) -> Value {
    match news {
        InboxNews::Opened(open) => {
            let mut whole = document(open, stale);
            whole["kind"] = "question.opened".into();
            whole["at"] = json!(open.asked_at);
            whole
        }
        InboxNews::Closed { question_id, thread_id, at, how } => {
            let mut whole = json!({
                "kind": how.kind(),
                "at": at,
                "questionId": question_id,
                "threadId": thread_id,
            });
            match how {
                Closing::Answered { by, answers } => {
                    whole["by"] = json!(by);
                    whole["answers"] = json!(answers);
                }
                Closing::Declined { by } => whole["by"] = json!(by),
                Closing::Expired | Closing::Stale | Closing::Cancelled => {}
            }
            whole
        }
    }
}

fn line(news: &InboxNews) -> String {
    let (at, id, what): (Timestamp, _, String) = match news {
        InboxNews::Opened(open) => (
            open.asked_at,
            &open.question_id,
            format!("opened  {}: {}", open.subagent, asking::headline(&open.question)),
        ),
        InboxNews::Closed { question_id, at, how, .. } => {
            let what = match how {
                Closing::Answered { by, answers } => format!(
                    "answered by {} through {}: {}",
                    plain(&by.principal),
                    plain(&by.door),
                    asking::replies(answers)
                ),
                Closing::Declined { by } => format!("declined by {}", plain(&by.principal)),
                Closing::Expired => "expired".to_owned(),
                Closing::Stale => "ended: what it rested on had changed".to_owned(),
                Closing::Cancelled => "cancelled".to_owned(),
            };
            (*at, question_id, what)
        }
    };
    format!("{at}  {id}  {what}\n")
}
