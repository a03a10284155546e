//! Why a dispatch failed: four stable reasons, and an open list of codes beneath them. Each has a page in
//! `docs/reasons/`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::serde_as_text;
use crate::time::Timestamp;

/// Which part of a dispatch failed. Closed: programs branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureReason {
    /// A hash did not match, a bundle was malformed, an overlay conflicted.
    IntegrityFailed,
    /// Storage or a secret could not be reached or resolved: an outage is not tampering.
    FetchFailed,
    /// What surrounds the agent failed: environment, adapter, setup, channel, sentinel, the worker itself.
    WorkerFailed,
    /// The agent failed and asked nothing, or hit a limit.
    ProviderFailed,
}

impl FailureReason {
    pub const ALL: [Self; 4] =
        [Self::IntegrityFailed, Self::FetchFailed, Self::WorkerFailed, Self::ProviderFailed];

    /// Returns the reason as it stands in events and results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IntegrityFailed => "integrity-failed",
            Self::FetchFailed => "fetch-failed",
            Self::WorkerFailed => "worker-failed",
            Self::ProviderFailed => "provider-failed",
        }
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether the same request may succeed unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    MaySucceed,
    WillFailAgain,
}

/// Makes the codes from one table, so that text, reason and retry verdict cannot drift apart.
macro_rules! codes {
    ($($variant:ident $text:literal $reason:ident $retry:ident,)*) => {
        /// What exactly happened. Open: a reader keeps a code that it does not know.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum FailureCode {
            $($variant,)*
            /// A code of a newer agora.
            Other(String),
        }

        impl FailureCode {
            /// Every code that this agora gives.
            pub const KNOWN: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the code as it stands in events and results.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(text) => text,
                }
            }

            /// Returns the reason that the code belongs to.
            pub fn reason(&self) -> Option<FailureReason> {
                match self {
                    $(Self::$variant => Some(FailureReason::$reason),)*
                    Self::Other(_) => None,
                }
            }

            /// Tells whether trying again, with nothing changed, makes sense.
            pub fn retry(&self) -> Retry {
                match self {
                    $(Self::$variant => Retry::$retry,)*
                    Self::Other(_) => Retry::WillFailAgain,
                }
            }
        }
    };
}

codes! {
    HashMismatch "hash-mismatch" IntegrityFailed WillFailAgain,
    BundleMalformed "bundle-malformed" IntegrityFailed WillFailAgain,
    OverlayConflict "overlay-conflict" IntegrityFailed WillFailAgain,
    BundleUnreachable "bundle-unreachable" FetchFailed MaySucceed,
    SecretMissing "secret-missing" FetchFailed WillFailAgain,
    SecretUnreachable "secret-unreachable" FetchFailed MaySucceed,
    EnvironmentInvalid "environment-invalid" WorkerFailed WillFailAgain,
    AdapterMissing "adapter-missing" WorkerFailed WillFailAgain,
    SetupFailed "setup-failed" WorkerFailed WillFailAgain,
    WorkspaceFailed "workspace-failed" WorkerFailed MaySucceed,
    ReceiptInvalid "receipt-invalid" WorkerFailed WillFailAgain,
    ChannelMissing "channel-missing" WorkerFailed WillFailAgain,
    WallMissing "wall-missing" WorkerFailed WillFailAgain,
    AgentNotStarted "agent-not-started" WorkerFailed WillFailAgain,
    SentinelMalformed "sentinel-malformed" WorkerFailed WillFailAgain,
    WorkerNotStarted "worker-not-started" WorkerFailed MaySucceed,
    WorkerLost "worker-lost" WorkerFailed MaySucceed,
    ImageMissing "image-missing" WorkerFailed WillFailAgain,
    ComputeUnreachable "compute-unreachable" WorkerFailed MaySucceed,
    QuestionExpired "question-expired" WorkerFailed WillFailAgain,
    QuestionDeclined "question-declined" WorkerFailed WillFailAgain,
    QuestionStale "question-stale" WorkerFailed WillFailAgain,
    AgentExit "agent-exit" ProviderFailed WillFailAgain,
    Auth "auth" ProviderFailed WillFailAgain,
    RateLimited "rate-limited" ProviderFailed MaySucceed,
    ProviderUnavailable "provider-unavailable" ProviderFailed MaySucceed,
    TimeLimit "time-limit" ProviderFailed WillFailAgain,
    Budget "budget" ProviderFailed WillFailAgain,
    OutOfMemory "out-of-memory" ProviderFailed WillFailAgain,
    ProcessLimit "process-limit" ProviderFailed WillFailAgain,
    DiskFull "disk-full" ProviderFailed MaySucceed,
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Says why a text cannot be a code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a failure code has 1 to 64 characters of a-z, 0-9 and `-`")]
pub struct CodeParseError;

impl FromStr for FailureCode {
    type Err = CodeParseError;

    fn from_str(text: &str) -> Result<Self, CodeParseError> {
        if let Some(known) = Self::KNOWN.iter().find(|code| code.as_str() == text) {
            return Ok(known.clone());
        }
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=64).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self::Other(text.to_owned()))
        } else {
            Err(CodeParseError)
        }
    }
}

