//! `agora dispatch`, and its short forms: run a subagent, look at what runs and ran, cancel it, go on with it.

pub(super) mod apply;
pub(super) mod cancel;
pub(super) mod carry;
pub(super) mod go_on;
pub(super) mod list;
pub(super) mod logs;
pub(super) mod options;
pub(super) mod pause;
pub(super) mod project;
pub(super) mod run;
pub(super) mod show;
pub(super) mod takeover;
pub(super) mod watch;

use agora_core::ThreadId;
use agora_engine::{Agora, Thread};
use clap::Subcommand;

use super::Context;
use crate::aside;
use crate::exit::Exit;
use crate::failure::Failure;

/// Run a subagent, and look at what runs and ran
#[derive(Debug, Subcommand)]
pub(super) enum Dispatch {
    Run(Box<run::Run>),
    List(list::List),
    Describe(show::Show),
    Logs(logs::Logs),
    Watch(watch::Watch),
    Cancel(cancel::Cancel),
    Apply(apply::Apply),
}

impl Dispatch {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self {
            Self::Run(command) => command.run(context).await,
            Self::List(command) => command.run(context).await,
            Self::Describe(command) => command.run(context).await,
            Self::Logs(command) => command.run(context).await,
            Self::Watch(command) => command.run(context).await,
            Self::Cancel(command) => command.run(context).await,
            Self::Apply(command) => command.run(context).await,
        }
    }
}

/// Opens agora as every command about dispatches does: first it takes in what has ended and what is due, and leaves what nobody
/// carries to a carrier of its own.
pub(super) async fn open(context: &Context) -> Result<Agora, Failure> {
    let agora = context.config.dispatching()?;
    project::say_unused(context, &agora);
    take_in(context, &agora).await?;
    Ok(agora)
}

/// Takes in what has ended and what is due, and leaves what nobody carries to a carrier.
pub(super) async fn take_in(context: &Context, agora: &Agora) -> Result<(), Failure> {
    let found = agora.recover().await?;
    for (thread, why) in &found.stuck {
        context.ui.warn(format_args!("the thread `{thread}` cannot be moved on: {why}"));
    }
    if !found.orphans.is_empty() {
        start_carrier(context, &found.orphans)?;
    }
    Ok(())
}

/// Opens agora to run something, and says what of the project's file does not count for it.
pub(super) async fn open_to_run(context: &Context) -> Result<Agora, Failure> {
    let agora = context.config.dispatching()?;
    project::see_usable(context, &agora)?;
    take_in(context, &agora).await?;
    agora.settings_warnings().iter().for_each(|warning| context.ui.warn(warning));
    project::say_ignored(context, &agora);
    Ok(agora)
}

async fn find(agora: &Agora, text: &str) -> Result<Thread, Failure> {
    Ok(agora.find(text).await?)
}

/// Starts a process that carries threads until each of them rests.
pub(super) fn start_carrier(context: &Context, threads: &[ThreadId]) -> Result<(), Failure> {
    aside::carrier(&context.config, threads).map(drop).map_err(|error| {
        Failure::outside("no-carrier", "a process that carries the thread could not be started")
            .because(error)
            .hint("nothing is lost: the next command about dispatches tries again")
    })
}

/// Says a time as a person would: `340 ms`, `12.3 s`, `4 min 5 s`, `3 h 2 min`.
pub(crate) fn span(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds}.{} s", millis % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_said_as_a_person_would() {
        let said: Vec<String> = [0, 340, 12_345, 245_000, 10_920_000, 400_000_000].map(super::span).to_vec();
        assert_eq!(said, ["0 ms", "340 ms", "12.3 s", "4 min 5 s", "3 h 2 min", "4 days"]);
    }
}
