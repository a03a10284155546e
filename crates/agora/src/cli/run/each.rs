//! `agora run --each`: one subagent over many inputs.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use agora_core::bundle::Subagent;
use agora_engine::{Agora, Dispatch, DispatchResult, Error, Name, Thread};
use serde_json::{Map, Value};
use tokio::task::JoinSet;

use super::book::Book;
use super::lines::Lines;
use crate::cli::dispatch::run::warn;
use crate::cli::{Context, counted};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::progress::LiveLine;

/// How many wrong lines are named.
const NAMED: usize = 10;

/// A file of inputs, and how many of them run at once.
#[derive(Debug)]
pub(super) struct Each {
    lines: Lines,
    jobs: NonZeroUsize,
    /// Under which the same file goes on where it stopped.
    pub(super) key: Option<Name>,
    total: usize,
}

impl Each {
    pub(super) fn new(file: &Path, jobs: NonZeroUsize, key: Option<Name>) -> Result<Self, Failure> {
        Ok(Self { lines: Lines::open(file)?, jobs, key, total: 0 })
    }

    /// Looks at every line, before the first is accepted.
    pub(super) async fn check(
        &mut self,
        agora: &Agora,
        subagent: &Subagent,
        dispatch: &Dispatch,
    ) -> Result<(), Failure> {
        // Nobody says what its inputs are, and the task is its prompt.
        let takes_text = subagent.inputs.is_none() && subagent.prompt_template.is_none();
        let mut wrong = Vec::new();
        while let Some((number, line)) = self.lines.next()? {
            self.total += 1;
            let checked = match line {
                Ok(input) if takes_text && input.get("task").is_some_and(|task| !task.is_string()) => {
                    Err("`task` is not a text".to_owned())
                }
                Ok(input) => match agora.check(&dispatch.clone().input(Value::Object(input))).await {
                    Err(error @ (Error::Request { field: "input", .. } | Error::Render(_))) => {
                        let failure = Failure::from(error);
                        Err(std::iter::once(failure.message)
                            .chain(failure.causes)
                            .collect::<Vec<_>>()
                            .join(": "))
                    }
                    // What is wrong with all of them.
                    other => Ok(other?),
                },
                Err(why) => Err(why),
            };
            wrong.extend(checked.err().map(|why| format!("line {number}: {why}")));
        }
        self.lines.rewind()?;
        if self.total == 0 {
            return Err(Failure::wrong("bad-input", "the file has no line that says anything")
                .hint("a line such as `{\"task\": \"…\"}` for each time that it is to run"));
        }
        refuse(wrong)
    }

    /// Runs them, so many at once. One that fails does not stop the others.
    pub(super) async fn run(
        mut self,
        context: &Context,
        agora: &Agora,
        dispatch: Dispatch,
        pause_ok: bool,
    ) -> Result<Exit, Failure> {
        let mut interrupts = Interrupts::listen()?;
        let mut shown = LiveLine::new(context.ui);
        let mut book = Book::default();
        let mut crew = Crew::default();
        let (mut more, mut warned, mut interrupted) = (true, false, false);
        loop {
            while more && crew.len() < self.jobs.get() {
                let Some((number, line)) = self.lines.next()? else {
                    more = false;
                    break;
                };
                match self.start(agora, &dispatch, number, line).await {
                    Ok(thread) => {
                        if !std::mem::replace(&mut warned, true) {
                            warn(context, agora, &thread).await?;
                        }
                        crew.add(number, thread);
                    }
                    Err(failure) => book.refused(number, failure),
                }
            }
            tokio::select! {
                biased;
                () = interrupts.next(), if !crew.is_empty() => {
                    shown.clear();
                    if interrupted {
                        return Ok(Exit::Interrupted);
                    }
                    (more, interrupted) = (false, true);
                    context.ui.note("cancelling all; Ctrl-C again leaves at once, and the next command takes them in");
                    crew.cancel();
                }
                ended = crew.next() => match ended {
                    Some((number, Ok(result))) => book.ended(number, &result),
                    Some((number, Err(error))) => book.refused(number, error.into()),
                    None => break,
                },
                () = shown.tick() => {
                    let total = self.total;
                    shown.write(&format!("{} of {total}: {}, {} running", book.len(), book.counts().text(), crew.len()));
                }
            }
        }
        shown.clear();
        book.tell(context.ui, agora).await?;
        if interrupted {
            let left = self.total.saturating_sub(book.len());
            context.ui.note(format_args!("{} not begun", counted(left, "line")));
            return Ok(Exit::Interrupted);
        }
        Ok(book.exit(pause_ok))
    }

    async fn start(
        &self,
        agora: &Agora,
        dispatch: &Dispatch,
        number: usize,
        line: Result<Map<String, Value>, String>,
    ) -> Result<Thread, Failure> {
        // It was looked at before; whoever changes the file meanwhile hears of it here.
        let input = line.map_err(|why| Failure::wrong("bad-input", "the line was changed").because(why))?;
        let dispatch = dispatch.clone().input(Value::Object(input));
        let Some(key) = &self.key else { return Ok(agora.dispatch(dispatch).await?) };
        let mut attempt = 1;
        loop {
            let key = format!("each/{key}/{number}/{attempt}");
            let thread = agora.dispatch(dispatch.clone().idempotency_key(key)).await?;
            // What finished, asks or runs is what was wanted. What failed is tried again.
            if thread.is_new() || !matches!(thread.describe().await?.state, "failed" | "cancelled") {
                return Ok(thread);
            }
            attempt += 1;
        }
    }
}

fn refuse(mut wrong: Vec<String>) -> Result<(), Failure> {
    if wrong.is_empty() {
        return Ok(());
    }
    let message = format!("{} cannot be used; nothing was accepted", counted(wrong.len(), "line"));
    let others = wrong.len().saturating_sub(NAMED);
    wrong.truncate(NAMED);
    wrong.extend((others > 0).then(|| format!("and {others} more")));
    let failure = wrong.into_iter().fold(Failure::wrong("bad-input", message), Failure::because);
    Err(failure.hint("each line is a JSON object, the input: `{\"task\": \"…\"}`"))
}

/// Those that run now.
#[derive(Debug, Default)]
struct Crew {
    waiting: JoinSet<(usize, Result<DispatchResult, Error>)>,
    threads: BTreeMap<usize, Arc<Thread>>,
}

impl Crew {
    fn len(&self) -> usize {
        self.threads.len()
    }

    fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    fn add(&mut self, number: usize, thread: Thread) {
        let thread = Arc::new(thread);
        self.threads.insert(number, Arc::clone(&thread));
        self.waiting.spawn(async move { (number, thread.wait().await) });
    }

    /// Asks every one to end. Each is still waited for.
    fn cancel(&self) {
        for thread in self.threads.values() {
            let thread = Arc::clone(thread);
            // Whether it ended, and how, whoever waits for it hears.
            drop(tokio::spawn(async move { thread.cancel().await.map(drop) }));
        }
    }

    /// Returns the next that ends. `None`: none runs.
    async fn next(&mut self) -> Option<(usize, Result<DispatchResult, Error>)> {
        match self.waiting.join_next().await? {
            Ok((number, result)) => {
                self.threads.remove(&number);
                Some((number, result))
            }
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}
