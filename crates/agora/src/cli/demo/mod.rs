//! `agora demo`: the pause before one's eyes, in a few seconds and without an account.

mod engine;
mod idle;
mod left;
mod offer;
mod place;
mod play;
mod processes;
mod screen;
mod script;
mod show;

use agora_core::answer::Given;
use agora_core::login::Vendor;
use clap::Args;

pub(super) use engine::DemoEngine;

use super::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::ui::{Form, path_text};
use place::Place;
use play::{End, Play};

/// See an agent ask, wait at no cost and go on: in seconds, without an account
#[derive(Debug, Args)]
#[command(
    long_about = "See an agent ask, wait at no cost and go on: in seconds, without an account.\n\nThe agent is a shell script and says so; everything else is real: the engine, the worker, the wall, the ledger, git. It works in a directory of its own, which is gone afterwards; nothing of yours is touched.",
    after_help = "Examples:\n  agora demo\n  agora demo --answer month-first\n  agora demo --keep --json"
)]
pub(super) struct Demo {
    /// Answer the question with this; without it and without a terminal the demo answers its script, and says so; a real agent it never
    /// answers
    #[arg(long, value_name = "VALUE")]
    answer: Option<String>,
    /// Leave the demo's directory where it is, and say where
    #[arg(long)]
    keep: bool,
    /// Play with a real agent, `claude` or `codex`: it costs money
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

/// The label of a demo's thread.
const LABEL: &str = "agora-demo";

/// Who plays the agent.
#[derive(Clone, Copy, Debug)]
enum Cast {
    Scripted,
    Real(&'static Vendor),
}

impl Cast {
    /// Sees that there will be an answer. A real agent's question is in the user's own ledger, and what is recorded there in a person's
    /// name they have said: where nobody can be asked, nobody's silence is an answer.
    fn see_somebody_answers(self, context: &Context, answer: Option<&str>) -> Result<(), Failure> {
        match self {
            Self::Real(vendor) if answer.is_none() && !context.ui.can_ask() => {
                let name = vendor.name;
                Err(Failure::wrong(
                    "no-answer",
                    format!("nobody is here to answer {name}, and the demo answers only its own script"),
                )
                .hint(format!(
                    "`agora demo --agent {name} --answer 1` takes the first option, whatever it is"
                ))
                .hint("on a terminal, and without `--json`, you are asked"))
            }
            Self::Real(_) | Self::Scripted => Ok(()),
        }
    }
}

impl Demo {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if self.agent.is_none() {
            self.see_answer()?;
        }
        let (cast, could) = offer::cast(context, self.agent.as_deref()).await?;
        cast.see_somebody_answers(context, self.answer.as_deref())?;
        // From here on Ctrl-C cleans up first.
        let mut interrupts = Interrupts::listen()?;
        let place = Place::make(&context.config)?;
        left::cancel(context).await;
        let mut play = Play::new(context, &place, cast, self.answer);
        let mut played = play.perform(&mut interrupts, could).await;
        // What is left open stays so only where all that it rests on stays as well.
        let is_at_rest = match &played {
            Ok(End::Whole(_) | End::Declined) => true,
            Ok(End::Unanswered) => self.keep,
            Ok(End::Interrupted) | Err(_) => false,
        };
        if !is_at_rest {
            played = play.clear_away().await.and(played);
        }
        play.tell_leaving(&played, self.keep)?;
        drop(play);
        let kept = self.keep.then(|| place.keep());
        if let Some(dir) = &kept {
            context.ui.note(format_args!("kept: {}", dir.display()));
            let home = match cast {
                Cast::Scripted => format!("AGORA_HOME='{}' ", dir.join("agora").display()),
                Cast::Real(_) => String::new(),
            };
            let next = if matches!(played, Ok(End::Unanswered)) { "inbox" } else { "protocol check @" };
            context.ui.hint(format_args!("`{home}agora {next}`"));
        }
        match played? {
            End::Whole(mut document) => {
                if let Some(dir) = &kept {
                    document["kept"] = path_text(dir).into();
                }
                if context.ui.form() == Form::Json {
                    context.ui.result(|| document, String::new)?;
                }
                Ok(Exit::Done)
            }
            End::Unanswered | End::Declined => Ok(Exit::Done),
            End::Interrupted => Ok(Exit::Interrupted),
        }
    }

    /// Sees that the answer is one, before anything is done.
    fn see_answer(&self) -> Result<(), Failure> {
        let Some(answer) = &self.answer else { return Ok(()) };
        let question = script::question()?;
        Given::Text(answer.clone()).understood(&question).map(drop).map_err(|error| {
            let options = question.items().iter().flat_map(|item| item.options());
            let labels: Vec<String> = options.map(|choice| format!("`{}`", choice.label)).collect();
            Failure::wrong("answer-unfit", format!("`{answer}` does not answer the demo's question"))
                .because(error)
                .hint(format!("one of these: {}", labels.join(", ")))
        })
    }
}