serde_as_text!(FailureCode);

/// A failure as it stands in an event, a result and a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    pub reason: FailureReason,
    pub code: FailureCode,
    /// What a person reads. Never quotes a file of the agent's or a secret.
    pub detail: String,
    pub retryable: bool,
    /// When a provider said that its limit ends.
    #[serde(default)]
    pub retry_at: Option<Timestamp>,
    #[serde(default)]
    pub hint: Option<String>,
}

impl Failure {
    /// Makes a failure of a known code, with the reason and verdict that belong to it.
    pub fn new(code: FailureCode, detail: impl Into<String>) -> Self {
        Self {
            reason: code.reason().unwrap_or(FailureReason::WorkerFailed),
            retryable: code.retry() == Retry::MaySucceed,
            code,
            detail: detail.into(),
            retry_at: None,
            hint: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_parse_back_and_unknown_ones_are_kept() {
        for code in FailureCode::KNOWN {
            assert_eq!(code.as_str().parse(), Ok(code.clone()));
            assert!(code.reason().is_some());
        }
        assert_eq!("of-tomorrow".parse(), Ok(FailureCode::Other("of-tomorrow".to_owned())));
        assert_eq!("Not A Code".parse::<FailureCode>(), Err(CodeParseError));
    }

    #[test]
    fn every_reason_and_code_has_its_page() {
        let pages = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reasons");
        let names = FailureReason::ALL.iter().map(|reason| reason.as_str());
        let codes = FailureCode::KNOWN.iter().map(FailureCode::as_str);
        let mut expected: Vec<String> = names.chain(codes).map(str::to_owned).collect();
        for name in &expected {
            let text = std::fs::read_to_string(pages.join(format!("{name}.md"))).expect(name);
            assert!(text.starts_with(&format!("# {name}\n")), "the page of {name} begins with its name");
        }
        for code in FailureCode::KNOWN {
            let text = std::fs::read_to_string(pages.join(format!("{code}.md"))).unwrap();
            let reason = format!("Reason: `{}`", code.reason().unwrap());
            assert!(text.contains(&reason), "the page of {code} says {reason}");
            let verdict = format!("`retryable` is `{}`", code.retry() == Retry::MaySucceed);
            assert!(text.contains(&verdict), "the page of {code} says that {verdict}");
        }
        let list = std::fs::read_to_string(pages.join("README.md")).unwrap();
        for reason in FailureReason::ALL {
            let part =
                list.split("\n## ").find(|part| part.starts_with(&format!("[{reason}]"))).expect("its part");
            let rows = part.lines().filter(|line| line.starts_with("| ["));
            let told: Vec<(&str, bool)> = rows
                .filter_map(|row| row.strip_prefix("| [")?.split_once(']'))
                .map(|(code, rest)| {
                    (code, rest.rsplit("| ").next().is_some_and(|told| told.starts_with("yes")))
                })
                .collect();
            let known = FailureCode::KNOWN.iter().filter(|code| code.reason() == Some(reason));
            let known: Vec<(&str, bool)> =
                known.map(|code| (code.as_str(), code.retry() == Retry::MaySucceed)).collect();
            assert_eq!(told, known, "the list of {reason}");
        }
        expected.push("README".to_owned());
        let mut present: Vec<String> = std::fs::read_dir(pages)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        present.sort();
        expected.sort();
        assert_eq!(present, expected, "no page is left over");
    }
}
