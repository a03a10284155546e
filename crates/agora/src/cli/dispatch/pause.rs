//! A pause in front of somebody: the question on their terminal, and their answer.

use agora_core::stale;
use agora_engine::{Agora, Despite, Error, NeedsInput, Reaction, Refusal, Thread};

use crate::ask::{self, Asked};
use crate::asking;
use crate::cli::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::person;

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
    asked: &NeedsInput,
) -> Result<Pause, Failure> {
    let id = &asked.question_id;
    context
        .ui
        .note(format_args!("{subagent} asks, and has stopped: nothing runs until somebody answers\n{id}"));
    if let Some(context_lines) = asking::context(&asked.asked) {
        context.ui.note(context_lines);
    }
    let unheard = |error| Failure::outside("terminal-lost", "the terminal cannot be read").because(error);
    let open = |exit| {
        context.ui.hint(format_args!("it stays open: `agora answer {id} VALUE` answers it, from anywhere"));
        Ok(Pause::Over(exit))
    };
    let mut despite = Despite::Nothing;
    loop {
        let reaction = match ask::ask(&asked.asked).map_err(unheard)? {
            Asked::Interrupted => return open(Exit::Interrupted),
            Asked::Reaction(reaction) => reaction,
        };
        let given = match reaction {
            Reaction::Leave => return open(Exit::Paused),
            Reaction::Decline => {
                agora.decline(id, &person::at_the_terminal()).await?;
                return Ok(Pause::Over(Exit::Failed));
            }
            Reaction::Answer(given) => given,
        };
        match agora.answer_despite(despite, id, &given, &person::at_the_terminal()).await {
            Ok((_, answered)) if !answered.goes_on => {
                context.ui.note("it stops here, and its thread has ended");
                return Ok(Pause::Over(Exit::Failed));
            }
            Ok((thread, _)) => return Ok(Pause::GoesOn(Box::new(thread))),
            // They see it now, and may say the same again.
            Err(Error::Answer(Refusal::Changed { stale, .. })) => {
                context
                    .ui
                    .warn("what the question rested on has changed; an answer counts when it is given again");
                asking::changes(&stale).iter().for_each(|line| context.ui.note(line));
                despite = stale::hash(&stale).map_or(Despite::Nothing, Despite::Seen);
            }
            Err(error @ Error::Answer(Refusal::Unfit { .. })) => {
                context.ui.failure(&error.into());
            }
            // Somebody was faster. It goes on all the same, and that is what this command waits for.
            Err(error @ Error::Answer(Refusal::AnsweredBefore { .. })) => {
                context.ui.warn(error);
                return Ok(Pause::GoesOn(Box::new(agora.find(id.as_str()).await?.latest().await?)));
            }
            Err(error) => return Err(error.into()),
        }
    }
}
