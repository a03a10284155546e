//! Who waits at a target, and who may start.

use agora_core::provider::ledger::{CancelWish, Claim, ClaimMark};
use agora_core::{DispatchId, Name, ThreadId};
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Fault;
use super::papers;
use super::row::{count, parsed, prepare, signed};

/// A live dispatch, and what its place in the queue follows from.
struct Live {
    place: i64,
    target: String,
    fresh: i64,
    rank: i64,
    claimed: bool,
}

fn live(connection: &Connection, dispatch: &DispatchId) -> Result<Option<Live>, Fault> {
    let mut find = prepare(
        connection,
        "SELECT place, target, fresh, rank, claimed FROM dispatches WHERE dispatch = ?1 AND state < 2",
    )?;
    let live = find.query_row([dispatch.as_str()], |row| {
        let (place, target) = (row.get(0)?, row.get(1)?);
        Ok(Live { place, target, fresh: row.get(2)?, rank: row.get(3)?, claimed: row.get(4)? })
    });
    Ok(live.optional()?)
}

/// Returns how many more may start at a target.
fn room(connection: &Connection, target: &str, most: u32) -> Result<u64, Fault> {
    let mut claimed = prepare(
        connection,
        "SELECT count(*) FROM dispatches WHERE target = ?1 AND claimed = 1 AND state < 2",
    )?;
    let claimed = claimed.query_row([target], |row| count(row, 0))?;
    Ok(u64::from(most).saturating_sub(claimed))
}

fn ahead(connection: &Connection, live: &Live) -> Result<u64, Fault> {
    let mut ahead = prepare(
        connection,
        "SELECT count(*) FROM dispatches WHERE target = ?1 AND claimed = 0 AND state < 2
           AND (fresh, rank, place) < (?2, ?3, ?4)",
    )?;
    Ok(ahead.query_row(params![live.target, live.fresh, live.rank, live.place], |row| count(row, 0))?)
}

pub(super) fn head(connection: &Connection, target: &Name, most: u32) -> Result<Vec<DispatchId>, Fault> {
    let room = room(connection, target.as_str(), most)?;
    let mut first = prepare(
        connection,
        "SELECT dispatch FROM dispatches WHERE target = ?1 AND claimed = 0 AND state < 2
         ORDER BY fresh, rank, place LIMIT ?2",
    )?;
    let first = first.query_map(params![target.as_str(), signed(room)], |row| parsed(row, 0))?;
    Ok(first.collect::<Result<_, _>>()?)
}

pub(super) fn underway(connection: &Connection, target: &Name) -> Result<Vec<ThreadId>, Fault> {
    let mut claimed = prepare(
        connection,
        "SELECT thread FROM dispatches WHERE target = ?1 AND claimed = 1 AND state < 2 ORDER BY place",
    )?;
    let claimed = claimed.query_map([target.as_str()], |row| parsed(row, 0))?;
    Ok(claimed.collect::<Result<_, _>>()?)
}

pub(super) fn place(connection: &Connection, dispatch: &DispatchId) -> Result<Option<u64>, Fault> {
    match live(connection, dispatch)? {
        Some(live) if !live.claimed => ahead(connection, &live).map(Some),
        Some(_) | None => Ok(None),
    }
}

pub(super) fn claim(
    connection: &Connection,
    dispatch: &DispatchId,
    mark: &ClaimMark,
    most: u32,
) -> Result<Claim, Fault> {
    let Some(live) = live(connection, dispatch)? else { return Ok(Claim::Over) };
    if live.claimed {
        let earlier = papers::read(connection, dispatch)?.and_then(|filed| filed.claim);
        return earlier.map(Claim::Earlier).ok_or_else(|| {
            Fault::damaged(format!("the dispatch `{dispatch}` is claimed, and nobody knows by whom"))
        });
    }
    let ahead = ahead(connection, &live)?;
    if ahead >= room(connection, &live.target, most)? {
        return Ok(Claim::Waits { ahead });
    }
    mark_as(connection, dispatch, mark)?;
    prepare(connection, "UPDATE dispatches SET claimed = 1 WHERE place = ?1")?.execute([live.place])?;
    Ok(Claim::Granted)
}

pub(super) fn reclaim(
    connection: &Connection,
    dispatch: &DispatchId,
    seen: &ClaimMark,
    mark: &ClaimMark,
) -> Result<bool, Fault> {
    if live(connection, dispatch)?.is_none() {
        return Ok(false);
    }
    let there = papers::read(connection, dispatch)?.and_then(|filed| filed.claim);
    if there.as_ref() != Some(seen) {
        return Ok(false);
    }
    mark_as(connection, dispatch, mark)?;
    Ok(true)
}

fn mark_as(connection: &Connection, dispatch: &DispatchId, mark: &ClaimMark) -> Result<(), Fault> {
    prepare(connection, "UPDATE papers SET claim_at = ?2, claim_boot = ?3 WHERE dispatch = ?1")?
        .execute(params![dispatch.as_str(), mark.at.as_millis(), mark.boot])?;
    Ok(())
}

pub(super) fn wish_cancel(
    connection: &Connection,
    thread: &ThreadId,
    wish: &CancelWish,
) -> Result<bool, Fault> {
    let mut find = prepare(connection, "SELECT live FROM threads WHERE thread = ?1")?;
    let live = find.query_row([thread.as_str()], |row| row.get(0)).optional()?.unwrap_or(false);
    if live {
        // The first wish counts.
        let wisher = wish.by.as_ref().and_then(|by| serde_json::to_string(by).ok());
        prepare(connection, "INSERT OR IGNORE INTO wishes (thread, at, wisher) VALUES (?1, ?2, ?3)")?
            .execute(params![thread.as_str(), wish.at.as_millis(), wisher])?;
    }
    Ok(live)
}

pub(super) fn wished(connection: &Connection) -> Result<Vec<ThreadId>, Fault> {
    let mut wishes = prepare(connection, "SELECT thread FROM wishes ORDER BY thread")?;
    let wishes = wishes.query_map([], |row| parsed(row, 0))?;
    Ok(wishes.collect::<Result<_, _>>()?)
}
