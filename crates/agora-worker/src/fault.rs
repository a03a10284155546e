//! Everything that can go wrong, and the one map from it to what the world is told.

use std::io;
use std::path::PathBuf;

use agora_core::bundle::{Budget, ManifestError};
use agora_core::reason::{Failure, FailureCode};
use agora_core::template::RenderError;
use agora_core::time::Timestamp;
use agora_core::wire::manifest::DispatchManifestError;
use agora_core::wire::receipt::ReceiptError;

use crate::child::StartError;
use crate::needs_input::Unreadable;
use crate::overlay::OverlayError;
use crate::patch::PatchError;
use crate::sandbox::wall::WallError;
use crate::snapshot::SnapshotError;

/// Why a dispatch fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("the worker was started for `{expected}`, but its manifest is that of `{found}`")]
    OtherDispatch { expected: String, found: String },
    #[error(transparent)]
    Manifest(DispatchManifestError),
    #[error("the question that was answered cannot be read")]
    Question(#[source] serde_json::Error),
    #[error("an answer was given, but no key to check its receipt with")]
    NoReceiptKey,
    #[error("the answer does not count: {0}")]
    Receipt(ReceiptError),
    #[error(transparent)]
    Fetch(FetchFault),
    #[error("the {kind} `{name}` is not a {kind}")]
    OtherKind { kind: &'static str, name: String },
    #[error("the {kind} `{name}` is malformed")]
    Bundle { kind: &'static str, name: String, source: ManifestError },
    #[error("there is no adapter for the runtime `{runtime}`: {why}")]
    NoAdapter { runtime: String, why: String },
    #[error(transparent)]
    Overlay(OverlayError),
    #[error("the capabilities cannot be laid over each other: {0}")]
    Conflict(agora_core::overlay::Conflict),
    #[error("`{variable}` has no value: the secret `{name}` does not exist or may not be read: {why}")]
    SecretMissing { variable: String, name: String, why: String },
    #[error("`{variable}` has no value: whoever keeps the secret `{name}` could not be reached: {why}")]
    SecretUnreachable { variable: String, name: String, why: String },
    #[error("the prompt cannot be written: {0}")]
    Prompt(RenderError),
    #[error("`{what}` is too large for the runtime: it has {size} bytes, the most is {most}")]
    TooLarge { what: &'static str, size: usize, most: usize },
    #[error("`agora-setup.sh` {0}")]
    Setup(String),
    #[error("the channel program could not be started: {0}")]
    Channel(String),
    #[error("the wall could not be built: {0}")]
    Wall(WallError),
    #[error("the agent was not started: {why}", why = because(.0))]
    NotStarted(StartError),
    #[error("a person took the thread over, and there is no terminal to sit at")]
    NoTerminal,
    #[error("{0}")]
    Sentinel(Unreadable),
    #[error("{what} failed: {source}")]
    Workspace { what: &'static str, source: io::Error },
    #[error("the workspace could not be looked at: {0}")]
    Patch(PatchError),
    #[error("what the thread left could not be put back: {0}")]
    Snapshot(SnapshotError),
    #[error("the agent did not end within its {seconds} seconds")]
    Time { seconds: u64 },
    #[error("the agent, with all that it started, used more memory than its {} MiB", bytes >> 20)]
    Memory { bytes: u64 },
    #[error("the agent ran more than its {most} processes at once")]
    Processes { most: u32 },
    #[error(
        "the agent left so little room on the disk that it was ended before nothing could be recorded any more"
    )]
    Disk,
    #[error("the thread's budget is used up: {0}")]
    Budget(String),
    /// Nothing was left of it before the agent started: it is asked for more instead.
    #[error("the thread's budget is used up: {what}")]
    BudgetSpent { part: &'static str, what: String, budget: Box<Budget> },
    /// What the adapter made of the agent's own failure.
    #[error("{detail}")]
    Agent { code: FailureCode, detail: String, retry_at: Option<Timestamp> },
    /// Not a failure: a cancel came in before the agent ran.
    #[error("the dispatch was cancelled")]
    Cancelled,
}

/// Says the cause with the error: "not found" tells nothing without the program, nor the program without why.
fn because(error: &StartError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Why something was not to be had, or is not what it should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchFault {
    #[error("{what} could not be read from `{path}`: {source}")]
    Unreachable { what: String, path: PathBuf, source: io::Error },
    #[error("the hash of {what} is not the one that was registered")]
    Mismatch { what: String },
    #[error("{what} has more than the {cap} bytes that it may have")]
    TooLarge { what: String, cap: u64 },
}

impl From<FetchFault> for Fault {
    fn from(fault: FetchFault) -> Self {
        Self::Fetch(fault)
    }
}

impl Fault {
    /// The one map from what happened to what we tell the world.
    fn code(&self) -> FailureCode {
        match self {
            Self::OtherDispatch { .. } | Self::Manifest(_) | Self::Question(_) => {
                FailureCode::EnvironmentInvalid
            }
            Self::Prompt(_) | Self::TooLarge { .. } => FailureCode::EnvironmentInvalid,
            Self::NoReceiptKey | Self::Receipt(_) => FailureCode::ReceiptInvalid,
            Self::Fetch(FetchFault::Unreachable { .. }) => FailureCode::BundleUnreachable,
            Self::Fetch(FetchFault::Mismatch { .. }) => FailureCode::HashMismatch,
            Self::Fetch(FetchFault::TooLarge { .. }) => FailureCode::BundleMalformed,
            Self::OtherKind { .. } | Self::Bundle { .. } => FailureCode::BundleMalformed,
            Self::NoAdapter { .. } => FailureCode::AdapterMissing,
            Self::Conflict(_) => FailureCode::OverlayConflict,
            Self::Overlay(overlay) => match overlay {
                OverlayError::Conflict(_) | OverlayError::InTheWay { .. } => FailureCode::OverlayConflict,
                OverlayError::HashMismatch { .. } => FailureCode::HashMismatch,
                OverlayError::Pack { .. } => FailureCode::BundleUnreachable,
                OverlayError::Io { .. } | OverlayError::Root(_) => FailureCode::WorkspaceFailed,
            },
            Self::SecretMissing { .. } => FailureCode::SecretMissing,
            Self::SecretUnreachable { .. } => FailureCode::SecretUnreachable,
            Self::Setup(_) => FailureCode::SetupFailed,
            Self::Channel(_) => FailureCode::ChannelMissing,
            Self::Wall(_) | Self::NotStarted(StartError::Wall { .. }) => FailureCode::WallMissing,
            Self::NotStarted(_) | Self::NoTerminal => FailureCode::AgentNotStarted,
            Self::Sentinel(_) => FailureCode::SentinelMalformed,
            // What is sealed tells so when somebody changed it.
            Self::Snapshot(SnapshotError::Io { source, .. })
                if source.kind() == io::ErrorKind::InvalidData =>
            {
                FailureCode::HashMismatch
            }
            Self::Workspace { .. } | Self::Patch(_) | Self::Snapshot(_) => FailureCode::WorkspaceFailed,
            Self::Time { .. } => FailureCode::TimeLimit,
            Self::Memory { .. } => FailureCode::OutOfMemory,
            Self::Processes { .. } => FailureCode::ProcessLimit,
            Self::Disk => FailureCode::DiskFull,
            Self::Budget(_) | Self::BudgetSpent { .. } => FailureCode::Budget,
            Self::Agent { code, .. } => code.clone(),
            // Never told as a failure; `WorkerLost` is what the engine would say of a worker that said nothing.
            Self::Cancelled => FailureCode::WorkerLost,
        }
    }

    /// Returns what a person reads: the fault and its causes, each once.
    fn detail(&self) -> String {
        let mut detail = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(source) = cause {
            let text = source.to_string();
            if !detail.contains(&text) {
                detail = format!("{detail}: {text}");
            }
            cause = source.source();
        }
        detail
    }

    /// Returns the next thing to try, where it is not the same for every cause.
    fn hint(&self) -> Option<String> {
        match self {
            Self::NotStarted(StartError::Program { program, source })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                let program = program.display();
                Some(if program.to_string().starts_with('/') {
                    format!(
                        "is `{program}` there, and visible behind the wall? `agora explain --sandbox` lists what is; `grant` in your \
                         `agora.toml` adds to it."
                    )
                } else {
                    format!("is `{program}` installed, and in the worker's PATH? `agora doctor` looks.")
                })
            }
            Self::NotStarted(StartError::Program { program, source })
                if program.is_absolute() && source.kind() == io::ErrorKind::PermissionDenied =>
            {
                Some(format!(
                    "may an agent see and run `{}`? `grant` in your `agora.toml` shows it more of your machine.",
                    program.display()
                ))
            }
            Self::Wall(WallError::Closed(_)) => {
                Some("put `$AGORA_HOME` where everybody may go, such as `/var/lib/agora`.".to_owned())
            }
            Self::Wall(_) | Self::NotStarted(StartError::Wall { .. }) => {
                Some("`agora doctor` tries each part of the wall, and says what mends it.".to_owned())
            }
            Self::Agent { code: FailureCode::Auth, .. } => Some(
                "the credential is refused; `agora env register` with another value rotates one of an env bundle, `--secret` gives \
                 another to a dispatch"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    pub(crate) fn failure(&self) -> Failure {
        let retry_at = match self {
            Self::Agent { retry_at, .. } => *retry_at,
            _ => None,
        };
        Failure { retry_at, hint: self.hint(), ..Failure::new(self.code(), self.detail()) }
    }
}

/// Makes a fault of an I/O error in the dispatch's own directories.
pub(crate) fn workspace(what: &'static str) -> impl FnOnce(io::Error) -> Fault {
    move |source| Fault::Workspace { what, source }
}
