//! What is here, what is missing, and how to mend it.
//!
//! Everything is found by trying: a socket is asked, a program is run, a file is made. What the caller read from
//! the environment comes in as [`Surroundings`]; nothing here reads a variable, and no value of a credential is seen.

mod credential;
mod engine;
mod home;
pub(crate) mod notify;
mod ping;
mod program;
mod sandbox;

use std::error::Error;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;
use std::thread::{self, ScopedJoinHandle};

use serde::Serialize;

/// Everything from outside that an examination rests on.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    /// `$AGORA_HOME`, or its default.
    pub(crate) home: PathBuf,
    pub(crate) path: Option<OsString>,
    pub(crate) docker_host: Option<String>,
    /// Only looked into for sockets and programs of known names; never for credentials.
    pub(crate) user_home: Option<PathBuf>,
    pub(crate) xdg_runtime_dir: Option<PathBuf>,
    /// The names of variables that a vendor's program logs in with, and that are set and not empty.
    pub(crate) credential_variables: Vec<&'static str>,
    /// The names of stored credentials, such as `auth/claude/ANTHROPIC_API_KEY`.
    pub(crate) stored_credentials: Vec<String>,
    /// This program, which is started again to probe the sandbox.
    pub(crate) executable: PathBuf,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    pub(crate) topic: &'static str,
    pub(crate) status: Status,
    /// One line.
    pub(crate) detail: String,
    /// What to do about it. More than one line only when it is something to paste.
    pub(crate) fix: Option<String>,
}

/// How it stands with one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Status {
    Ok,
    /// Not there. Whether that matters depends on what is wanted.
    Missing,
    /// There, and not usable.
    Broken,
    /// Usable, with something that is better known.
    Note,
}

impl Finding {
    fn ok(topic: &'static str, detail: impl Into<String>) -> Self {
        Self { topic, status: Status::Ok, detail: detail.into(), fix: None }
    }

    fn bad(topic: &'static str, status: Status, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { topic, status, detail: detail.into(), fix: Some(fix.into()) }
    }
}

/// Looks at everything. Takes as long as the slowest look: about a program's deadline, when one hangs.
pub(crate) fn examine(surroundings: &Surroundings) -> Vec<Finding> {
    thread::scope(|scope| {
        // The slow looks each wait for somebody else, so they wait side by side.
        let sandbox = scope.spawn(|| sandbox::examine(surroundings));
        let engines = scope.spawn(|| engine::examine(surroundings));
        let [claude, codex, git] = [&program::CLAUDE, &program::CODEX, &program::GIT]
            .map(|tool| scope.spawn(|| vec![tool.examine(surroundings)]));
        let home = home::examine(&surroundings.home);
        let (claude, codex) = (joined("claude", claude), joined("codex", codex));
        let credentials = [
            credential::examine(&agora_core::login::CLAUDE, surroundings, Installed::from_findings(&claude)),
            credential::examine(&agora_core::login::CODEX, surroundings, Installed::from_findings(&codex)),
        ];
        let [sandbox, engines, git] = [("sandbox", sandbox), ("docker", engines), ("git", git)]
            .map(|(topic, look)| joined(topic, look));
        [vec![home], sandbox, engines, claude, codex, git].into_iter().chain(credentials).flatten().collect()
    })
}

/// Whether the program that a credential is for was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Installed {
    Yes,
    No,
}

impl Installed {
    fn from_findings(findings: &[Finding]) -> Self {
        let missing = findings.iter().any(|finding| finding.status == Status::Missing);
        if missing { Self::No } else { Self::Yes }
    }
}

/// A look that panicked is a bug, and costs its own finding, not the others.
fn joined(topic: &'static str, look: ScopedJoinHandle<'_, Vec<Finding>>) -> Vec<Finding> {
    look.join().unwrap_or_else(|_| {
        let detail = "looking at it ended in a bug of agora";
        vec![Finding { topic, status: Status::Broken, detail: detail.into(), fix: None }]
    })
}

/// Puts an error and its causes on one line.
fn in_one_line(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(line, ": {error}");
        cause = error.source();
    }
    printable(&line)
}

/// The longest text of somebody else's that is shown.
const LONGEST_QUOTE: usize = 200;

/// Takes the first line of what somebody else wrote, without anything that could steer a terminal.
fn printable(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().chars().filter(|character| !character.is_control()).take(LONGEST_QUOTE).collect()
}

#[cfg(test)]
mod tests;
