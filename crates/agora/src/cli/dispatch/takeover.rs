//! `agora takeover`: the thread goes on in the hands of whoever sits at this terminal.

use agora_engine::{Agora, DispatchResult, TakenOver, Thread};
use clap::Args;

use super::run::{tell, warn};
use super::{find, open_to_run};
use crate::asking;
use crate::cli::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::person;
use crate::progress::Progress;
use crate::terminal::{Given, Pair, Relay, Seat};

/// Take a thread over, in the agent's own interactive program
#[derive(Debug, Args)]
#[command(
    long_about = "Take a thread over: the agent's own interactive program (`claude --resume`, `codex resume`) opens in this terminal, in the same conversation and workspace, behind the same wall, with the same credential. For other runtimes it is a shell in the workspace.\n\nLeave it as you always do. What was done is kept like every dispatch's work, and `agora continue` or another `agora takeover` goes on from there. A question that was open ends without an answer: it is yours now. What you type is not recorded.",
    after_help = "Examples:\n  agora takeover                 # the last dispatch's thread\n  agora takeover t_7f3k\n  agora continue t_7f3k 'go on'  # afterwards, without you"
)]
pub(in crate::cli) struct Takeover {
    /// A dispatch, thread or question id, the beginning of one, a label, or `@` for the last one
    #[arg(value_name = "ID", default_value = "@")]
    id: String,
}

impl Takeover {
    pub(in crate::cli) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let seat = Seat::find(context.ui.form()).map_err(no_terminal)?.ok_or_else(nobody)?;
        let agora = open_to_run(context).await?;
        let thread = find(&agora, &self.id).await?;
        let mut interrupts = Interrupts::listen()?;
        let Pair { ours, theirs } = seat.pair().map_err(no_terminal)?;
        let (next, taken) = thread.take_over(&person::at_the_terminal(), theirs).await?;
        warn(context, &agora, &next).await?;
        introduce(context, &next, &taken);
        let relay = Relay::start(&seat, ours).map_err(no_terminal)?;
        match sit(context, &agora, &next, &seat, relay, &mut interrupts).await? {
            Some(result) => {
                tell(context, &result)?;
                Ok(match result.state {
                    "finished" => Exit::Done,
                    "needs_input" => Exit::Paused,
                    _ => Exit::Failed,
                })
            }
            None => {
                context.ui.note("cancelling");
                next.cancel().await?;
                tell(context, &next.describe().await?)?;
                Ok(Exit::Interrupted)
            }
        }
    }
}

/// Says what one is about to sit at. From then on the terminal is the program's.
fn introduce(context: &Context, thread: &Thread, taken: &TakenOver) {
    if let Some(asked) = &taken.question {
        context.ui.note(format_args!(
            "its question ends without an answer, and is yours now: {}",
            asked.question_id
        ));
        context.ui.note(asking::text(&asked.asked));
    }
    if !taken.is_interactive() {
        context.ui.note(format_args!(
            "`{}` has no interactive program: this is a shell in its workspace, and `exit` leaves it",
            taken.runtime
        ));
    } else if !taken.has_conversation {
        context.ui.note("there is no conversation to go on with: it begins anew, in the thread's workspace");
    }
    context
        .ui
        .note(format_args!("you take it over; what you type is not recorded\n{}", thread.dispatch_id()));
}

/// Stays until the dispatch has ended. `None`: somebody asked this command to end before.
async fn sit(
    context: &Context,
    agora: &Agora,
    thread: &Thread,
    seat: &Seat,
    mut relay: Relay,
    interrupts: &mut Interrupts,
) -> Result<Option<DispatchResult>, Failure> {
    let mut progress = Progress::new(context.ui, agora.clone(), thread.dispatch_id().clone());
    let (begun, ended) = (relay.begun.clone(), relay.ended.clone());
    let waiting = thread.wait();
    tokio::pin!(waiting);
    let mut given: Option<Given<'_>> = None;
    let mut left = false;
    let over = loop {
        let sits = given.is_some();
        tokio::select! {
            biased;
            () = interrupts.next() => break None,
            result = &mut waiting => break Some(result),
            // Until the program shows something, Ctrl-C is for this command.
            () = begun.notified(), if !sits && !left => {
                progress.clear();
                given = Some(seat.give_keys().map_err(no_terminal)?);
                relay.open();
            }
            () = ended.notified(), if !left => {
                // Its work is being put away.
                (given, left) = (None, true);
            }
            () = progress.tick(), if !sits => {}
        }
    };
    drop(given);
    progress.clear();
    Ok(over.transpose()?)
}

fn nobody() -> Failure {
    Failure::wrong(
        "no-terminal",
        "a takeover needs a terminal to sit at: type on standard input, look at standard output",
    )
    .hint("`agora continue ID 'MESSAGE'` goes on without one")
    .hint("with `--json` the program is shown on standard error, and the result goes to standard output")
}

fn no_terminal(error: std::io::Error) -> Failure {
    Failure::outside("no-terminal", "the machine gives no terminal for the agent").because(error)
}
