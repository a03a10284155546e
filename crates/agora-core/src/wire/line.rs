//! Event lines: one JSON object a line, flat, numbered and dated.
//!
//! The `dispatch.*` lines and the report carry an HMAC by a key that only the engine and the worker hold, so that nothing
//! an agent prints or forges passes for one.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::hex;
use super::report::Report;
use crate::canonical::{self, CanonicalError};
use crate::event::Event;
use crate::id::DispatchId;
use crate::path::BundlePath;
use crate::strict::{self, StrictError};
use crate::time::Timestamp;

/// The key that a worker's events are signed with. One per dispatch.
#[derive(Clone)]
pub struct EventKey(Zeroizing<[u8; 32]>);

impl EventKey {
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    pub(super) fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    fn mac(&self, fields: &Map<String, Value>) -> Result<Hmac<Sha256>, CanonicalError> {
        let bytes = canonical::exact_bytes(fields)?;
        // A key of 32 bytes is as long as HMAC-SHA-256 wants at most; the slice door would be the one that can fail.
        let mut mac = Hmac::<Sha256>::new(&padded(&self.0).into());
        mac.update(&bytes);
        Ok(mac)
    }
}

/// The key as a whole block of the hash, which is what HMAC makes of a shorter one.
fn padded(key: &[u8; 32]) -> [u8; 64] {
    let mut block = [0; 64];
    block[..32].copy_from_slice(key);
    block
}

impl fmt::Debug for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventKey(…)")
    }
}

impl<'de> Deserialize<'de> for EventKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        hex::decode(&text)
            .map(Self::new)
            .ok_or_else(|| serde::de::Error::custom("an event key has 64 hex digits"))
    }
}

/// What a program did that the worker ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ran {
    /// The code that the program ended with; 128 and the signal's number when a signal ended it, as shells say it.
    pub exit_code: i32,
    pub duration_ms: u64,
    pub stdout: String,
    pub stderr: String,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// The worker runs.
    Boot {
        dispatch_id: DispatchId,
    },
    /// A capability's file is not there, because of another's.
    OverlayDropped {
        path: BundlePath,
        winner: String,
        loser: String,
    },
    SetupRan(Ran),
    /// The agent ran. `stdout` is its final text.
    AdapterRan(Ran),
    VerifyRan {
        dispatch_id: DispatchId,
        passed: bool,
        duration_ms: u64,
    },
    Event(Event),
    /// Everything that is known of the run beside its events. In a file of its own, not on standard output.
    Report(Box<Report>),
}

/// The lines that are not lifecycle events, as they stand on the wire.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
enum Plain {
    #[serde(rename = "worker.boot")]
    Boot { dispatch_id: DispatchId },
    #[serde(rename = "overlay.dropped")]
    OverlayDropped { path: BundlePath, winner: String, loser: String },
    #[serde(rename = "setup-script.ran")]
    SetupRan(Ran),
    #[serde(rename = "runtime.adapter.ran")]
    AdapterRan(Ran),
    #[serde(rename = "verify.ran")]
    VerifyRan { dispatch_id: DispatchId, passed: bool, duration_ms: u64 },
    #[serde(rename = "worker.report")]
    Report(Box<Report>),
}

/// A line of a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Counted by the worker from 1.
    pub seq: u64,
    pub at: Timestamp,
    pub said: Said,
}

