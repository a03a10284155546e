//! Entries: events and records as they stand in the ledger, numbered and dated.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::event::Event;
use crate::id::ThreadId;
use crate::name::Namespace;
use crate::record::Record;
use crate::strict::{self, StrictError};
use crate::time::Timestamp;

/// The version of an entry's form.
const VERSION: u32 = 1;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    Event(Event),
    Record(Record),
}

impl Happening {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Event(event) => event.kind(),
            Self::Record(record) => record.kind(),
        }
    }
}

impl From<Event> for Happening {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}

impl From<Record> for Happening {
    fn from(record: Record) -> Self {
        Self::Record(record)
    }
}

/// One thing that happened to a thread, with its place and time. Only the ledger makes one.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Counted from 1 within the thread, without gaps.
    pub seq: u64,
    pub at: Timestamp,
    pub namespace: Namespace,
    pub thread_id: ThreadId,
    pub what: Happening,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEntry {
    version: u32,
    seq: u64,
    at: Timestamp,
    namespace: Namespace,
    thread_id: ThreadId,
    kind: String,
    data: Value,
}

/// Says why bytes are not an entry.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    #[error("the entry has the version {0}; this agora reads {VERSION}")]
    Version(u32),
    #[error("the entry is not JSON: {0}")]
    NotJson(StrictError),
    #[error("the entry is not UTF-8")]
    NotUtf8,
    #[error("the entry is malformed")]
    Malformed(#[source] serde_json::Error),
}

impl Entry {
    /// Writes the entry as one JSON object. What would not read back is refused: once it is recorded, nobody could say what the
    /// thread is.
    pub fn encode(&self) -> Result<Vec<u8>, EntryError> {
        let bytes = serde_json::to_vec(&self.raw()?).map_err(EntryError::Malformed)?;
        Self::decode(&bytes)?;
        Ok(bytes)
    }

    /// Returns the entry as a program gets it.
    pub fn to_value(&self) -> Result<Value, EntryError> {
        serde_json::to_value(self.raw()?).map_err(EntryError::Malformed)
    }

    fn raw(&self) -> Result<RawEntry, EntryError> {
        let tagged = match &self.what {
            Happening::Event(event) => serde_json::to_value(event),
            Happening::Record(record) => serde_json::to_value(record),
        };
        let mut tagged = tagged.map_err(EntryError::Malformed)?;
        Ok(RawEntry {
            version: VERSION,
            seq: self.seq,
            at: self.at,
            namespace: self.namespace.clone(),
            thread_id: self.thread_id.clone(),
            kind: self.what.kind().to_owned(),
            data: tagged["data"].take(),
        })
    }

    /// Reads an entry. `None`: a kind that this agora does not know, which a consumer skips.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, EntryError> {
        let text = str::from_utf8(bytes).map_err(|_| EntryError::NotUtf8)?;
        let value = strict::parse_wrapped(text).map_err(EntryError::NotJson)?;
        let raw: RawEntry = serde_json::from_value(value).map_err(EntryError::Malformed)?;
        if raw.version != VERSION {
            return Err(EntryError::Version(raw.version));
        }
        let tagged = json!({"kind": raw.kind, "data": raw.data});
        let what = if Event::KINDS.contains(&raw.kind.as_str()) {
            serde_json::from_value(tagged).map(Happening::Event)
        } else if Record::KINDS.contains(&raw.kind.as_str()) {
            serde_json::from_value(tagged).map(Happening::Record)
        } else {
            return Ok(None);
        };
        let what = what.map_err(EntryError::Malformed)?;
        Ok(Some(Self { seq: raw.seq, at: raw.at, namespace: raw.namespace, thread_id: raw.thread_id, what }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::Question;

    fn asked(question: Question) -> Entry {
        let what = Event::NeedsInput {
            dispatch_id: "d_1".parse().unwrap(),
            duration_ms: 0,
            question_id: "q_1".parse().unwrap(),
            question,
        };
        let (seq, at) = (3, Timestamp::from_millis(0));
        Entry {
            seq,
            at,
            namespace: Namespace::default(),
            thread_id: "t_1".parse().unwrap(),
            what: what.into(),
        }
    }

    #[test]
    fn the_deepest_question_that_may_be_asked_reads_back() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let file = format!(r#"{{"question":"?","partial_state":{}}}"#, nested(127));
        let by_file = crate::sentinel::parse(file.as_bytes()).unwrap();
        // Its state is wrapped once more, to stand beside the file's name.
        let output = format!(r#"{{"question":"?","stateFile":"a.md","partial_state":{}}}"#, nested(127));
        let by_output = crate::protocol::Awaiting::parse(&output).unwrap().into_question().unwrap();
        for question in [by_file, by_output] {
            let entry = asked(question);
            assert_eq!(Entry::decode(&entry.encode().unwrap()).unwrap(), Some(entry));
        }
    }

    /// A question is known by a hash of its text: a number that reads back as its neighbour makes another question of it.
    #[test]
    fn every_number_reads_back_to_its_last_digit() {
        let numbers: Vec<f64> =
            (0..2000).map(|number| f64::from(number) / 997.0).chain([f64::MIN_POSITIVE, 1e300]).collect();
        let question = json!({"questions": [{"question": "?"}], "partialState": numbers});
        let entry = asked(serde_json::from_value(question).unwrap());
        assert_eq!(Entry::decode(&entry.encode().unwrap()).unwrap(), Some(entry));
    }

    #[test]
    fn what_would_not_read_back_is_not_written() {
        let state = (0..200).fold(json!(1), |inner, _| json!([inner]));
        let question = json!({"questions": [{"question": "?"}], "partialState": state});
        let entry = asked(serde_json::from_value(question).unwrap());
        assert!(matches!(entry.encode(), Err(EntryError::NotJson(StrictError::TooDeep(_)))));
    }

    #[test]
    fn an_entry_is_flat_and_an_unknown_kind_is_skipped() {
        let entry = Entry {
            seq: 7,
            at: Timestamp::from_millis(1_763_233_200_000),
            namespace: Namespace::default(),
            thread_id: "t_1".parse().unwrap(),
            what: Event::Finished { dispatch_id: "d_1".parse().unwrap(), duration_ms: 14 }.into(),
        };
        let text = String::from_utf8(entry.encode().unwrap()).unwrap();
        assert_eq!(
            text,
            r#"{"version":1,"seq":7,"at":"2025-11-15T19:00:00.000Z","namespace":"default","threadId":"t_1","kind":"dispatch.finished","data":{"dispatchId":"d_1","durationMs":14}}"#
        );
        assert_eq!(Entry::decode(text.as_bytes()).unwrap(), Some(entry));
        let newer = text.replace("dispatch.finished", "dispatch.dreamt");
        assert_eq!(Entry::decode(newer.as_bytes()).unwrap(), None);
        assert!(Entry::decode(text.replace("\"version\":1", "\"version\":2").as_bytes()).is_err());
        assert!(Entry::decode(text.replace("durationMs", "duration").as_bytes()).is_err());
    }
}
