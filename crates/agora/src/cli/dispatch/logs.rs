//! `agora logs`: what an agent printed, with secrets hidden.

use agora_engine::{Agora, Thread};
use clap::{Args, ValueEnum};
use serde_json::json;

use super::{find, open};
use crate::cli::Context;
use crate::exit::Exit;
use crate::failure::Failure;

/// How much is read at once.
const PIECE: u64 = 1024 * 1024;

/// Print what an agent printed
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  agora logs -f @\n  agora dispatch logs d_7f3k --part setup")]
pub(in crate::cli) struct Logs {
    /// A dispatch or thread id, the beginning of one, a label, or `@` for the last one
    #[arg(value_name = "ID", default_value = "@")]
    id: String,
    /// Stay until it has ended
    #[arg(short, long)]
    follow: bool,
    /// Which output to print
    #[arg(long, value_enum, default_value_t = Part::Agent)]
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// What the setup script printed
    Setup,
    /// What the agent's program printed, as it printed it
    Agent,
    /// What the verify command printed
    Verify,
    /// The worker's event stream
    Worker,
    /// What the agent changed, as a patch
    Patch,
}

impl Part {
    /// Returns the files, each with the word for its stream.
    fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Setup => &[("stdout", "setup.stdout.log"), ("stderr", "setup.stderr.log")],
            Self::Agent => &[("stdout", "agent.stdout.log"), ("stderr", "agent.stderr.log")],
            Self::Verify => &[("stdout", "verify.stdout.log"), ("stderr", "verify.stderr.log")],
            Self::Worker => &[("stdout", "events.jsonl"), ("stderr", "worker.stderr")],
            Self::Patch => &[("stdout", "patch.diff")],
        }
    }
}

/// How far a file was read, and what of a line is not whole yet.
struct Reading {
    stream: &'static str,
    file: &'static str,
    from: u64,
    begun: Vec<u8>,
}

impl Logs {
    pub(in crate::cli) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let agora = open(context).await?;
        let thread = find(&agora, &self.id).await?;
        let mut readings: Vec<Reading> = self
            .part
            .files()
            .iter()
            .map(|(stream, file)| Reading { stream, file, from: 0, begun: Vec::new() })
            .collect();
        loop {
            // Before reading: what is written until then is read.
            let over = !self.follow || has_ended(&thread).await?;
            let mut read = false;
            for reading in &mut readings {
                read |= reading.print(context, &agora, &thread).await?;
            }
            if over {
                break;
            }
            if !read {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
        readings.iter_mut().try_for_each(|reading| reading.end(context))?;
        let nothing = readings.iter().all(|reading| reading.from == 0);
        if nothing {
            context.ui.note(match self.part {
                Part::Patch => "there is no patch",
                Part::Setup | Part::Agent | Part::Verify | Part::Worker => "nothing was printed",
            });
        }
        Ok(Exit::Done)
    }
}

async fn has_ended(thread: &Thread) -> Result<bool, Failure> {
    Ok(thread.describe().await?.ended_at.is_some())
}

impl Reading {
    /// Prints what is new, in whole lines. Tells whether there was anything.
    async fn print(&mut self, context: &Context, agora: &Agora, thread: &Thread) -> Result<bool, Failure> {
        let mut any = false;
        loop {
            let piece = agora.read_left(thread.dispatch_id(), self.file, self.from, PIECE).await?;
            let Some(piece) = piece.filter(|piece| !piece.is_empty()) else { return Ok(any) };
            any = true;
            self.from += piece.len() as u64;
            self.begun.extend_from_slice(&piece);
            if let Some(last) = self.begun.iter().rposition(|byte| *byte == b'\n') {
                let rest = self.begun.split_off(last + 1);
                let whole = std::mem::replace(&mut self.begun, rest);
                self.say(context, &whole)?;
            }
        }
    }

    fn end(&mut self, context: &Context) -> Result<(), Failure> {
        let rest = std::mem::take(&mut self.begun);
        if rest.is_empty() { Ok(()) } else { self.say(context, &rest) }
    }

    fn say(&self, context: &Context, bytes: &[u8]) -> Result<(), Failure> {
        let text = String::from_utf8_lossy(bytes);
        for line in text.split_inclusive('\n') {
            let bare = line.strip_suffix('\n').unwrap_or(line);
            context.ui.line(|| json!({"stream": self.stream, "line": bare}), || format!("{bare}\n"))?;
        }
        Ok(())
    }
}
