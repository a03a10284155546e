//! The tables that are only a cache. What is new in a thread is worked into them with every append; from nothing, all of
//! it can be.

use std::time::Duration;

use agora_core::entry::{Entry, Happening};
use agora_core::event::Event;
use agora_core::job;
use agora_core::provider::ledger::StateWord;
use agora_core::record::Record;
use agora_core::state::{Thread, ThreadState};
use agora_core::{DispatchId, ThreadId, Timestamp};
use rusqlite::{Connection, params};

use super::fault::Fault;
use super::papers;
use super::past::{Past, unless_damaged};
use super::questions;
use super::row::{number, parsed, prepare, signed};

const DAY: Duration = Duration::from_secs(86_400);

/// Works new entries in. `thread` is what they led to, and `seen` how many there are now, also of unknown kinds.
pub(super) fn settle(
    connection: &Connection,
    id: &ThreadId,
    thread: &Thread,
    seen: u64,
    new: &[(u64, Entry)],
) -> Result<(), Fault> {
    if new.is_empty() {
        return Ok(());
    }
    for (place, entry) in new {
        questions::settle(connection, *place, entry)?;
        if let Happening::Event(event) = &entry.what {
            settle_dispatch(connection, *place, entry.at, event)?;
        }
    }
    let live = thread.dispatches().iter().any(|(_, state)| state.is_live());
    let carried = thread.wants_carrier();
    let over = thread.has_ended();
    let failed = matches!(thread.state(), ThreadState::Failed(_));
    let ends = |(_, entry): &&(u64, Entry)| entry.what == Happening::Record(Record::ThreadEnded {});
    let ended_at = new.iter().rev().find(ends).filter(|_| over).map(|(_, entry)| entry.at);
    // The job is looked at in the two cases that need it: most appends do not.
    let job = match thread.dispatches().last() {
        Some((last, _)) if failed || ended_at.is_some() => papers::read(connection, last)?,
        Some(_) | None => None,
    };
    let job = job.map(|filed| filed.job);
    let retry_at = || job.as_ref().and_then(|job| job::retry_at(thread, job));
    let due_at = thread.question_due_at().or_else(retry_at);
    let expires_at = ended_at.zip(job).map(|(at, job)| at.plus(DAY * job.retention_days));
    let millis = |moment: Option<Timestamp>| moment.map(Timestamp::as_millis);
    prepare(
        connection,
        "INSERT INTO threads (thread, seen, live, carried, due_at, ended_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (thread) DO UPDATE SET seen = ?2, live = ?3, carried = ?4, due_at = ?5,
           ended_at = CASE WHEN ?8 THEN COALESCE(?6, ended_at) END,
           expires_at = CASE WHEN ?8 THEN COALESCE(?7, expires_at) END",
    )?
    .execute(params![
        id.as_str(),
        signed(seen),
        live,
        carried,
        millis(due_at),
        millis(ended_at),
        millis(expires_at),
        over
    ])?;
    Ok(())
}

fn settle_dispatch(connection: &Connection, place: u64, at: Timestamp, event: &Event) -> Result<(), Fault> {
    let state = match event {
        Event::Accepted { dispatch_id, .. } => return accept(connection, place, at, dispatch_id),
        Event::Started { .. } => StateWord::Running,
        Event::Finished { .. } => StateWord::Finished,
        Event::NeedsInput { .. } => StateWord::NeedsInput,
        Event::Failed { .. } => StateWord::Failed,
        Event::Cancelled { .. } => StateWord::Cancelled,
    };
    let sql = if state.is_live() {
        "UPDATE dispatches SET state = ?2, started_at = ?3 WHERE dispatch = ?1"
    } else {
        "UPDATE dispatches SET state = ?2, ended_at = ?3 WHERE dispatch = ?1"
    };
    let (id, state) = (event.dispatch_id().as_str(), number(state));
    prepare(connection, sql)?.execute(params![id, state, at.as_millis()])?;
    prepare(
        connection,
        "UPDATE labels SET state = ?2 WHERE place = (SELECT place FROM dispatches WHERE dispatch = ?1)",
    )?
    .execute(params![id, state])?;
    Ok(())
}

fn accept(connection: &Connection, place: u64, at: Timestamp, id: &DispatchId) -> Result<(), Fault> {
    // One without a job cannot be listed, nor started.
    let Some(papers::Filed { job, claim, .. }) = papers::read(connection, id)? else { return Ok(()) };
    let labels = serde_json::to_string(&job.labels).map_err(Fault::unwritable)?;
    let place = signed(place);
    prepare(
        connection,
        "INSERT INTO dispatches (place, dispatch, thread, namespace, subagent, target, labels, state, fresh, rank, claimed,
           accepted_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        place,
        id.as_str(),
        job.thread_id.as_str(),
        job.namespace.as_str(),
        job.resolved.subagent.name.as_str(),
        job.target.as_str(),
        labels,
        number(StateWord::Accepted),
        !job.is_continued(),
        -i64::from(job.priority),
        claim.is_some(),
        at.as_millis()
    ])?;
    let mut label =
        prepare(connection, "INSERT OR IGNORE INTO labels (place, label, state) VALUES (?1, ?2, ?3)")?;
    for name in &job.labels {
        label.execute(params![place, name.as_str(), number(StateWord::Accepted)])?;
    }
    Ok(())
}

/// Makes the cache again from entries and papers.
pub(super) fn rebuild(connection: &Connection) -> Result<(), Fault> {
    connection.execute_batch(
        "DELETE FROM labels; DELETE FROM dispatches; DELETE FROM threads; DELETE FROM questions;",
    )?;
    // Not among the plans that are looked at: this one is to see everything.
    let mut all = connection.prepare("SELECT DISTINCT thread FROM entries ORDER BY thread")?;
    let ids = all.query_map([], |row| parsed::<ThreadId>(row, 0))?.collect::<Result<Vec<_>, _>>()?;
    for id in ids {
        // One that cannot be read stands nowhere; a look at the ledger itself finds it.
        let Some(past) = unless_damaged(Past::read(connection, &id))? else { continue };
        if let Some(thread) = past.thread {
            settle(connection, &id, &thread, past.seen, &past.entries)?;
        }
    }
    Ok(())
}
