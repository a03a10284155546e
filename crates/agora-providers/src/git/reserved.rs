//! A ref that is about to change: nobody else can change it meanwhile, and it is not done until it is said.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout};

use super::GitError;
use super::host::{Call, complaint};

/// A change that git has checked and holds the locks for. Dropped, or when this process dies, it is given up.
#[derive(Debug)]
pub(crate) struct Reserved {
    child: Child,
    /// `None` when everything was said.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Reserved {
    /// Reserves the change of a ref from an old commit to a new one. The call is one of `update-ref`.
    pub(crate) fn take(call: Call, name: &str, new: &str, old: &str, reason: &str) -> Result<Self, GitError> {
        let (child, stdin, stdout) = call.start(["-m", reason, "--stdin"])?;
        let mut reserved = Self { child, stdin: Some(stdin), stdout: BufReader::new(stdout) };
        reserved.say(&format!("start\nupdate {name} {new} {old}\nprepare\n"), "prepare: ok")?;
        Ok(reserved)
    }

    /// Lets it be.
    pub(crate) fn commit(mut self) -> Result<(), GitError> {
        self.say("commit\n", "commit: ok")
    }

    /// Says something, and waits for the answer.
    fn say(&mut self, words: &str, answer: &str) -> Result<(), GitError> {
        // One that does not listen says why.
        let told = self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(words.as_bytes()).is_ok());
        if told && self.stdout.by_ref().lines().map_while(Result::ok).any(|line| line == answer) {
            return Ok(());
        }
        self.stdin = None;
        let mut said = Vec::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_end(&mut said);
        }
        Err(GitError::Failed { command: "update-ref".to_owned(), said: complaint(&said) })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}
