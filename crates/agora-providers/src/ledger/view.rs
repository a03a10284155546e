//! Threads and dispatches as they stand, and their entries.

use agora_core::entry::{Entry, Happening};
use agora_core::event::Event;
use agora_core::provider::ledger::{CancelWish, DispatchView, ThreadView};
use agora_core::{DispatchId, Namespace, ThreadId};
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Fault;
use super::papers;
use super::past::{self, Past, decode};
use super::row::{count, moment, parsed, prepare, signed};

pub(super) fn read(
    connection: &Connection,
    thread: &ThreadId,
    seen: u64,
    most: usize,
) -> Result<Vec<Entry>, Fault> {
    let mut statement =
        prepare(connection, "SELECT seq, body FROM entries WHERE thread = ?1 AND seq > ?2 ORDER BY seq")?;
    let mut rows = statement.query(params![thread.as_str(), signed(seen)])?;
    let mut entries = Vec::new();
    while entries.len() < most
        && let Some(row) = rows.next()?
    {
        let body = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        entries.extend(decode(thread, count(row, 0)?, body)?);
    }
    Ok(entries)
}

pub(super) fn read_all(
    connection: &Connection,
    namespace: &Namespace,
    after: u64,
    most: usize,
) -> Result<Vec<(u64, Entry)>, Fault> {
    let mut statement = prepare(
        connection,
        "SELECT place, thread, seq, body FROM entries WHERE namespace = ?1 AND place > ?2 ORDER BY place",
    )?;
    let mut rows = statement.query(params![namespace.as_str(), signed(after)])?;
    let mut entries = Vec::new();
    while entries.len() < most
        && let Some(row) = rows.next()?
    {
        let thread: ThreadId = parsed(row, 1)?;
        let body = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
        let place = count(row, 0)?;
        // Whoever follows all threads is not stopped by one.
        let entry = past::unless_damaged(decode(&thread, count(row, 2)?, body))?.flatten();
        entries.extend(entry.map(|entry| (place, entry)));
    }
    Ok(entries)
}

pub(super) fn end(connection: &Connection) -> Result<u64, Fault> {
    let mut last = prepare(connection, "SELECT coalesce(max(place), 0) FROM entries")?;
    Ok(last.query_row([], |row| count(row, 0))?)
}

pub(super) fn thread(connection: &Connection, id: &ThreadId) -> Result<Option<ThreadView>, Fault> {
    let past = Past::read(connection, id)?;
    let ends = past.entries.first().zip(past.entries.last());
    let (Some(thread), Some(((_, first), (_, last)))) = (past.thread, ends) else { return Ok(None) };
    let mut wish = prepare(connection, "SELECT at, wisher FROM wishes WHERE thread = ?1")?;
    let cancel_wish = wish.query_row([id.as_str()], |row| {
        // Whom nobody can read any more is as one who was not named: the wish holds.
        let by = row.get_ref(1)?.as_str_or_null()?.and_then(|by| serde_json::from_str(by).ok());
        Ok(CancelWish { at: moment(row, 0)?, by })
    });
    let cancel_wish = cancel_wish.optional()?;
    Ok(Some(ThreadView {
        namespace: first.namespace.clone(),
        thread_id: id.clone(),
        seen: past.seen,
        thread,
        began_at: first.at,
        moved_at: last.at,
        cancel_wish,
    }))
}

pub(super) fn dispatch(connection: &Connection, id: &DispatchId) -> Result<Option<DispatchView>, Fault> {
    let Some(papers::Filed { job, claim, report }) = papers::read(connection, id)? else { return Ok(None) };
    let past = Past::read(connection, &job.thread_id)?;
    let known =
        past.thread.as_ref().and_then(|thread| thread.dispatches().iter().find(|(known, _)| known == id));
    let (Some((_, state)), Some((_, first))) = (known, past.entries.first()) else {
        let what = format!("the dispatch `{id}` has papers, but was never accepted");
        return Err(Fault::thread_damaged(&job.thread_id, what));
    };
    let mut view = DispatchView {
        job,
        state: state.clone(),
        accepted_at: first.at,
        started_at: None,
        ended_at: None,
        duration_ms: None,
        claim,
        report,
    };
    for (_, Entry { at, what, .. }) in &past.entries {
        match what {
            Happening::Event(event) if event.dispatch_id() == id => match event {
                Event::Accepted { .. } => view.accepted_at = *at,
                Event::Started { .. } => view.started_at = Some(*at),
                Event::Finished { duration_ms, .. }
                | Event::NeedsInput { duration_ms, .. }
                | Event::Failed { duration_ms, .. }
                | Event::Cancelled { duration_ms, .. } => {
                    (view.ended_at, view.duration_ms) = (Some(*at), Some(*duration_ms));
                }
            },
            Happening::Event(_) | Happening::Record(_) => {}
        }
    }
    Ok(Some(view))
}
