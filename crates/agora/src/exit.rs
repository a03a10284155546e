//! The exit codes. They are documented in `docs/cli.md`, and scripts rely on them.

use std::process::ExitCode;

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    /// The dispatch failed or was cancelled.
    Failed,
    /// The request was wrong.
    Wrong,
    /// Something outside is missing, full or damaged.
    Outside,
    /// A question is open.
    Paused,
    /// Ctrl-C, also when it cancelled cleanly.
    Interrupted,
    /// A bug in agora.
    Bug,
}

impl Exit {
    fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Wrong => 2,
            Self::Outside => 3,
            Self::Paused => 4,
            Self::Bug => 70,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
