//! The host's git, run so that nothing of a repository runs with it: no hooks, no filters, no pager, no editor, no questions.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use crate::program;

/// What every call is told before anything else. What is said here goes before what a repository's own configuration says.
const ALWAYS: [&str; 15] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "core.attributesFile=/dev/null",
    "core.alternateRefsCommand=true",
    // Whoever calls knows that it is a repository, and what it configures is said here, too.
    "safe.bareRepository=all",
    "diff.external=",
    "core.pager=cat",
    "core.editor=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "core.logAllRefUpdates=false",
];

/// What reaches others. Anything else would only fetch what a repository lacks, by whatever program that names.
const REACHING: [&str; 2] = ["fetch", "ls-remote"];

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
pub struct Call {
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
    pub fn call(&self, dir: &Path, name: &str) -> Call {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
        command.env("GIT_ATTR_NOSYSTEM", "1").current_dir(dir);
        if !REACHING.contains(&name) {
            command.env("GIT_ALLOW_PROTOCOL", "");
        }
        for setting in ALWAYS {
            command.args(["-c", setting]);
        }
        Call { command, name: name.to_owned(), input: Vec::new() }
    }

    /// Prepares a call that may compare files with what is kept of them: no filter runs, whoever configured it. Which files have one
    /// may be the word of an agent by now.
    pub(crate) fn call_disarmed(&self, dir: &Path, name: &str) -> Result<Call, GitError> {
        // There may be none, which git calls a failure.
        let (_, names, _) =
            self.call(dir, "config").try_run(["-z", "--name-only", "--get-regexp", "^filter\\."])?;
        let names = String::from_utf8_lossy(&names).into_owned();
        let mut count = 0;
        let mut call = self.call(dir, name);
        for key in names.split('\0').filter(|key| !key.is_empty()) {
            let value = if key.ends_with(".required") { "false" } else { "" };
            call = call.env(&format!("GIT_CONFIG_KEY_{count}"), key);
            call = call.env(&format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        Ok(call.env("GIT_CONFIG_COUNT", count.to_string()))
    }
}

impl Call {
    /// Says something for this call alone that the configuration would else say.
    pub fn set(mut self, setting: impl AsRef<OsStr>) -> Self {
        self.command.arg("-c").arg(setting);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Lets it begin in another directory.
    pub fn within(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Starts it, for a conversation.
    pub(super) fn start<T: AsRef<OsStr>>(
        mut self,
        arguments: impl IntoIterator<Item = T>,
    ) -> Result<(Child, ChildStdin, ChildStdout), GitError> {
        self.command.arg(&self.name).args(arguments);
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().map_err(GitError::Start)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(stdin), Some(stdout)) => Ok((child, stdin, stdout)),
            _ => Err(GitError::Start(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Runs it, and returns what it printed.
    pub fn run<T: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = T>) -> Result<Vec<u8>, GitError> {
        let name = self.name.clone();
        let (code, out, said) = self.try_run(arguments)?;
        if code == Some(0) { Ok(out) } else { Err(GitError::Failed { command: name, said }) }
    }

    /// Runs it, and returns its code, what it printed and what it complained about.
    pub fn try_run<T: AsRef<OsStr>>(
        mut self,
        arguments: impl IntoIterator<Item = T>,
    ) -> Result<(Option<i32>, Vec<u8>, String), GitError> {
        self.command.arg(&self.name).args(arguments);
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
        Ok((output.status.code(), output.stdout, complaint(&output.stderr)))
    }
}

/// Makes one line of what git complains about: it goes into messages that have one.
pub(super) fn complaint(stderr: &[u8]) -> String {
    /// More than that nobody reads.
    const LONGEST: usize = 400;
    let text = String::from_utf8_lossy(stderr);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let plain = lines
        .map(|line| ["fatal: ", "error: "].iter().find_map(|word| line.strip_prefix(word)).unwrap_or(line));
    let whole = plain.collect::<Vec<_>>().join("; ");
    match whole.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &whole[..end]),
        None => whole,
    }
}

/// Returns a line that git printed.
pub(crate) fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::complaint;

    #[test]
    fn a_complaint_is_one_line_and_not_too_long() {
        let said = "fatal: detected dubious ownership in repository at '/x'\nTo add an exception, call:\n\n\tgit config x\n";
        let plain =
            "detected dubious ownership in repository at '/x'; To add an exception, call:; git config x";
        assert_eq!(complaint(said.as_bytes()), plain);
        assert_eq!(complaint("ä".repeat(1000).as_bytes()), format!("{}…", "ä".repeat(400)));
        assert_eq!(complaint(b"\n"), "");
    }
}
