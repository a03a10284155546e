//! The only place that starts processes.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    path::Path,
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::Duration,
};

use crate::{
    environment,
    failure::Failure,
    stopwatch::{Stopwatch, poll},
};

/// How many lines of a failed program's output are shown: the cause is nearly always at the end.
const SHOWN_LINES: usize = 20;

/// A program to run, and how it is named in an error.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
}

impl Program {
    #[expect(
        clippy::disallowed_methods,
        reason = "this module is the one place of xtask that starts processes"
    )]
    pub(crate) fn new(name: impl AsRef<OsStr>) -> Self {
        Self { command: Command::new(name) }
    }

    /// Returns the cargo that runs us.
    pub(crate) fn cargo() -> Self {
        Self::new(environment::cargo())
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.args(arguments);
        self
    }

    pub(crate) fn env(mut self, variable: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(variable, value);
        self
    }

    pub(crate) fn envs<'a>(self, variables: impl IntoIterator<Item = &'a (&'static str, OsString)>) -> Self {
        variables.into_iter().fold(self, |program, (variable, value)| program.env(variable, value))
    }

    /// Starts with an empty environment, so that a measurement is the same in every shell.
    pub(crate) fn without_environment(mut self) -> Self {
        self.command.env_clear();
        self
    }

    pub(crate) fn directory(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Runs to the end and shows all output.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        let status = self.command.status().map_err(|source| self.not_started(&source))?;
        if status.success() { Ok(()) } else { Err(self.failed(status)) }
    }

    /// Runs to the end, shows stderr, and returns stdout.
    pub(crate) fn run_for_stdout(mut self) -> Result<String, Failure> {
        self.command.stderr(Stdio::inherit());
        self.finish()
    }

    /// Runs to the end and returns stdout. Output is shown only as part of a failure.
    pub(crate) fn run_quietly(mut self) -> Result<String, Failure> {
        self.command.stdin(Stdio::null()).stderr(Stdio::piped());
        self.finish()
    }

    /// Runs once with output thrown away, and returns how long that took.
    pub(crate) fn time(&mut self) -> Result<Duration, Failure> {
        self.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let stopwatch = Stopwatch::start();
        let status = self.command.status().map_err(|source| self.not_started(&source))?;
        let took = stopwatch.elapsed();
        if status.success() { Ok(took) } else { Err(self.failed(status)) }
    }

    /// Starts in the background with all output in a file.
    pub(crate) fn start(mut self, log: File) -> Result<Child, Failure> {
        let copy = log.try_clone().map_err(|source| self.not_started(&source))?;
        self.command.stdin(Stdio::null()).stdout(copy).stderr(log);
        self.command.spawn().map_err(|source| self.not_started(&source))
    }

    /// Starts in the background, to be spoken to.
    pub(crate) fn converse(mut self) -> Result<Child, Failure> {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        self.command.spawn().map_err(|source| self.not_started(&source))
    }

    fn finish(mut self) -> Result<String, Failure> {
        let output = self.command.stdout(Stdio::piped()).spawn().and_then(Child::wait_with_output);
        let Output { status, stdout, stderr } = output.map_err(|source| self.not_started(&source))?;
        let stdout = String::from_utf8_lossy(&stdout).into_owned();
        if status.success() {
            return Ok(stdout);
        }
        let all = format!("{stdout}\n{}", String::from_utf8_lossy(&stderr));
        Err(self.failed(status).because(last_lines(&all)))
    }

    fn not_started(&self, source: &std::io::Error) -> Failure {
        Failure::new(format!("could not start `{}`", self.shown())).because(source.to_string())
    }

    fn failed(&self, status: ExitStatus) -> Failure {
        Failure::new(format!("`{}` failed with {status}", self.shown()))
    }

    fn shown(&self) -> String {
        let name = Path::new(self.command.get_program()).file_name().unwrap_or_default();
        let words = [name].into_iter().chain(self.command.get_args());
        words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
    }
}

/// Waits for a process to end by itself. Returns whether it did within the limit.
pub(crate) fn ends_within(child: &mut Child, limit: Duration) -> bool {
    // A process that cannot be waited for is not there any more.
    poll(limit, || child.try_wait().map_or(Some(()), |status| status.map(|_| ()))).is_some()
}

/// Returns the end of a text, where programs say what went wrong.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::{Program, last_lines};

    #[test]
    fn a_failure_names_the_command_and_shows_what_it_said() {
        let failure =
            Program::new("/bin/sh").args(["-c", "echo broken >&2; exit 3"]).run_quietly().unwrap_err();
        assert_eq!(
            failure.to_string(),
            "error: `sh -c echo broken >&2; exit 3` failed with exit status: 3\n  broken"
        );
    }

    #[test]
    fn only_the_last_lines_are_shown() {
        let text: Vec<String> = (0..50).map(|line| line.to_string()).collect();
        assert!(last_lines(&text.join("\n")).starts_with("30\n"));
    }
}
