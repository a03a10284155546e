//! `cargo xtask test`: set-up, every check and every test, in one command that works on a fresh machine.

use std::path::Path;

use clap::Args;

use crate::{
    checks, console, environment,
    failure::Failure,
    parts::{self, Context, Parts, Provision},
    process::Program,
    stopwatch::Stopwatch,
    workspace,
};

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Tests with larger counts.
    #[arg(long)]
    full: bool,
    /// Installs Debian packages and starts a Docker daemon with `sudo`. Root and CI machines need not ask.
    #[arg(long)]
    provision: bool,
    /// Runs only these tests, with the real parts, and no other check: an expression of nextest's, such as `test(docker)`.
    #[arg(long, value_name = "EXPRESSION")]
    only: Option<String>,
}

/// Gathers the parts, runs all steps up to the first that fails, and ends with the table of parts.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let stopwatch = Stopwatch::start();
    let provision = if options.provision { Provision::Asked } else { Provision::NotAsked };
    let context = Context::new(workspace::root(), provision);

    console::heading("real parts");
    let mut parts = parts::gather(&context)?;
    if options.full {
        parts.variables.push(("AGORA_TEST_FULL", "1".into()));
    }
    let passed = match &options.only {
        Some(expression) => run_tests(&context.root, &parts, &["-E", expression]),
        None => run_steps(&context.root, &parts),
    };
    let stopped = parts.stop();

    console::heading("real parts");
    console::result(&parts.table());
    console::result(&format!("\ntotal time: {}", console::seconds(stopwatch.elapsed())));
    passed.and(stopped).and_then(|()| parts.all_used_in_ci())
}

fn run_steps(root: &Path, parts: &Parts) -> Result<(), Failure> {
    let cargo = |arguments: &[&str]| Program::cargo().args(arguments).directory(root);
    let ci = environment::is_ci();
    // A CI machine tests the versions that were committed; a developer may be about to change them.
    let lock: &[&str] = if ci { &["fetch", "--quiet", "--locked"] } else { &["fetch", "--quiet"] };

    step("fetch", || cargo(lock).run())?;
    step("format", || {
        let hint = "run `cargo fmt --all`";
        cargo(&["fmt", "--all", "--check"]).run().map_err(|failure| failure.hint(hint))
    })?;
    step("clippy", || {
        cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]).run()
    })?;
    run_tests(root, parts, &[])?;
    // nextest does not know the examples in the documentation.
    step("doctests", || {
        cargo(&["test", "--doc", "--workspace", "--all-features"]).envs(&parts.variables).run()
    })?;
    step("documentation", || {
        cargo(&["doc", "--workspace", "--all-features", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings").run()
    })?;
    if let Some(deny) = &parts.deny {
        step("dependencies", || check_dependencies(root, deny))?;
    }
    step("file size", || checks::file_size(root))?;
    step("machine paths", || checks::machine_path(root))
}

fn run_tests(root: &Path, parts: &Parts, which: &[&str]) -> Result<(), Failure> {
    let profile = if environment::is_ci() { "ci" } else { "default" };
    step("tests", || {
        Program::new(&parts.nextest)
            .args(["nextest", "run", "--workspace", "--all-features", "--profile", profile])
            .args(which)
            .directory(root)
            .envs(&parts.variables)
            .run()
    })
}

/// Without advisories: their database is on a host that a sealed CI machine cannot reach.
fn check_dependencies(root: &Path, deny: &Path) -> Result<(), Failure> {
    Program::new(deny)
        // Duplicates are warnings, and many: `cargo deny check bans` shows them to who wants to read them.
        .args([
            "--offline",
            "check",
            "--hide-inclusion-graph",
            "--allow",
            "duplicate",
            "bans",
            "licenses",
            "sources",
        ])
        .directory(root)
        .run()
        .map_err(|failure| failure.hint("`deny.toml` says what is allowed, and why"))
}

fn step(title: &str, run: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    console::heading(title);
    let stopwatch = Stopwatch::start();
    run()?;
    console::finished(title, stopwatch.elapsed());
    Ok(())
}
