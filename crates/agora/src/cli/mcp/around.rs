//! This program, as the server sees it.

use std::path::PathBuf;
use std::process::Child;

use agora_core::ThreadId;
use agora_engine::{Agora, Error};

use crate::aside;
use crate::config::Config;
use crate::failure::Failure;
use crate::mcp::{Around, Trouble};
use crate::person;

use super::hints::{by_tools, for_user};

/// The program around the server.
#[derive(Debug)]
pub(super) struct Program {
    config: Config,
    workspaces: Vec<PathBuf>,
}

impl Program {
    pub(super) fn new(config: Config, named: Vec<PathBuf>) -> Self {
        let workspaces = if named.is_empty() { config.repository().into_iter().collect() } else { named };
        Self { config, workspaces }
    }
}

impl Around for Program {
    fn open(&self) -> Result<Agora, Trouble> {
        self.config.dispatching().map_err(trouble)
    }

    fn carry(&self, threads: &[ThreadId]) -> Result<(), Trouble> {
        let started = aside::carrier(&self.config, threads).map_err(|error| {
            Trouble::new(
                "no-carrier",
                format!("a process that carries the thread could not be started: {error}"),
            )
            .hint("nothing is lost: the next call tries again")
        })?;
        wait_aside(started);
        Ok(())
    }

    fn explain(&self, error: Error) -> Trouble {
        let tools = by_tools(&error);
        let mut failure = Failure::from(error);
        failure.hints = tools.unwrap_or_else(|| failure.hints.into_iter().map(for_user).collect());
        trouble(failure)
    }

    fn person(&self) -> String {
        person::at_the_terminal().principal
    }

    fn workspaces(&self) -> Vec<PathBuf> {
        self.workspaces.clone()
    }
}

/// Waits for a carrier on a thread of its own, which costs a few pages: nobody else does while this process lives, and one that has ended and
/// was not waited for keeps its place among the processes. Where there is no thread to be had, it does, until this process ends.
fn wait_aside(mut carrier: Child) {
    let _ = std::thread::Builder::new().name("carrier".to_owned()).spawn(move || carrier.wait());
}

fn trouble(failure: Failure) -> Trouble {
    let words = failure.in_a_line();
    failure.hints.into_iter().fold(Trouble::new(failure.code, words), Trouble::hint)
}
