//! Step 14: the one terminal event. Stored first, then said.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use agora_core::event::Event;
use agora_core::id::QuestionId;
use agora_core::reason::FailureCode;
use agora_core::wire::line::Said;

use super::decide::Ending;
use crate::desk::Desk;
use crate::outcome::{self, Stored};
use crate::stopwatch::Stopwatch;
use crate::unnamed::Unnamed;

/// The report's file in the dispatch's `out` directory.
const REPORT: &str = "report.json";

/// Whether the worker itself did its part: 0 for finished and paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Well,
    Otherwise,
}

/// Ends the dispatch. Whoever stored the outcome first has decided; we say what holds.
pub(crate) fn finish(ending: Ending, mut desk: Desk) -> Done {
    let done = match &ending {
        Ending::Finished | Ending::NeedsInput(_) => Done::Well,
        Ending::Failed(_) | Ending::Cancelled(_) => Done::Otherwise,
    };
    let asks = matches!(&ending, Ending::NeedsInput(_));
    let event = event(ending, &mut desk);
    clear(&desk);
    let spare = !asks || desk.report.workspace_saved;
    if let Err(error) = with_room(&mut desk, spare, store_report) {
        desk.warn(format!("the report could not be stored: {error}"));
    }
    let Ok(line) = desk.teller.line(Said::Event(event)) else {
        // Everything in it was made by us and is JSON; there is nothing that could be said instead.
        return Done::Otherwise;
    };
    // A full disk must not swallow the event: then it is said, if not stored.
    let (line, done) = match with_room(&mut desk, spare, |desk| outcome::store(&desk.place.out(), &line)) {
        Ok(Stored::Theirs(theirs)) => (theirs, Done::Otherwise),
        Ok(Stored::Ours) | Err(_) => (line, done),
    };
    desk.teller.say_text(line);
    let Desk { teller, .. } = desk;
    teller.finish();
    done
}

fn event(ending: Ending, desk: &mut Desk) -> Event {
    let dispatch_id = desk.place.dispatch_id.clone();
    let duration_ms = desk.since_started.as_ref().map_or(0, Stopwatch::millis);
    match ending {
        Ending::Finished => Event::Finished { dispatch_id, duration_ms },
        Ending::NeedsInput(question) => {
            let question_id = question_id(&dispatch_id);
            Event::NeedsInput { dispatch_id, duration_ms, question_id, question }
        }
        Ending::Failed(fault) => {
            let mut failure = fault.failure();
            if failure.code == FailureCode::Auth {
                failure.hint = desk.refused.take().or(failure.hint);
            }
            Event::Failed { dispatch_id, duration_ms, failure }
        }
        Ending::Cancelled(kept) => {
            desk.report.kept_question = kept;
            Event::Cancelled { dispatch_id, duration_ms }
        }
    }
}

/// A dispatch asks at most one question, so that the question's id is the dispatch's: told twice, it is the same.
fn question_id(dispatch: &agora_core::DispatchId) -> QuestionId {
    let digits = dispatch.as_str().trim_start_matches("d_");
    let made = format!("q_{digits}").parse();
    made.unwrap_or_else(|_| QuestionId::from_entropy([0; agora_core::id::ENTROPY]))
}

/// Takes away what only this dispatch needed. The workspace stays until the engine has what it wants of it.
fn clear(desk: &Desk) {
    for dir in [desk.place.home(), desk.place.aids(), desk.place.tmp()] {
        // An empty directory tells nothing, and to take it away can cost a disk as much as to store the outcome.
        if !is_empty(&dir) {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

/// Stores something, and again without the workspace when the disk is full: an agent that allocates all of it at once is faster than
/// anybody who looks. What of its work could be kept is kept by now, and the engine clears the rest with the end.
fn with_room<T>(desk: &mut Desk, spare: bool, store: impl Fn(&mut Desk) -> io::Result<T>) -> io::Result<T> {
    let stored = store(desk);
    let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    match &stored {
        Err(error) if spare && full.contains(&error.kind()) => {}
        _ => return stored,
    }
    for dir in [desk.place.work(), desk.place.layers()] {
        // In a container it is a mount: what is in it goes, and it stays.
        let _ = fs::remove_dir_all(dir);
    }
    store(desk)
}

fn is_empty(dir: &Path) -> bool {
    // The agent may have made a link of it.
    fs::symlink_metadata(dir).is_ok_and(|data| data.is_dir())
        && fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

fn store_report(desk: &mut Desk) -> io::Result<()> {
    desk.report.ended_at = desk.clock.now();
    let report = Said::Report(Box::new(desk.report.clone()));
    let line = desk.teller.aside(report).map_err(io::Error::other)?;
    let out = desk.place.out();
    fs::create_dir_all(&out)?;
    // Whole or not at all: half a report is worth nothing, and in the way of another try. Not waited for: the outcome is what must be
    // on the disk, and whoever takes the report in keeps it elsewhere.
    let mut staged = Unnamed::new(&out)?;
    staged.file.write_all(format!("{line}\n").as_bytes())?;
    staged.link(&out.join(REPORT)).map(drop)
}
