//! Lists of dispatches. A page takes as long as its rows do, however many dispatches are recorded.

use agora_core::provider::ledger::{DispatchRow, Filter, StateWord};
use rusqlite::{Connection, OptionalExtension, Row, ToSql};

use super::fault::Fault;
use super::row::{limit, malformed, moment, moment_if, number, parsed, prepare, state};

/// A beginning that fits this many ids is common: the newest of them are found sooner by looking at every dispatch from the
/// newest on. With fewer, they are looked up. Between the two nobody looks at more than a few thousand of a hundred thousand.
const COMMON: usize = if cfg!(test) { 3 } else { 2000 };

const COLUMNS: &str =
    "d.dispatch, d.thread, d.subagent, d.target, d.labels, d.state, d.accepted_at, d.started_at,
  d.ended_at, d.claimed";

pub(super) fn list(connection: &Connection, filter: &Filter) -> Result<Vec<DispatchRow>, Fault> {
    let states = match &filter.states {
        None => StateWord::ALL.to_vec(),
        Some(states) => StateWord::ALL.into_iter().filter(|state| states.contains(state)).collect(),
    };
    if states.is_empty() || filter.most == 0 {
        return Ok(Vec::new());
    }
    let before = before(connection, filter)?;
    let most = limit(filter.most);
    let text = |text: Option<&str>| text.map(str::to_owned);
    let namespace = text(filter.namespace.as_ref().map(|name| name.as_str()));
    let thread = text(filter.thread.as_ref().map(|id| id.as_str()));
    let label = text(filter.label.as_ref().map(|name| name.as_str()));
    // No id has a character after this one.
    let after = filter.prefix.as_ref().map(|prefix| format!("{prefix}\u{10ffff}"));
    let rare = match (&filter.prefix, &after) {
        (Some(prefix), Some(after)) => is_rare(connection, prefix, after)?,
        (_, _) => false,
    };

    let mut bound: Vec<(&str, &dyn ToSql)> = vec![(":before", &before), (":most", &most)];
    let mut also = String::new();
    if let Some(namespace) = &namespace {
        bound.push((":namespace", namespace));
        also.push_str(" AND d.namespace = :namespace");
    }
    if let Some(thread) = &thread {
        bound.push((":thread", thread));
        also.push_str(" AND d.thread = :thread");
    }
    if let Some(label) = &label {
        bound.push((":label", label));
    }
    if let (Some(prefix), Some(after)) = (&filter.prefix, &after) {
        bound.extend([(":prefix", prefix as &dyn ToSql), (":after", after)]);
        also.push_str(
            " AND (+d.dispatch >= :prefix AND +d.dispatch < :after OR +d.thread >= :prefix AND +d.thread < :after)",
        );
    }
    if filter.last {
        also.push_str(
            " AND NOT EXISTS (SELECT 1 FROM dispatches n WHERE n.thread = d.thread AND n.place > d.place)",
        );
    }
    let labelled = "EXISTS (SELECT 1 FROM labels WHERE place = d.place AND label = :label)";
    let numbers: Vec<String> = states.iter().map(|state| number(*state).to_string()).collect();
    let one_of = format!("d.state IN ({})", numbers.join(", "));
    let with_label = if label.is_some() { format!(" AND {labelled}") } else { String::new() };

    // Which index leads. Where a state is part of it, each state is a stream in order, and SQLite merges them.
    let sql = if rare {
        let found = "SELECT place FROM dispatches WHERE dispatch >= :prefix AND dispatch < :after
          UNION SELECT place FROM dispatches WHERE thread >= :prefix AND thread < :after";
        format!(
            "SELECT {COLUMNS}, d.place AS place FROM dispatches d
             WHERE d.place IN ({found}) AND d.place < :before AND +{one_of}{also}{with_label}"
        )
    } else if thread.is_some() {
        format!(
            "SELECT {COLUMNS}, d.place AS place FROM dispatches d WHERE d.place < :before AND +{one_of}{also}{with_label}"
        )
    } else if label.is_some() {
        each(&numbers, |state| {
            format!(
                "SELECT {COLUMNS}, l.place AS place FROM labels l CROSS JOIN dispatches d ON d.place = l.place
                 WHERE l.label = :label AND l.state = {state} AND l.place < :before{also}"
            )
        })
    } else if namespace.is_some() || filter.states.is_some() {
        each(&numbers, |state| {
            format!(
                "SELECT {COLUMNS}, d.place AS place FROM dispatches d WHERE d.state = {state} AND d.place < :before{also}"
            )
        })
    } else {
        format!("SELECT {COLUMNS}, d.place AS place FROM dispatches d WHERE d.place < :before{also}")
    };
    let mut statement = prepare(connection, &format!("{sql} ORDER BY place DESC LIMIT :most"))?;
    Ok(statement.query_map(&*bound, dispatch_row)?.collect::<Result<_, _>>()?)
}

fn each(states: &[String], select: impl Fn(&String) -> String) -> String {
    states.iter().map(select).collect::<Vec<_>>().join(" UNION ALL ")
}

/// Returns the place that the page ends before. One after a dispatch that is not there begins with the newest.
fn before(connection: &Connection, filter: &Filter) -> Result<i64, Fault> {
    let Some(before) = &filter.before else { return Ok(i64::MAX) };
    let mut find = prepare(connection, "SELECT place FROM dispatches WHERE dispatch = ?1")?;
    let place = find.query_row([before.as_str()], |row| row.get(0)).optional()?;
    Ok(place.unwrap_or(i64::MAX))
}

fn is_rare(connection: &Connection, prefix: &str, after: &str) -> Result<bool, Fault> {
    for sql in [
        "SELECT count(*) FROM (SELECT 1 FROM dispatches WHERE dispatch >= ?1 AND dispatch < ?2 LIMIT ?3)",
        "SELECT count(*) FROM (SELECT 1 FROM dispatches WHERE thread >= ?1 AND thread < ?2 LIMIT ?3)",
    ] {
        let most = limit(COMMON);
        let found: i64 =
            prepare(connection, sql)?.query_row(rusqlite::params![prefix, after, most], |row| row.get(0))?;
        if found == most {
            return Ok(false);
        }
    }
    Ok(true)
}

fn dispatch_row(row: &Row<'_>) -> Result<DispatchRow, rusqlite::Error> {
    let labels = row.get_ref(4)?.as_str()?;
    Ok(DispatchRow {
        dispatch_id: parsed(row, 0)?,
        thread_id: parsed(row, 1)?,
        subagent: parsed(row, 2)?,
        target: parsed(row, 3)?,
        labels: serde_json::from_str(labels).map_err(|error| malformed(4, error))?,
        state: state(row, 5)?,
        accepted_at: moment(row, 6)?,
        started_at: moment_if(row, 7)?,
        ended_at: moment_if(row, 8)?,
        claimed: row.get(9)?,
    })
}
