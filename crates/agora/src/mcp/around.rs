//! What the program around the server gives it. So the server knows no command line, and a test can stand around it.

use std::fmt;
use std::path::PathBuf;

use agora_core::ThreadId;
use agora_engine::{Agora, Error};
use serde::Serialize;

/// The program around the server.
pub(crate) trait Around: fmt::Debug + Send + Sync + 'static {
    /// Opens agora. Called once, when something first needs it: a client that only lists tools waits for nothing.
    fn open(&self) -> Result<Agora, Trouble>;

    /// Starts a process that carries threads until each of them rests, whatever becomes of this one.
    fn carry(&self, threads: &[ThreadId]) -> Result<(), Trouble>;

    /// Says what failed as a person would read it, with what to do next.
    fn explain(&self, error: Error) -> Trouble;

    /// Returns whoever sits before the client: `user:ann`.
    fn person(&self) -> String;

    /// Returns the directories that agents may be given to work on.
    fn workspaces(&self) -> Vec<PathBuf>;
}

/// Why a tool did not do what it was asked: a code to branch on, words, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Trouble {
    pub(crate) code: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) hints: Vec<String>,
    /// The line that its user can type, where only a person may do it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) for_your_user: Option<String>,
}

impl Trouble {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), hints: Vec::new(), for_your_user: None }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        if !self.hints.contains(&hint) {
            self.hints.push(hint);
        }
        self
    }

    #[must_use]
    pub(crate) fn for_user(mut self, line: impl Into<String>) -> Self {
        self.for_your_user = Some(line.into());
        self
    }
}
