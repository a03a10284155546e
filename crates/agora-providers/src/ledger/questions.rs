//! Open questions. A page takes as long as its rows do, however many wait.

use agora_core::entry::{Entry, Happening};
use agora_core::event::Event;
use agora_core::provider::ledger::{OpenFilter, OpenQuestion};
use agora_core::record::Record;
use agora_core::{QuestionId, ThreadId};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::fault::Fault;
use super::past::{decode, unless_damaged};
use super::row::{count, limit, malformed, parsed, prepare, signed};

/// Works a new entry in.
pub(super) fn settle(connection: &Connection, place: u64, entry: &Entry) -> Result<(), Fault> {
    let thread = entry.thread_id.as_str();
    let close = |question: &QuestionId| -> Result<(), Fault> {
        let sql = "DELETE FROM questions WHERE thread = ?1 AND question = ?2";
        prepare(connection, sql)?.execute([thread, question.as_str()])?;
        Ok(())
    };
    match &entry.what {
        Happening::Event(Event::NeedsInput { dispatch_id, question_id, .. }) => {
            let sql = "INSERT INTO questions (place, thread, question, dispatch, namespace, open)
                       VALUES (?1, ?2, ?3, ?4, ?5, 0)";
            let (dispatch, namespace) = (dispatch_id.as_str(), entry.namespace.as_str());
            let row = params![signed(place), thread, question_id.as_str(), dispatch, namespace];
            prepare(connection, sql)?.execute(row)?;
            Ok(())
        }
        Happening::Record(Record::QuestionOpened { question_id, .. }) => {
            let sql = "UPDATE questions SET open = 1 WHERE thread = ?1 AND question = ?2";
            prepare(connection, sql)?.execute([thread, question_id.as_str()])?;
            Ok(())
        }
        Happening::Record(
            Record::QuestionAnswered { question_id, .. }
            | Record::QuestionDeclined { question_id, .. }
            | Record::QuestionExpired { question_id, .. }
            | Record::QuestionCancelled { question_id, .. },
        ) => close(question_id),
        Happening::Event(_) | Happening::Record(_) => Ok(()),
    }
}

/// Returns questions that are open, those that wait longest first.
pub(super) fn open(connection: &Connection, filter: &OpenFilter) -> Result<Vec<OpenQuestion>, Fault> {
    let after = after(connection, filter)?;
    let most = limit(filter.most);
    let namespace = filter.namespace.as_ref().map(|name| name.as_str().to_owned());
    let mut bound: Vec<(&str, &dyn ToSql)> = vec![(":after", &after), (":most", &most)];
    let also = match &namespace {
        Some(namespace) => {
            bound.push((":namespace", namespace));
            " AND q.namespace = :namespace"
        }
        None => "",
    };
    let sql = format!(
        "SELECT q.question, q.thread, q.dispatch, d.subagent, d.labels, e.seq, e.body FROM questions q
         CROSS JOIN dispatches d ON d.dispatch = q.dispatch CROSS JOIN entries e ON e.place = q.place
         WHERE q.open = 1 AND q.place > :after{also} ORDER BY q.place LIMIT :most"
    );
    let mut statement = prepare(connection, &sql)?;
    let mut rows = statement.query(&*bound)?;
    let mut open = Vec::new();
    while let Some(row) = rows.next()? {
        open.extend(unless_damaged(question(row))?.flatten());
    }
    Ok(open)
}

/// Returns the place that the page begins after. One after a question that is not open begins with the oldest.
fn after(connection: &Connection, filter: &OpenFilter) -> Result<i64, Fault> {
    let Some((thread, question)) = &filter.after else { return Ok(0) };
    let mut find = prepare(connection, "SELECT place FROM questions WHERE thread = ?1 AND question = ?2")?;
    let place = find.query_row([thread.as_str(), question.as_str()], |row| row.get(0)).optional()?;
    Ok(place.unwrap_or(0))
}

fn question(row: &Row<'_>) -> Result<Option<OpenQuestion>, Fault> {
    let thread_id: ThreadId = parsed(row, 1)?;
    let labels = row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?;
    let body = row.get_ref(6)?.as_blob().map_err(rusqlite::Error::from)?;
    let Some(entry) = decode(&thread_id, count(row, 5)?, body)? else { return Ok(None) };
    let Happening::Event(Event::NeedsInput { question, .. }) = entry.what else { return Ok(None) };
    Ok(Some(OpenQuestion {
        question_id: parsed(row, 0)?,
        dispatch_id: parsed(row, 2)?,
        subagent: parsed(row, 3)?,
        labels: serde_json::from_str(labels).map_err(|error| malformed(4, error))?,
        namespace: entry.namespace,
        asked_at: entry.at,
        question,
        thread_id,
    }))
}
