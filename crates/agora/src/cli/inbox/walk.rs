//! The inbox on a terminal: one question after the other, until none is left or whoever is there has had enough.

use std::collections::BTreeSet;

use agora_core::QuestionId;
use agora_core::provider::ledger::{OpenFilter, OpenQuestion};
use agora_core::route::Terms;
use agora_engine::{Agora, Answerer, Despite, Error, Name, Refusal};

use super::waits;
use crate::ask::{self, Asked, Offer};
use crate::asking;
use crate::cli::answer::{give, give_up};
use crate::cli::dispatch::pause::{closed, meanwhile, tell_about, tell_changed, unheard};
use crate::cli::dispatch::take_in;
use crate::cli::{Context, span};
use crate::diff::Diff;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::helpers::Helpers;
use crate::interrupt::Interrupts;
use crate::person;
use crate::plain::filled;
use crate::progress::columns;

/// How many are read at once: each may be large, and one is shown.
const PAGE: usize = 16;

/// A walk through the inbox.
struct Walk<'a> {
    context: &'a Context,
    agora: &'a Agora,
    by: Answerer,
    helpers: Helpers,
    /// Those that were on the screen, whatever became of them.
    seen: BTreeSet<QuestionId>,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    answered: u64,
    declined: u64,
    skipped: u64,
}

/// How it goes on after a question.
enum Next {
    Question,
    Leave(Exit),
}

/// Walks through the questions that are open, those that wait longest first. What opens meanwhile joins.
pub(super) async fn walk(context: &Context, agora: &Agora) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let (by, helpers) = (person::at_the_terminal(), context.config.helpers());
    let mut walk = Walk { context, agora, by, helpers, seen: BTreeSet::new(), tally: Tally::default() };
    let exit = loop {
        let Some(first) = walk.unseen().await? else { break Exit::Done };
        // Those that were skipped are still open, and seen.
        let left = agora.tally().await?.questions.saturating_sub(walk.tally.skipped).max(1);
        let of = walk.seen.len() as u64 + left;
        walk.seen.insert(first.question_id.clone());
        let next = walk.ask(&first, of, left > 1).await?;
        interrupts.forget();
        if let Next::Leave(exit) = next {
            break exit;
        }
    };
    walk.tell().await?;
    Ok(exit)
}

