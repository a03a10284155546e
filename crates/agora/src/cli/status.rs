//! `agora status`: how things stand, whole or in a few words for a shell's prompt.

use agora_core::Timestamp;
use agora_core::provider::ledger::{DispatchRow, Tally};
use agora_engine::{Glance, Namespace, Status as Standing, glance, last_trouble};
use clap::Args;
use serde_json::json;

use super::dispatch::{open, span};
use super::{Context, counted};
use crate::config::Config;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::plain::plain;
use crate::ui::{Form, Ui};

/// How many of those that run are named.
const SHOWN: usize = 5;
/// Above this a prompt says that there are more.
const MOST: u64 = 999;

/// See what runs, what waits and what is asked
#[derive(Debug, Args)]
#[command(
    long_about = "See what runs, what waits for room, which questions are open, what is due and who carries it.\n\n--line is for a shell's prompt: a few words such as `2 running, 1 asks`, and nothing at all when there is nothing. It writes nothing, and takes as long as starting a program does.",
    after_help = "Examples:\n  agora status\n  PS1='$(agora status --line) \\$ '     # bash\n  agora status --json"
)]
pub(super) struct Status {
    /// A few words for a shell's prompt; nothing when there is nothing
    #[arg(long)]
    line: bool,
}

impl Status {
    /// Tells whether it is only to be glanced, which needs neither a runtime nor a home.
    pub(super) fn is_line(&self) -> bool {
        self.line
    }

    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let agora = open(context).await?;
        let status = agora.status().await?;
        let now = context.config.now();
        context.ui.result(|| status.document(), || text(&status, now))?;
        if status.next_due_at.is_some() && !status.served {
            context.ui.hint("`agora serve` turns timers at their moment");
        }
        if status.tally.questions > 0 {
            context.ui.hint("`agora inbox` goes through the questions");
        }
        if let Some(trouble) = last_trouble(context.config.home()) {
            context.ui.warn(format_args!(
                "`notify`: nobody was told by `{}`: {}",
                plain(&trouble.way),
                plain(&trouble.why)
            ));
        }
        Ok(Exit::Done)
    }
}

/// Says in a few words how much there is. A prompt is no place for errors: where nothing can be read, nothing is said.
pub(super) fn line(ui: Ui, namespace: Option<Namespace>) -> Result<Exit, Failure> {
    let config = Config::new(namespace).ok();
    let seen = config.and_then(|config| glance(config.home(), &config.namespace).ok()).unwrap_or_default();
    let document = || json!({"running": seen.running, "queued": seen.queued, "questions": seen.questions});
    if ui.form() == Form::Text && seen == Glance::default() {
        return Ok(Exit::Done);
    }
    ui.result(document, || words(&seen) + "\n")?;
    Ok(Exit::Done)
}

fn words(seen: &Glance) -> String {
    let many = |count: u64| if count > MOST { format!("{MOST}+") } else { count.to_string() };
    let parts = [
        (seen.running, format!("{} running", many(seen.running))),
        (seen.queued, format!("{} queued", many(seen.queued))),
        (
            seen.questions,
            format!("{} {}", many(seen.questions), if seen.questions == 1 { "asks" } else { "ask" }),
        ),
    ];
    let said: Vec<String> =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, words)| words).collect();
    said.join(", ")
}

fn text(status: &Standing, now: Timestamp) -> String {
    let Tally { running, queued, questions, oldest_asked_at } = status.tally;
    let mut lines = vec![match running {
        0 => "running:    nothing".to_owned(),
        running => format!("running:    {running} ({})", named(&status.live, running, now)),
    }];
    lines.extend((queued > 0).then(|| format!("queued:     {queued} for room")));
    lines.push(match oldest_asked_at {
        None => "questions:  none is open".to_owned(),
        Some(at) => {
            let oldest = if questions == 1 { "it" } else { "the oldest" };
            format!("questions:  {questions} open; {oldest} waits {}", since(at, now))
        }
    });
    if let Some(due) = status.next_due_at {
        let when = match status.overdue {
            0 => format!("the next is due in {}", since(now, due)),
            late => format!("{} overdue", counted(late, "thread")),
        };
        let who = if status.served { "" } else { "; nobody turns it by then but a command about dispatches" };
        lines.push(format!("timers:     {when}{who}"));
    }
    if status.to_carry > 0 {
        lines.push(format!("carried:    {} of {}", status.carried, counted(status.to_carry, "thread")));
    }
    lines.extend(status.served.then(|| "serving:    `agora serve` runs".to_owned()));
    lines.join("\n") + "\n"
}

/// Names those that run, with how long they have.
fn named(live: &[DispatchRow], running: u64, now: Timestamp) -> String {
    let mut names: Vec<String> = live
        .iter()
        .filter(|row| row.claimed)
        .take(SHOWN)
        .map(|row| format!("{} {}", row.subagent, since(row.started_at.unwrap_or(row.accepted_at), now)))
        .collect();
    let more = running.saturating_sub(names.len() as u64);
    names.extend((more > 0).then(|| format!("and {more} more")));
    names.join(", ")
}

fn since(from: Timestamp, to: Timestamp) -> String {
    span(u64::try_from(to.as_millis().saturating_sub(from.as_millis())).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_has_a_few_words_and_only_of_what_there_is() {
        let said = |running, queued, questions| words(&Glance { running, queued, questions });
        assert_eq!(said(2, 0, 1), "2 running, 1 asks");
        assert_eq!(said(0, 3, 2), "3 queued, 2 ask");
        assert_eq!(said(0, 0, 1000), "999+ ask");
        assert_eq!(said(0, 0, 0), "");
    }
}
