//! Step 13: who decides. The order is the contract's; a runtime's exit code alone never decides.

use std::path::Path;

use agora_core::bundle::Budget;
use agora_core::limits::SENTINEL_BYTES;
use agora_core::protocol::{self, Marker};
use agora_core::question::Question;
use agora_core::spent::{self, BudgetPart};

use super::invoke::Invoked;
use crate::adapter::{RuntimeExit, Verdict};
use crate::budget;
use crate::child::{Ended, Why};
use crate::fault::Fault;
use crate::needs_input::file::{self, Found};
use crate::needs_input::{self, Unreadable};
use crate::place::Place;
use crate::steps::fetch::Task;

/// How the dispatch ends.
#[derive(Debug)]
pub(crate) enum Ending {
    Finished,
    NeedsInput(Question),
    Failed(Fault),
    /// What was asked is kept, and not opened.
    Cancelled(Option<Question>),
}

/// Everything that speaks for an ending, gathered before anything else runs in the workspace.
#[derive(Debug)]
pub(crate) struct Evidence {
    sentinel: Result<Option<Question>, Unreadable>,
    /// What was asked by a tool of the runtime's, or in the output.
    spoken: Option<Result<Question, Unreadable>>,
    limit: Option<Limit>,
    verdict: Verdict,
}

/// A limit that ended the agent.
#[derive(Debug)]
enum Limit {
    Time(u64),
    Memory(u64),
    Processes(u32),
    Disk,
    /// A part of the budget: pauses, or fails where the dispatch wants that.
    Budget {
        part: &'static str,
        what: String,
        /// The whole budget, to ask about. `None`: it is to fail.
        asks: Option<Budget>,
    },
}

/// Gathers what speaks for an ending, also out of a directory that the agent has closed.
pub(crate) fn gather(invoked: &mut Invoked, place: &Place) -> Evidence {
    let (workspace, exit) = (&place.work(), &mut invoked.exit);
    needs_input::reopen(workspace);
    let spoken = exit.asked.take().or_else(|| in_output(&exit.text, workspace, &place.inside().work));
    let limit = limit(&invoked.task, &invoked.ended, exit, invoked.minutes_left);
    let verdict = std::mem::replace(&mut exit.verdict, Verdict::Success);
    Evidence { sentinel: needs_input::read_sentinel(workspace), spoken, limit, verdict }
}

/// Looks for the user input protocol in the final output. Behind a wall the agent names its state file as it sees it.
fn in_output(text: &str, workspace: &Path, seen_as: &Path) -> Option<Result<Question, Unreadable>> {
    match protocol::find(text)? {
        Marker::Asked(question) => Some(question.map_err(Unreadable::Output)),
        Marker::StateFile(paused) => {
            let path = Path::new(&paused.file);
            let inside = path.strip_prefix(seen_as).or_else(|_| path.strip_prefix(".")).unwrap_or(path);
            Some(match file::read(workspace, inside, SENTINEL_BYTES) {
                Ok(Found::Bytes(bytes)) => paused.question(&bytes).map_err(Unreadable::Output),
                Ok(Found::Nothing) => Err(Unreadable::StateFile("not there")),
                Ok(Found::NotAFile(what)) => Err(Unreadable::StateFile(what)),
                Err(error) => Err(Unreadable::Io(error)),
            })
        }
    }
}

fn limit(task: &Task, ended: &Ended, exit: &RuntimeExit, minutes_left: bool) -> Option<Limit> {
    let limits = &task.manifest.limits;
    let budget = |part: &'static str| Limit::Budget {
        part,
        what: budget::words(task, part),
        asks: limits.budget.clone().filter(|_| !budget::fails(task)),
    };
    if ended.out_of_memory {
        return Some(Limit::Memory(limits.memory_bytes.unwrap_or_default()));
    }
    if ended.too_many_processes && ended.stopped.is_none() && !matches!(exit.verdict, Verdict::Success) {
        return Some(Limit::Processes(limits.processes.unwrap_or_default()));
    }
    match (ended.stopped, &exit.verdict) {
        (Some(Why::Disk), _) => Some(Limit::Disk),
        (Some(Why::Time), _) if minutes_left => Some(Limit::Time(task.time().as_secs())),
        (Some(Why::Time), _) => Some(budget("minutes")),
        (Some(Why::Budget), _) => Some(budget("tokens")),
        (_, Verdict::Budget(part)) if budget::has(task, part) => Some(budget(part)),
        _ => None,
    }
}

/// Decides. A cancel counts up to the moment of this call.
pub(crate) fn decide(evidence: Evidence, cancelled: bool) -> Ending {
    let Evidence { sentinel, spoken, limit, verdict } = evidence;
    if cancelled {
        let spoken = spoken.and_then(Result::ok);
        return Ending::Cancelled(sentinel.ok().flatten().or(spoken));
    }
    match sentinel {
        Ok(Some(question)) => return Ending::NeedsInput(question),
        Err(unreadable) => return Ending::Failed(Fault::Sentinel(unreadable)),
        Ok(None) => {}
    }
    match spoken {
        Some(Ok(question)) => return Ending::NeedsInput(question),
        Some(Err(unreadable)) => return Ending::Failed(Fault::Sentinel(unreadable)),
        None => {}
    }
    match limit {
        Some(Limit::Time(seconds)) => return Ending::Failed(Fault::Time { seconds }),
        Some(Limit::Memory(bytes)) => return Ending::Failed(Fault::Memory { bytes }),
        Some(Limit::Disk) => return Ending::Failed(Fault::Disk),
        Some(Limit::Processes(most)) => return Ending::Failed(Fault::Processes { most }),
        Some(Limit::Budget { what, asks: None, .. }) => return Ending::Failed(Fault::Budget(what)),
        Some(Limit::Budget { part, what, asks: Some(budget) }) => {
            return raise_the_limit(part, &what, &budget);
        }
        None => {}
    }
    match verdict {
        Verdict::Success => Ending::Finished,
        Verdict::Failed { code, detail, retry_at } => Ending::Failed(Fault::Agent { code, detail, retry_at }),
        Verdict::Budget(part) => {
            Ending::Failed(Fault::Budget(format!("the runtime stopped at its own limit of {part}")))
        }
    }
}

/// agora's own question, when a budget is used up.
pub(crate) fn raise_the_limit(part: &str, what: &str, budget: &Budget) -> Ending {
    let asked = BudgetPart::from_word(part).and_then(|part| spent::question(part, budget).ok());
    asked.map_or_else(|| Ending::Failed(Fault::Budget(what.to_owned())), Ending::NeedsInput)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
