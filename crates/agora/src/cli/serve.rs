//! `agora serve`: the permanent carrier.

use agora_engine::Served;
use clap::Args;
use serde_json::json;

use super::dispatch::start_carrier;
use super::{Context, counted};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupts;

/// Carry threads and turn timers, until it is told to stop
#[derive(Debug, Args)]
#[command(
    long_about = "Carry threads and turn timers, until it is told to stop.\n\nIt takes in what has ended, starts what waits, asks the commands of routes, reminds, escalates and lets expire at their moments. It listens to nothing from outside. Ctrl-C or SIGTERM ends it; what it carried runs on, and is carried by a process of its own.",
    after_help = "Example:\n  agora serve"
)]
pub(super) struct Serve {}

impl Serve {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut interrupts = Interrupts::listen()?;
        let agora = context.config.carrying()?;
        context.ui.note("serving; Ctrl-C or SIGTERM ends it, and nothing that runs ends with it");
        let tell = |served: Served| match served {
            Served::Carries(thread) => context.ui.note(format_args!("carries {thread}")),
            Served::Stuck(thread, why) => {
                context.ui.warn(format_args!("the thread `{thread}` cannot be moved on now: {why}"));
            }
            Served::Trouble(why) => context.ui.warn(format_args!("tried again in 30 s: {why}")),
            _ => {}
        };
        let left = agora.serve(interrupts.next(), tell).await?;
        if !left.is_empty() {
            start_carrier(context, &left)?;
            let threads = counted(left.len(), "thread");
            context.ui.note(format_args!("{threads} handed over to a carrier of their own"));
        }
        context.ui.result(|| json!({"handedOver": left}), String::new)?;
        Ok(Exit::Done)
    }
}
