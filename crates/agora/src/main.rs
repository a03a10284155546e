//! The `agora` command: a thin face on the engine.
//!
//! ```text
//!  config    what is read from the environment, once     cli/      one file a command
//!  ui        the only place that prints                  failure   from an error to what a person reads
//!  exit      the exit codes                              doctor/   what this machine can do
//!  mcp/      the server that agents drive agora through
//! ```

mod answer_line;
mod aside;
mod ask;
mod asking;
mod cli;
mod config;
mod diff;
mod dispatch_story;
mod doctor;
mod exit;
mod failure;
mod helpers;
mod interrupt;
mod left_out;
mod mcp;
mod outside;
mod person;
mod plain;
mod progress;
mod table;
mod terminal;
mod thread_story;
mod ui;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(code) = cli::worker::run(&arguments) {
        return code;
    }
    match std::panic::catch_unwind(|| cli::run(arguments)) {
        Ok(exit) => exit.into(),
        // The panic has said what happened; scripts see that it was our fault.
        Err(_) => exit::Exit::Bug.into(),
    }
}
