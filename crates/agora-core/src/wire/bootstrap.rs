//! The one line that the worker gets on its standard input: where its manifest is, and what must never be stored.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::hex;
use super::line::EventKey;
use super::manifest::Location;
use super::receipt::ReceiptKey;
use crate::hash::ContentHash;
use crate::secret::{SecretValue, ShortSecrets};

/// What a worker is told before it reads anything else.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bootstrap {
    pub manifest: ManifestAt,
    /// Signs what the worker says. Nothing that the agent can reach holds it.
    pub event_key: EventKey,
    /// Checks who answered. Without one no answer counts.
    #[serde(default)]
    pub receipt_key: Option<ReceiptKey>,
    /// Seals workspace and session, and opens those of earlier dispatches of the thread.
    pub thread_key: ThreadKey,
    /// By name: what an env bundle refers to, or what the dispatch brought itself.
    #[serde(default)]
    pub secrets: BTreeMap<String, Supplied>,
}

/// Where the manifest is, and which one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManifestAt {
    pub location: Location,
    pub hash: ContentHash,
}

/// A secret as the engine had it, or why it had none.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "RawSupplied")]
pub enum Supplied {
    Value(SecretValue),
    /// It does not exist, or may not be read: asking again does not help.
    Missing(String),
    /// Whoever keeps it could not be reached.
    Unreachable(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum RawSupplied {
    Value(String),
    Missing(String),
    Unreachable(String),
}

impl TryFrom<RawSupplied> for Supplied {
    type Error = crate::secret::SecretValueError;

    fn try_from(raw: RawSupplied) -> Result<Self, Self::Error> {
        Ok(match raw {
            // Whoever stored a short one was asked then.
            RawSupplied::Value(value) => Self::Value(SecretValue::new(value, ShortSecrets::Allow)?),
            RawSupplied::Missing(why) => Self::Missing(why),
            RawSupplied::Unreachable(why) => Self::Unreachable(why),
        })
    }
}

/// The key that a thread's workspace and session are sealed with.
#[derive(Clone)]
pub struct ThreadKey(Zeroizing<[u8; 32]>);

impl ThreadKey {
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Hands out the key, to the one place that seals and opens.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for ThreadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ThreadKey(…)")
    }
}

impl<'de> Deserialize<'de> for ThreadKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        let wrong = || serde::de::Error::custom("a thread's key has 64 hex digits");
        hex::decode(&text).map(Self::new).ok_or_else(wrong)
    }
}

impl Bootstrap {
    /// Writes the line. It holds secrets in the clear: it goes into a pipe, and nowhere else.
    pub fn to_line(&self) -> SecretLine {
        let supplied = |supplied: &Supplied| match supplied {
            Supplied::Value(value) => serde_json::json!({"value": value.expose()}),
            Supplied::Missing(why) => serde_json::json!({"missing": why}),
            Supplied::Unreachable(why) => serde_json::json!({"unreachable": why}),
        };
        let secrets: BTreeMap<&String, serde_json::Value> =
            self.secrets.iter().map(|(name, secret)| (name, supplied(secret))).collect();
        let line = serde_json::json!({
            "manifest": self.manifest,
            "eventKey": hex::encode(self.event_key.expose()),
            "receiptKey": self.receipt_key,
            "threadKey": hex::encode(self.thread_key.expose()),
            "secrets": secrets,
        });
        SecretLine(Zeroizing::new(format!("{line}\n")))
    }
}

/// A bootstrap line in the clear.
pub struct SecretLine(Zeroizing<String>);

impl SecretLine {
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretLine(…)")
    }
}

/// Says why bytes are not a bootstrap line. Never quotes them: they hold secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    #[error("the bootstrap line is empty")]
    Empty,
    #[error("the bootstrap line does not end with a line break: it was cut")]
    Cut,
    #[error("the bootstrap line is not what this worker reads (line {line}, column {column})")]
    Malformed { line: usize, column: usize },
}

/// Reads the line.
pub fn parse(bytes: &[u8]) -> Result<Bootstrap, BootstrapError> {
    if bytes.is_empty() {
        return Err(BootstrapError::Empty);
    }
    let line = bytes.strip_suffix(b"\n").ok_or(BootstrapError::Cut)?;
    serde_json::from_slice(line)
        .map_err(|error| BootstrapError::Malformed { line: error.line(), column: error.column() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bootstrap() -> Bootstrap {
        let secret = |text: &str| SecretValue::new(text.to_owned(), ShortSecrets::Allow).unwrap();
        Bootstrap {
            manifest: ManifestAt {
                location: "file:///in/manifest.json".parse().unwrap(),
                hash: ContentHash::of(b"m"),
            },
            event_key: EventKey::new([7; 32]),
            receipt_key: None,
            thread_key: ThreadKey::new([9; 32]),
            secrets: BTreeMap::from([
                ("local:a".to_owned(), Supplied::Value(secret("top \"secret\"\n"))),
                ("cmd:b".to_owned(), Supplied::Missing("no such item".to_owned())),
                ("aws-sm:c".to_owned(), Supplied::Unreachable("timed out".to_owned())),
            ]),
        }
    }

    #[test]
    fn the_line_is_one_line_and_reads_back() {
        let line = bootstrap().to_line();
        assert_eq!(line.expose().matches('\n').count(), 1);
        let read = parse(line.expose().as_bytes()).unwrap();
        assert_eq!(read.manifest, bootstrap().manifest);
        assert_eq!(read.thread_key.expose(), &[9; 32]);
        assert_eq!(read.event_key.expose(), &[7; 32]);
        assert!(
            matches!(&read.secrets["local:a"], Supplied::Value(value) if value.expose() == "top \"secret\"\n")
        );
        assert!(matches!(&read.secrets["cmd:b"], Supplied::Missing(why) if why == "no such item"));
        assert!(matches!(&read.secrets["aws-sm:c"], Supplied::Unreachable(_)));
        assert!(!format!("{read:?}").contains("top"), "nothing secret is printed");
    }

    #[test]
    fn what_is_wrong_is_said_without_quoting() {
        assert_eq!(parse(b"").unwrap_err(), BootstrapError::Empty);
        assert_eq!(parse(b"{}").unwrap_err(), BootstrapError::Cut);
        let wrong = parse(b"{\"eventKey\":\"hunter2-hunter2\"}\n").unwrap_err();
        assert!(!wrong.to_string().contains("hunter2"), "{wrong}");
    }
}
