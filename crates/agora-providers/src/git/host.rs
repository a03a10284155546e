//! The host's git, run so that nothing of a repository runs with it: no hooks, no filters, no pager, no editor, no questions.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use crate::program;

/// What every call is told before anything else. What is said here goes before what a repository's own configuration says.
const ALWAYS: [&str; 13] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "core.attributesFile=/dev/null",
    "diff.external=",
    "core.pager=cat",
    "core.editor=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "core.logAllRefUpdates=false",
];

/// How much of git's complaint is passed on: hundreds of lines say no more than the first.
const COMPLAINT_LINES: usize = 8;

/// The host's git.
#[derive(Clone, Debug)]
pub struct Git {
    program: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

/// Why git did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git could not be started")]
    Start(#[source] io::Error),
    #[error("`git {command}` failed: {said}")]
    Failed { command: String, said: String },
}

/// One call.
#[derive(Debug)]
pub struct Call<'a> {
    git: &'a Git,
    command: Command,
    name: String,
    input: Vec<u8>,
}

impl Git {
    /// Finds git where the variables say that programs are. `None`: there is none.
    pub fn find(environment: &[(OsString, OsString)]) -> Option<Self> {
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value)?;
        let program = program::on_path(path, "git")?;
        Some(Self { program, environment: environment.to_vec() })
    }

    /// Prepares a call in a directory.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts git")]
    pub fn call(&self, dir: &Path, name: &str) -> Call<'_> {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
        command.env("GIT_ATTR_NOSYSTEM", "1").current_dir(dir);
        for setting in ALWAYS {
            command.args(["-c", setting]);
        }
        Call { git: self, command, name: name.to_owned(), input: Vec::new() }
    }
}

impl Call<'_> {
    /// Says something for this call alone that the configuration would else say.
    pub fn set(mut self, setting: impl AsRef<OsStr>) -> Self {
        self.command.arg("-c").arg(setting);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Runs it, and returns what it printed.
    pub fn run<T: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = T>) -> Result<Vec<u8>, GitError> {
        let name = self.name.clone();
        let (code, out, said) = self.try_run(arguments)?;
        if code == Some(0) {
            Ok(out)
        } else {
            Err(GitError::Failed { command: name, said: beginning(&said) })
        }
    }

    /// Runs it, and returns its code, what it printed and what it complained about.
    pub fn try_run<T: AsRef<OsStr>>(
        mut self,
        arguments: impl IntoIterator<Item = T>,
    ) -> Result<(Option<i32>, Vec<u8>, String), GitError> {
        self.command.arg(&self.name).args(arguments);
        let _ = self.git;
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().map_err(GitError::Start)?;
        let stdin = child.stdin.take();
        let input = std::mem::take(&mut self.input);
        // Beside reading what it prints: both pipes may be full.
        let writer = thread::Builder::new().name("git-input".into()).spawn(move || {
            if let Some(mut stdin) = stdin {
                // One that does not read on says why.
                let _ = stdin.write_all(&input);
            }
        });
        let writer = match writer {
            Ok(writer) => writer,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(GitError::Start(error));
            }
        };
        let output = child.wait_with_output().map_err(GitError::Start)?;
        let _ = writer.join();
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok((output.status.code(), output.stdout, said))
    }
}

/// Returns the first lines of a complaint, and how many more there were.
fn beginning(said: &str) -> String {
    let more = said.lines().count().saturating_sub(COMPLAINT_LINES);
    if more == 0 {
        return said.to_owned();
    }
    let first: Vec<&str> = said.lines().take(COMPLAINT_LINES).collect();
    format!("{}\n… and {more} more lines", first.join("\n"))
}

/// Returns a line that git printed.
pub(crate) fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_complaint_is_cut() {
        assert_eq!(beginning("fatal: one\nhint: two"), "fatal: one\nhint: two");
        let long = "error: cannot lock ref\n".repeat(400);
        let cut = beginning(&long);
        assert!(cut.ends_with("… and 392 more lines") && cut.lines().count() == COMPLAINT_LINES + 1, "{cut}");
    }
}