/// Says why a line is not taken.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    #[error("it is not one of the worker's lines")]
    Malformed(#[source] serde_json::Error),
    #[error("it is not a JSON object: {0}")]
    NotJson(StrictError),
    #[error("it is not a JSON object")]
    NotAnObject,
    #[error("the kind `{0}` is not known")]
    UnknownKind(String),
    #[error("it is not signed by the worker")]
    Unsigned,
    #[error("it cannot be written")]
    Canonical(#[source] CanonicalError),
}

impl Said {
    /// Tells whether the line counts for what happens next, and is therefore signed.
    fn is_signed(&self) -> bool {
        match self {
            Self::Event(_) | Self::Report(_) => true,
            Self::Boot { .. }
            | Self::OverlayDropped { .. }
            | Self::SetupRan(_)
            | Self::AdapterRan(_)
            | Self::VerifyRan { .. } => false,
        }
    }

    fn to_fields(&self) -> Result<Map<String, Value>, serde_json::Error> {
        let plain = match self.clone() {
            Self::Boot { dispatch_id } => Plain::Boot { dispatch_id },
            Self::OverlayDropped { path, winner, loser } => Plain::OverlayDropped { path, winner, loser },
            Self::SetupRan(ran) => Plain::SetupRan(ran),
            Self::AdapterRan(ran) => Plain::AdapterRan(ran),
            Self::VerifyRan { dispatch_id, passed, duration_ms } => {
                Plain::VerifyRan { dispatch_id, passed, duration_ms }
            }
            Self::Report(report) => Plain::Report(report),
            Self::Event(event) => return event_fields(&event),
        };
        into_fields(serde_json::to_value(plain)?)
    }

    fn from_fields(mut fields: Map<String, Value>) -> Result<Self, LineError> {
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        if Event::KINDS.contains(&kind.as_str()) {
            fields.remove("kind");
            let event = serde_json::json!({"kind": kind, "data": fields});
            return serde_json::from_value(event).map(Self::Event).map_err(LineError::Malformed);
        }
        const PLAIN: [&str; 6] = [
            "worker.boot",
            "overlay.dropped",
            "setup-script.ran",
            "runtime.adapter.ran",
            "verify.ran",
            "worker.report",
        ];
        if !PLAIN.contains(&kind.as_str()) {
            return Err(LineError::UnknownKind(kind.chars().take(64).collect()));
        }
        let plain: Plain = serde_json::from_value(Value::Object(fields)).map_err(LineError::Malformed)?;
        Ok(match plain {
            Plain::Boot { dispatch_id } => Self::Boot { dispatch_id },
            Plain::OverlayDropped { path, winner, loser } => Self::OverlayDropped { path, winner, loser },
            Plain::SetupRan(ran) => Self::SetupRan(ran),
            Plain::AdapterRan(ran) => Self::AdapterRan(ran),
            Plain::VerifyRan { dispatch_id, passed, duration_ms } => {
                Self::VerifyRan { dispatch_id, passed, duration_ms }
            }
            Plain::Report(report) => Self::Report(report),
        })
    }
}

/// Lays an event out flat: its kind beside its fields.
fn event_fields(event: &Event) -> Result<Map<String, Value>, serde_json::Error> {
    let mut event = into_fields(serde_json::to_value(event)?)?;
    let data = event.remove("data").unwrap_or_default();
    let mut fields = into_fields(data)?;
    fields.extend(event);
    Ok(fields)
}

fn into_fields(value: Value) -> Result<Map<String, Value>, serde_json::Error> {
    match value {
        Value::Object(fields) => Ok(fields),
        other => serde_json::from_value(other),
    }
}

impl Line {
    /// Writes the line, signed where it counts, without its line break.
    pub fn to_text(&self, key: &EventKey) -> Result<String, LineError> {
        let mut fields = self.said.to_fields().map_err(LineError::Malformed)?;
        fields.insert("seq".to_owned(), self.seq.into());
        fields.insert("at".to_owned(), Value::String(self.at.to_string()));
        if self.said.is_signed() {
            let mac = key.mac(&fields).map_err(LineError::Canonical)?.finalize().into_bytes();
            fields.insert("hmac".to_owned(), Value::String(hex::encode(&mac)));
        }
        Ok(Value::Object(fields).to_string())
    }

    /// Reads a line. One that counts is taken only when it is signed with the key.
    pub fn parse(text: &str, key: &EventKey) -> Result<Self, LineError> {
        let value = strict::parse_wrapped(text).map_err(LineError::NotJson)?;
        let Value::Object(mut fields) = value else { return Err(LineError::NotAnObject) };
        let given = match fields.remove("hmac") {
            Some(Value::String(text)) => hex::decode::<32>(&text),
            _ => None,
        };
        let genuine = match given {
            Some(given) => {
                let mac = key.mac(&fields).map_err(LineError::Canonical)?;
                mac.verify_slice(&given).is_ok()
            }
            None => false,
        };
        #[derive(Deserialize)]
        struct Head {
            seq: u64,
            at: Timestamp,
        }
        let head = serde_json::json!({"seq": fields.remove("seq"), "at": fields.remove("at")});
        let head: Head = serde_json::from_value(head).map_err(LineError::Malformed)?;
        let said = Said::from_fields(fields)?;
        if said.is_signed() && !genuine {
            return Err(LineError::Unsigned);
        }
        Ok(Self { seq: head.seq, at: head.at, said })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::question::Question;

    fn key() -> EventKey {
        EventKey::new([1; 32])
    }

    fn line(said: Said) -> Line {
        Line { seq: 3, at: Timestamp::from_millis(1_763_233_200_000), said }
    }

    fn id() -> DispatchId {
        "d_1".parse().unwrap()
    }

    #[test]
    fn the_mac_is_the_well_known_one() {
        // RFC 2104 pads a short key with zeros, so that the block and the key give one code.
        let fields = Map::new();
        let by_slice =
            <Hmac<Sha256> as KeyInit>::new_from_slice(&[1; 32]).unwrap().chain_update(b"{}").finalize();
        assert_eq!(key().mac(&fields).unwrap().finalize().into_bytes(), by_slice.into_bytes());
    }

    #[test]
    fn lines_are_flat_and_read_back() {
        let ran = Ran { exit_code: 0, duration_ms: 17, stdout: "hello\n".to_owned(), stderr: String::new() };
        let question: Question = serde_json::from_value(
            json!({"questions": [{"question": "Which?"}], "partialState": {"at": u64::MAX}}),
        )
        .unwrap();
        let asked = Event::NeedsInput {
            dispatch_id: id(),
            duration_ms: 5,
            question_id: "q_1".parse().unwrap(),
            question,
        };
        let lines = [
            Said::Boot { dispatch_id: id() },
            Said::SetupRan(ran.clone()),
            Said::AdapterRan(ran),
            Said::VerifyRan { dispatch_id: id(), passed: true, duration_ms: 548 },
            Said::OverlayDropped { path: "a".parse().unwrap(), winner: "b".into(), loser: "c".into() },
            Said::Event(Event::Started { dispatch_id: id() }),
            Said::Event(asked),
        ];
        for said in lines {
            let line = line(said);
            let text = line.to_text(&key()).unwrap();
            assert_eq!(Line::parse(&text, &key()).unwrap(), line, "{text}");
        }
        let text = line(Said::Boot { dispatch_id: id() }).to_text(&key()).unwrap();
        let boot =
            json!({"kind": "worker.boot", "dispatchId": "d_1", "seq": 3, "at": "2025-11-15T19:00:00.000Z"});
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), boot);
    }

    #[test]
    fn the_deepest_question_reads_back() {
        let deep =
            format!("{{\"question\":\"?\",\"partial_state\":{}1{}}}", "[".repeat(127), "]".repeat(127));
        let question = crate::sentinel::parse(deep.as_bytes()).unwrap();
        let asked = Event::NeedsInput {
            dispatch_id: id(),
            duration_ms: 0,
            question_id: "q_1".parse().unwrap(),
            question,
        };
        let line = line(Said::Event(asked));
        assert_eq!(Line::parse(&line.to_text(&key()).unwrap(), &key()).unwrap(), line);
    }

    #[test]
    fn an_event_that_the_worker_did_not_sign_does_not_count() {
        let text =
            line(Said::Event(Event::Finished { dispatch_id: id(), duration_ms: 1 })).to_text(&key()).unwrap();
        assert!(Line::parse(&text, &key()).is_ok());
        assert!(matches!(Line::parse(&text, &EventKey::new([2; 32])), Err(LineError::Unsigned)));
        let altered = text.replace("\"durationMs\":1", "\"durationMs\":2");
        assert!(matches!(Line::parse(&altered, &key()), Err(LineError::Unsigned)));
        let mut bare: Map<String, Value> = serde_json::from_str(&text).unwrap();
        bare.remove("hmac");
        assert!(matches!(Line::parse(&Value::Object(bare).to_string(), &key()), Err(LineError::Unsigned)));
    }

    proptest! {
        #[test]
        fn no_text_makes_an_event(text in ".{0,200}") {
            if let Ok(line) = Line::parse(&text, &key()) {
                prop_assert!(!line.said.is_signed());
            }
        }

        #[test]
        fn one_changed_byte_is_noticed(place in 0_usize..200, byte: u8) {
            let text = line(Said::Event(Event::Finished { dispatch_id: id(), duration_ms: 1 })).to_text(&key()).unwrap();
            let mut bytes = text.clone().into_bytes();
            let place = place % bytes.len();
            bytes[place] = byte;
            if let Ok(changed) = String::from_utf8(bytes)
                && let Ok(read) = Line::parse(&changed, &key())
            {
                // Only what means the same may pass, such as a hex digit in the other case.
                prop_assert_eq!(read, Line::parse(&text, &key()).unwrap());
            }
        }
    }
}
