//! `agora init`: the place where everything is kept, and what was found around it.

mod offer;

use std::io::{self, IsTerminal};

use clap::Args;
use serde_json::{Value, json};

use super::Context;
use crate::doctor::{self, Finding, Status};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::{Form, path_text};
use offer::Offer;

/// Set up agora: what it found, and what it can do about it
#[derive(Debug, Args)]
#[command(
    long_about = "Make the place where agora keeps everything ($AGORA_HOME, else `agora` in the XDG data directory), show what was found here, and offer what can be done with it: store a login, register a project's .claude/agents and .claude/skills, write settings.\n\nOn a terminal it asks, and does nothing before the last answer. Else it says what it would do, and does it with `--yes`. Run again, it offers what is left.",
    after_help = "Examples:\n  agora init\n  agora init --yes"
)]
pub(super) struct Init {
    /// Do all that is offered and needs nobody
    #[arg(long)]
    yes: bool,
}

/// What of the doctor's findings is shown: what one would set up, and where it would go.
const SHOWN: [&str; 7] = ["home", "docker", "podman", "claude", "codex", "git", "credential"];

/// What is to happen with an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Do,
    Leave,
    /// Nobody is there to say.
    Tell,
    /// Somebody was, and is gone.
    Stop,
}

impl Init {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let home = context.config.home();
        let existed = home.join("format").exists();
        let agora = context.config.agora();
        let names = agora.secret_names().await?;
        let stored = names.iter().map(ToString::to_string).filter(|name| name.starts_with("auth/")).collect();
        let found = doctor::examine(&context.config.surroundings(stored));
        let found: Vec<_> = found.into_iter().filter(|one| SHOWN.contains(&one.topic)).collect();
        tell(context, &found);
        // All is asked before anything is done: whoever stops in between has changed nothing.
        let mut asked = Vec::new();
        for offer in offer::gather(context, &agora, &found).await? {
            let answer = self.answer(context, &offer)?;
            if answer == Answer::Stop {
                context.ui.note("\nstopped: nothing was done");
                return Ok(Exit::Interrupted);
            }
            asked.push((offer, answer));
        }
        agora.prepare()?;
        let mut done = Vec::new();
        for (offer, answer) in asked {
            let says = offer.says();
            match answer {
                Answer::Do => offer.accept(context, &agora).await?,
                Answer::Tell => {
                    context.ui.note(format_args!("would {}: {}", offer.says(), offer.otherwise()));
                }
                Answer::Leave | Answer::Stop => context.ui.note(format_args!("left: {}", offer.otherwise())),
            }
            done.push(json!({"offer": says, "done": answer == Answer::Do}));
        }
        context.ui.note(if existed {
            "agora keeps everything here already:"
        } else {
            "agora keeps everything here:"
        });
        let document = || json!({"home": path_text(home), "created": !existed, "found": found, "offers": Value::from(done)});
        context.ui.result(document, || format!("{}\n", home.display()))?;
        next(context, &found);
        Ok(Exit::Done)
    }

    fn answer(&self, context: &Context, offer: &Offer) -> Result<Answer, Failure> {
        if offer.wants_a_person() && !is_a_person(context) {
            return Ok(Answer::Tell);
        }
        if self.yes {
            return Ok(if offer.wants_a_person() { Answer::Tell } else { Answer::Do });
        }
        if !is_a_person(context) {
            return Ok(Answer::Tell);
        }
        let said = ask(&format!(
            "{}? {} ",
            sentence(&offer.says()),
            if offer.is_usual() { "[Y/n]" } else { "[y/N]" }
        ))?;
        let Some(said) = said else { return Ok(Answer::Stop) };
        let yes = match said.trim().to_ascii_lowercase().as_str() {
            "" => offer.is_usual(),
            word => word.starts_with('y'),
        };
        Ok(if yes { Answer::Do } else { Answer::Leave })
    }
}

fn is_a_person(context: &Context) -> bool {
    context.ui.form() == Form::Text && io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn ask(question: &str) -> Result<Option<String>, Failure> {
    let failed =
        |error: io::Error| Failure::outside("no-answer", "the terminal cannot be asked").because(error);
    crate::ask::word(question).map_err(failed)
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Says what is here, a line each.
fn tell(context: &Context, found: &[Finding]) {
    match context.config.repository() {
        Some(root) => context.ui.note(format_args!("repository  {}", root.display())),
        None => context.ui.note("repository  none here: agents begin with an empty directory"),
    }
    for Finding { topic, status, detail, .. } in found {
        let but = match status {
            Status::Ok => "",
            Status::Missing | Status::Note => "- ",
            Status::Broken => "! ",
        };
        context.ui.note(format_args!("{topic:<11} {but}{detail}"));
    }
}

/// The next command: a first task, or what stands before it.
fn next(context: &Context, found: &[Finding]) {
    let is_ok = |topic: &str| found.iter().any(|one| one.topic == topic && one.status == Status::Ok);
    if is_ok("claude") || is_ok("codex") {
        context.ui.hint("`agora run 'what is this project, and how is it tested?'`");
    } else {
        context.ui.hint("install an agent first: `npm install -g @anthropic-ai/claude-code`");
    }
    context.ui.hint("`agora doctor` shows what this machine can do");
}
