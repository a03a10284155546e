//! Entries: events and records as they stand in the ledger, numbered and dated.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::event::Event;
use crate::id::ThreadId;
use crate::name::Namespace;
use crate::record::Record;
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
    #[error("the entry is malformed")]
    Malformed(#[source] serde_json::Error),
}

impl Entry {
    /// Writes the entry as one JSON object.
    pub fn encode(&self) -> Result<Vec<u8>, EntryError> {
        let tagged = match &self.what {
            Happening::Event(event) => serde_json::to_value(event),
            Happening::Record(record) => serde_json::to_value(record),
        };
        let mut tagged = tagged.map_err(EntryError::Malformed)?;
        let raw = RawEntry {
            version: VERSION,
            seq: self.seq,
            at: self.at,
            namespace: self.namespace.clone(),
            thread_id: self.thread_id.clone(),
            kind: self.what.kind().to_owned(),
            data: tagged["data"].take(),
        };
        serde_json::to_vec(&raw).map_err(EntryError::Malformed)
    }

    /// Reads an entry. `None`: a kind that this agora does not know, which a consumer skips.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, EntryError> {
        let raw: RawEntry = serde_json::from_slice(bytes).map_err(EntryError::Malformed)?;
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
