//! What stands beside the entries.

use agora_core::entry::Happening;
use agora_core::event::Event;
use agora_core::job::Job;
use agora_core::provider::ledger::{Append, ClaimMark, LedgerError, Paper};
use agora_core::state::Illegal;
use agora_core::{DispatchId, ThreadId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Fault;
use super::row::{moment_if, parsed, prepare};
use super::{glance, queue};

/// Refuses papers that somebody else has filed, or that belong to nothing.
pub(super) fn check(connection: &Connection, append: &Append) -> Result<(), Fault> {
    for paper in &append.papers {
        match paper {
            Paper::Job(job) => {
                let id = &job.dispatch_id;
                if job.thread_id != append.thread_id || !append.what.iter().any(|what| accepts(what, id)) {
                    return Err(LedgerError::Illegal(Illegal::UnknownDispatch).into());
                }
                if prepare(connection, "SELECT 1 FROM papers WHERE dispatch = ?1")?.exists([id.as_str()])? {
                    return Err(LedgerError::DispatchTaken(id.clone()).into());
                }
            }
            Paper::Key { key, .. } => {
                let mut find = prepare(
                    connection,
                    "SELECT dispatch, request FROM keys WHERE namespace = ?1 AND key = ?2",
                )?;
                let taken = find
                    .query_row(params![append.namespace.as_str(), key], |row| {
                        Ok(LedgerError::KeyTaken { dispatch_id: parsed(row, 0)?, request: parsed(row, 1)? })
                    })
                    .optional()?;
                if let Some(taken) = taken {
                    return Err(taken.into());
                }
            }
            // After the key, whatever their order.
            Paper::Allowance(_) | Paper::Claim { .. } | Paper::Report { .. } | Paper::Outgoing { .. } => {}
        }
    }
    for paper in &append.papers {
        if let Paper::Allowance(allowance) = paper {
            glance::allows(connection, allowance)?;
        }
    }
    Ok(())
}

/// Tells whether this accepts that dispatch.
fn accepts(what: &Happening, dispatch: &DispatchId) -> bool {
    matches!(what, Happening::Event(Event::Accepted { dispatch_id, .. }) if dispatch_id == dispatch)
}

pub(super) fn file(connection: &Connection, append: &Append, now: Timestamp) -> Result<(), Fault> {
    let thread = append.thread_id.as_str();
    for paper in &append.papers {
        match paper {
            Paper::Job(job) => {
                let text = job.encode().map_err(Fault::unwritable)?;
                prepare(connection, "INSERT INTO papers (dispatch, thread, job) VALUES (?1, ?2, ?3)")?
                    .execute(params![job.dispatch_id.as_str(), thread, text])?
            }
            Paper::Key { key, request, dispatch_id } => prepare(
                connection,
                "INSERT OR REPLACE INTO keys (namespace, key, dispatch, request) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![
                append.namespace.as_str(),
                key,
                dispatch_id.as_str(),
                request.to_string()
            ])?,
            Paper::Report { dispatch_id, text } => {
                prepare(connection, "UPDATE papers SET report = ?2 WHERE dispatch = ?1")?
                    .execute(params![dispatch_id.as_str(), text])?
            }
            Paper::Outgoing { destination, body } => prepare(
                connection,
                "INSERT INTO outbox (thread, destination, body, tries, due_at) VALUES (?1, ?2, ?3, 0, ?4)",
            )?
            .execute(params![thread, destination, body, now.as_millis()])?,
            // Counted before; and among those who wait by now.
            Paper::Allowance(_) | Paper::Claim { .. } => continue,
        };
    }
    Ok(())
}

/// Takes room for those that are to have it at once. They wait already, like everybody else.
pub(super) fn claim(connection: &Connection, append: &Append) -> Result<(), Fault> {
    for paper in &append.papers {
        if let Paper::Claim { dispatch_id, mark, most } = paper {
            queue::claim(connection, dispatch_id, mark, *most)?;
        }
    }
    Ok(())
}

/// A dispatch's papers as they were filed.
#[derive(Debug)]
pub(super) struct Filed {
    pub(super) job: Job,
    pub(super) claim: Option<ClaimMark>,
    pub(super) report: Option<String>,
}

pub(super) fn read(connection: &Connection, dispatch: &DispatchId) -> Result<Option<Filed>, Fault> {
    let sql = "SELECT job, claim_at, claim_boot, report, thread FROM papers WHERE dispatch = ?1";
    let mut find = prepare(connection, sql)?;
    let mut rows = find.query([dispatch.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let job = Job::decode(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
    let thread: ThreadId = parsed(row, 4)?;
    let job =
        job.map_err(|error| Fault::thread_damaged(&thread, format!("the job of `{dispatch}`: {error}")))?;
    let (at, boot): (_, Option<String>) = (moment_if(row, 1)?, row.get(2)?);
    let claim = at.zip(boot).map(|(at, boot)| ClaimMark { at, boot });
    Ok(Some(Filed { job, claim, report: row.get(3)? }))
}
