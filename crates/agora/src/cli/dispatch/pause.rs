//! A pause in front of somebody: the question on their terminal, and their answer.

use agora_core::question::Question;
use agora_core::stale;
use agora_core::{DispatchId, QuestionId};
use agora_engine::{Agora, Despite, Difference, Error, NeedsInput, Refusal, Thread};

use super::run::announce;
use crate::ask::{self, Asked, Offer};
use crate::asking;
use crate::cli::Context;
use crate::diff::Diff;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::person;
use crate::plain::plain;
use crate::progress::columns;

/// What became of a pause.
pub(super) enum Pause {
    /// With whose answer ever: this is the next dispatch.
    GoesOn(Box<Thread>),
    Over(Exit),
}

/// Asks whoever is there. Nothing runs meanwhile, and somebody else may answer first.
pub(super) async fn ask(
    context: &Context,
    agora: &Agora,
    subagent: &impl std::fmt::Display,
    dispatch: &DispatchId,
    asked: &NeedsInput,
) -> Result<Pause, Failure> {
    let id = &asked.question_id;
    context
        .ui
        .note(format_args!("{subagent} asks, and has stopped: nothing runs until somebody answers\n{id}"));
    let diff = Diff::of(agora, dispatch).await?;
    tell_about(context, &asked.asked, diff.as_ref());
    let helpers = context.config.helpers();
    let offer = Offer { diff: diff.as_ref(), helpers: &helpers, skip: false };
    let open = |exit| {
        let how = asking::how(id, &asked.asked, &asked.terms, ", from anywhere");
        context.ui.hint(format_args!("it stays open: {how}"));
        Ok(Pause::Over(exit))
    };
    let mut despite = Despite::Nothing;
    let me = person::at_the_terminal();
    let asker = agora.asker(id).await?;
    loop {
        let said = ask::ask(&asked.asked, offer, closed(&asker, id)).await;
        let given = match said.map_err(unheard)? {
            Asked::Interrupted => return open(Exit::Interrupted),
            Asked::Leave | Asked::Skip => return open(Exit::Paused),
            Asked::Closed(closed) => return follows(context, agora, dispatch, &closed).await,
            Asked::Decline => agora.decline(id, &me).await.map(|()| None),
            Asked::Answer(given) => agora.answer_despite(despite, id, &given, &me).await.map(Some),
        };
        match given {
            Ok(None) => {
                context.ui.note("declined; its thread has ended");
                return Ok(Pause::Over(Exit::Failed));
            }
            Ok(Some((_, answered))) if !answered.goes_on => {
                context.ui.note("it stops here, and its thread has ended");
                return Ok(Pause::Over(Exit::Failed));
            }
            Ok(Some((thread, _))) => {
                announce(context, &thread);
                return Ok(Pause::GoesOn(Box::new(thread)));
            }
            // They see it now, and may say the same again.
            Err(Error::Answer(Refusal::Changed { stale, .. })) => {
                despite = tell_changed(context, &stale);
            }
            Err(error @ Error::Answer(Refusal::Unfit { .. })) => {
                context.ui.failure(&error.into());
            }
            Err(Error::Answer(closed @ (Refusal::AnsweredBefore { .. } | Refusal::Closed { .. }))) => {
                return follows(context, agora, dispatch, &closed).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Somebody was faster, or its time was over. Where it goes on all the same, that is what this command waits for; else how the thread
/// ended is how this ends.
async fn follows(
    context: &Context,
    agora: &Agora,
    asker: &DispatchId,
    closed: &Refusal,
) -> Result<Pause, Failure> {
    let latest = agora.find(asker.as_str()).await?.latest().await?;
    let what = meanwhile(closed);
    if latest.dispatch_id() == asker {
        context.ui.note(format_args!("{what}; its thread has ended"));
        context.ui.hint(format_args!("`agora thread show {}` tells the whole story", latest.id()));
        return Ok(Pause::Over(Exit::Failed));
    }
    context.ui.note(format_args!("{what}; it goes on as {}", latest.dispatch_id()));
    Ok(Pause::GoesOn(Box::new(latest)))
}

/// Says what became of a question that somebody here was asked.
pub(in crate::cli) fn meanwhile(closed: &Refusal) -> String {
    match closed {
        Refusal::AnsweredBefore { by, .. } => {
            format!("answered meanwhile by `{}`, through `{}`", plain(&by.principal), plain(&by.door))
        }
        Refusal::Closed { how, by: Some(by), .. } => format!("{how} by `{}`", plain(&by.principal)),
        Refusal::Closed { how, .. } => how.to_string(),
        other => other.to_string(),
    }
}

/// Waits until a question is not open any more. Where that cannot be heard, whoever answers is told.
pub(in crate::cli) async fn closed(asker: &Thread, question: &QuestionId) -> Refusal {
    match asker.closed(question).await {
        Ok(closed) => closed,
        Err(_) => std::future::pending().await,
    }
}

/// Says what belongs to a question: why it is asked, and what was changed until then.
pub(in crate::cli) fn tell_about(context: &Context, question: &Question, diff: Option<&Diff>) {
    let columns = columns();
    let mut lines = asking::context_lines(question, columns);
    lines.extend(diff.into_iter().flat_map(|diff| diff.summary(columns)));
    if !lines.is_empty() {
        context.ui.note(lines.join("\n"));
    }
}

pub(in crate::cli) fn unheard(error: std::io::Error) -> Failure {
    Failure::outside("terminal-lost", "the terminal cannot be read").because(error)
}

/// Tells what a question rested on and is another now, and returns with what the same answer counts.
pub(in crate::cli) fn tell_changed(context: &Context, stale: &[Difference]) -> Despite {
    context.ui.warn("what the question rested on has changed; an answer counts when it is given again");
    asking::changes(stale).iter().for_each(|line| context.ui.note(line));
    stale::hash(stale).map_or(Despite::Nothing, Despite::Seen)
}
