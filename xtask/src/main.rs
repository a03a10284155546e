//! `cargo xtask`: what a developer or a CI machine runs besides plain cargo.
//!
//! Reading order: [`mod@test`] (set-up and all checks), [`parts`] (the real programs that tests use), [`mod@bench`].
//! The others each hold one thing that clippy forbids everywhere else: printing, processes, time, environment.
#![cfg_attr(not(feature = "bench"), expect(dead_code, reason = "benchmarks use it, in a build of their own"))]

#[cfg(feature = "bench")]
mod bench;
#[cfg(not(feature = "bench"))]
#[path = "bench_elsewhere.rs"]
mod bench;
mod checks;
mod console;
mod environment;
mod failure;
mod parts;
mod process;
mod stopwatch;
mod table;
mod test;
mod version;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

/// Set-up, tests and benchmarks of agora.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
enum Task {
    /// Gets the real parts that tests use, then runs every check and every test.
    Test(test::Options),
    /// Measures the release build beside floors, and prints a Markdown table.
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let done = match Task::parse() {
        Task::Test(options) => test::run(&options),
        Task::Bench(options) => bench::run(&options),
    };
    done.map_or_else(|failure| console::report(&failure), |()| ExitCode::SUCCESS)
}