impl Walk<'_> {
    /// Returns the question that waits longest of those that were not on the screen yet.
    async fn unseen(&self) -> Result<Option<OpenQuestion>, Failure> {
        let mut after = None;
        loop {
            let namespace = Some(self.context.config.namespace.clone());
            let page = self.agora.inbox(&OpenFilter { namespace, after, most: PAGE }).await?;
            let Some(last) = page.last() else { return Ok(None) };
            after = Some((last.thread_id.clone(), last.question_id.clone()));
            if let Some(unseen) = page.into_iter().find(|open| !self.seen.contains(&open.question_id)) {
                return Ok(Some(unseen));
            }
        }
    }

    async fn ask(&mut self, open: &OpenQuestion, of: u64, more: bool) -> Result<Next, Failure> {
        let diff = Diff::of(self.agora, &open.dispatch_id).await?;
        let terms = super::terms(self.agora, open).await?;
        self.context.ui.note(self.header(open, of, self.expires(&terms)));
        if let Some(only) = asking::only_others(&terms) {
            self.context.ui.note(only);
        }
        tell_about(self.context, &open.question, diff.as_ref());
        let stale = self.agora.stale(std::slice::from_ref(open)).await?;
        stale.iter().flat_map(|stale| asking::changes(stale)).for_each(|line| self.context.ui.note(line));
        let offer = Offer { diff: diff.as_ref(), helpers: &self.helpers, skip: true };
        let mut despite = Despite::Nothing;
        let asker = self.agora.asker(&open.question_id).await?;
        loop {
            let said = ask::ask(&open.question, offer, closed(&asker, &open.question_id)).await;
            match said.map_err(unheard)? {
                Asked::Closed(how) => {
                    self.context.ui.note(format_args!("{}\n", meanwhile(&how)));
                    // Its asker's default may have made a next dispatch, which nobody carries yet.
                    take_in(self.context, self.agora).await?;
                    return Ok(Next::Question);
                }
                Asked::Interrupted => return Ok(Next::Leave(Exit::Interrupted)),
                Asked::Leave => return Ok(Next::Leave(Exit::Done)),
                Asked::Skip => {
                    self.tally.skipped += 1;
                    self.context.ui.note(if more {
                        "skipped; it stays open\n"
                    } else {
                        "skipped; it stays open"
                    });
                    return Ok(Next::Question);
                }
                Asked::Decline => {
                    match give_up(self.context, self.agora, &open.question_id, &self.by).await? {
                        Ok(_) => {
                            self.tally.declined += 1;
                            self.context.ui.note("declined; its thread has ended\n");
                        }
                        Err(error) => self.not_counted(error)?,
                    }
                    return Ok(Next::Question);
                }
                Asked::Answer(given) => {
                    let id = &open.question_id;
                    match give(self.context, self.agora, despite, id, &given, &self.by).await? {
                        Ok(answered) if !answered.goes_on => {
                            self.tally.answered += 1;
                            self.context.ui.note("answered: it stops here, and its thread has ended\n");
                        }
                        Ok(answered) => {
                            self.tally.answered += 1;
                            let next = &answered.dispatch_id;
                            self.context.ui.note(format_args!("answered; it goes on as {next}\n"));
                        }
                        // They see it now, and may say the same again.
                        Err(Error::Answer(Refusal::Changed { stale, .. })) => {
                            despite = tell_changed(self.context, &stale);
                            continue;
                        }
                        Err(error @ Error::Answer(Refusal::Unfit { .. })) => {
                            self.context.ui.failure(&error.into());
                            continue;
                        }
                        Err(error) => self.not_counted(error)?,
                    }
                    return Ok(Next::Question);
                }
            }
        }
    }

    /// Tells that somebody else was faster, or may answer where this person may not. The others still wait.
    fn not_counted(&self, error: Error) -> Result<(), Failure> {
        match error {
            Error::Answer(_) => {
                self.context.ui.failure(&error.into());
                self.context.ui.note("");
                Ok(())
            }
            error => Err(error.into()),
        }
    }

    /// Says when the question is over without an answer, if it ever is.
    fn expires(&self, terms: &Terms) -> Option<String> {
        terms.expiry.map(|expiry| {
            let left = expiry.at.as_millis() - self.context.config.now().as_millis();
            format!("expires in {}", span(u64::try_from(left).unwrap_or(0)))
        })
    }

    /// Says which question this is, whose, and how long it has waited.
    fn header(&self, open: &OpenQuestion, of: u64, expires: Option<String>) -> String {
        let mut parts = vec![format!("question {} of {of}", self.seen.len()), open.subagent.to_string()];
        parts.extend(open.labels.iter().map(Name::to_string));
        parts.push(format!("waits {}", waits(self.context, open)));
        parts.extend(expires);
        parts.push(open.question_id.to_string());
        let last = parts.len() - 1;
        let pieces = parts.into_iter().enumerate();
        let pieces = pieces.map(|(place, part)| if place == last { part } else { format!("{part} · ") });
        filled(pieces.collect(), 0, columns()).join("\n")
    }

    /// Says at the end what was done, and what is left.
    async fn tell(&self) -> Result<(), Failure> {
        let Tally { answered, declined, skipped } = self.tally;
        let done = [(answered, "answered"), (declined, "declined"), (skipped, "skipped")];
        let done: Vec<String> = done
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        let left = self.agora.tally().await?.questions;
        let open = match left {
            0 => "no question is open".to_owned(),
            1 => "1 question stays open".to_owned(),
            more => format!("{more} questions stay open"),
        };
        self.context.ui.note(if done.is_empty() { open } else { format!("{}; {open}", done.join(", ")) });
        if left > 0 {
            self.context.ui.hint(
                "`agora inbox` begins again, `agora inbox --list` shows what can be answered from anywhere",
            );
        }
        Ok(())
    }
}
