//! `cargo xtask bench`, in a program that has no benchmarks in it: they are in another build of it.

use std::ffi::OsString;

use clap::Args;

use crate::{failure::Failure, process::Program};

/// What the other build understands.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Builds it and runs it: optimised, because the floors are measured in it, too, and would flatter us otherwise.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let again = ["run", "--release", "--quiet", "--package", "xtask", "--features", "bench", "--", "bench"];
    Program::cargo().args(again).args(&options.arguments).run()
}
