//! The real outside programs that tests use: which there are, how each one is had, and what became of it.
//!
//! Nothing here is left on the machine by hand. Downloads go into `.parts`; what needs root is installed only where
//! that is expected ([`Privilege`]). A part that cannot be had is skipped with a reason and the way to mend it.

mod cargo_tools;
mod debian;
mod docker;
mod mcp;
mod npm;
mod privilege;
mod pypi;

use std::{
    ffi::OsString,
    panic::resume_unwind,
    path::{Path, PathBuf},
    thread::{self, ScopedJoinHandle},
};

use crate::{console, environment, failure::Failure, stopwatch::Stopwatch, table::Table};

pub(crate) use privilege::{Privilege, Provision};

/// What the parts need to know about this run.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) root: PathBuf,
    /// Where parts are installed: out of git, kept between runs.
    pub(crate) directory: PathBuf,
    pub(crate) privilege: Privilege,
}

impl Context {
    pub(crate) fn new(root: PathBuf, provision: Provision) -> Self {
        Self { directory: root.join(".parts"), privilege: Privilege::of_this_run(provision), root }
    }

    /// Returns a path as it is shown: short when it is inside the project.
    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

/// Where a part comes from, which decides whether its absence fails CI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A public registry: every machine can have it.
    Registry,
    /// The directory `../shared`, which most machines do not have.
    #[cfg_attr(not(test), expect(dead_code, reason = "the Kubernetes part will be the first one"))]
    Shared,
}

/// What became of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Used { version: String, place: String },
    Skipped { why: String },
}

/// Why a part cannot be had, and what to do about it.
#[derive(Debug)]
struct Missing {
    why: String,
    remedy: String,
}

impl Missing {
    fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { why: why.into(), remedy: remedy.into() }
    }

    /// Shows the failure in full now, since the table has only room for one line of it.
    fn after(failure: &Failure, remedy: impl Into<String>) -> Self {
        console::progress(&failure.to_string());
        Self::new(failure.on_one_line(), remedy)
    }
}

/// A part that can be used.
#[derive(Debug)]
struct Found {
    version: String,
    place: String,
    /// How tests find it.
    variable: Option<(&'static str, OsString)>,
}

/// One real part and what became of it.
#[derive(Debug)]
pub(crate) struct Part {
    name: &'static str,
    origin: Origin,
    outcome: Outcome,
}

/// All parts of a run. Dropping it stops what was started.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    list: Vec<Part>,
    /// What tests are told: `AGORA_TEST_…` and where it is.
    pub(crate) variables: Vec<(&'static str, OsString)>,
    /// Runs the tests, so nothing works without it.
    pub(crate) nextest: PathBuf,
    /// Checks licences and sources; the check is skipped without it.
    pub(crate) deny: Option<PathBuf>,
    daemons: Vec<docker::Daemon>,
}

/// How an engine that runs containers is had.
type ProvideEngine = fn(&Context, &debian::Packages) -> Result<docker::Engine, Missing>;

const ENGINES: [(&str, ProvideEngine); 2] =
    [("Docker engine", docker::provide), ("Podman", docker::provide_podman)];

/// How the parts of one registry are had.
type ProvideParts = fn(&Context) -> Vec<(&'static str, Result<Found, Missing>)>;

const REGISTRIES: [(&str, ProvideParts); 3] =
    [("npm packages", npm::provide), ("PyPI packages", pypi::provide), ("MCP clients", mcp::provide)];

/// Gets every part that can be had here.
pub(crate) fn gather(context: &Context) -> Result<Parts, Failure> {
    let mut parts = Parts::default();

    let nextest = timed("cargo-nextest", || cargo_tools::nextest(context));
    let nextest = nextest.map_err(|missing| {
        Failure::new("there is no cargo-nextest to run the tests with")
            .because(missing.why)
            .hint(missing.remedy)
    })?;
    parts.nextest = nextest.program;
    parts.add("cargo-nextest", Origin::Registry, Ok(nextest.found));

    // All at once: one compiles, the others wait for their registries.
    let (deny, packages, fetched) = thread::scope(|scope| {
        let deny = scope.spawn(|| timed("cargo-deny", || cargo_tools::deny(context)));
        let registries =
            REGISTRIES.map(|(name, provide)| scope.spawn(move || timed(name, || provide(context))));
        let packages = timed("Debian packages", || debian::Packages::provide(context));
        (joined(deny), packages, registries.map(joined))
    });
    parts.deny = deny.as_ref().ok().map(|tool| tool.program.clone());
    parts.add("cargo-deny", Origin::Registry, deny.map(|tool| tool.found));
    for (name, found) in fetched.into_iter().flatten() {
        parts.add(name, Origin::Registry, found);
    }

    // On this thread: a daemon is told to end when the thread that started it does.
    for (name, provide) in ENGINES {
        let engine = timed(name, || provide(context, &packages));
        let engine = engine.map(|engine| {
            parts.daemons.extend(engine.daemon);
            engine.found
        });
        parts.add(name, Origin::Registry, engine);
    }
    Ok(parts)
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

fn timed<T>(what: &str, provide: impl FnOnce() -> T) -> T {
    let stopwatch = Stopwatch::start();
    let provided = provide();
    console::progress(&format!("{what}: {}", console::seconds(stopwatch.elapsed())));
    provided
}

impl Parts {
    fn add(&mut self, name: &'static str, origin: Origin, found: Result<Found, Missing>) {
        let outcome = match found {
            Ok(Found { version, place, variable }) => {
                self.variables.extend(variable);
                Outcome::Used { version, place }
            }
            Err(Missing { why, remedy }) => Outcome::Skipped { why: format!("{why}; {remedy}") },
        };
        self.list.push(Part { name, origin, outcome });
    }

    /// Stops what was started, and says so if that was not possible.
    pub(crate) fn stop(&mut self) -> Result<(), Failure> {
        // Each is stopped, also after one that could not be.
        let stopped: Vec<_> = self.daemons.drain(..).map(docker::Daemon::stop).collect();
        stopped.into_iter().collect()
    }

    /// Returns the table that ends a test run.
    pub(crate) fn table(&self) -> String {
        render(&self.list)
    }

    /// Fails on a CI machine when a part was skipped: there, a test that did not run is a test that failed.
    pub(crate) fn all_used_in_ci(&self) -> Result<(), Failure> {
        if environment::is_ci() { none_skipped(&self.list) } else { Ok(()) }
    }
}

fn render(list: &[Part]) -> String {
    let mut table = Table::new(["part", "version", "used, or skipped and why"]);
    for Part { name, outcome, .. } in list {
        table.add(match outcome.clone() {
            Outcome::Used { version, place } => [(*name).into(), version, format!("used: {place}")],
            Outcome::Skipped { why } => [(*name).into(), "-".into(), format!("skipped: {why}")],
        });
    }
    table.render()
}

fn none_skipped(list: &[Part]) -> Result<(), Failure> {
    let skipped =
        |part: &&Part| part.origin == Origin::Registry && matches!(part.outcome, Outcome::Skipped { .. });
    let names: Vec<&str> = list.iter().filter(skipped).map(|part| part.name).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("real parts were skipped: {}", names.join(", ")))
        .because("on a CI machine every part must be there")
        .hint("the table above says how to mend each one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &'static str, origin: Origin, outcome: Outcome) -> Part {
        Part { name, origin, outcome }
    }

    fn skipped() -> Outcome {
        Outcome::Skipped { why: "no network; connect".into() }
    }

    #[test]
    fn the_table_says_what_became_of_each_part() {
        let used = Outcome::Used { version: "1.1.1".into(), place: "/usr/bin/podman".into() };
        let list =
            [part("Podman", Origin::Registry, used), part("Docker engine", Origin::Registry, skipped())];
        assert_eq!(
            render(&list),
            "| part          | version | used, or skipped and why     |\n\
             |---------------|---------|------------------------------|\n\
             | Podman        | 1.1.1   | used: /usr/bin/podman        |\n\
             | Docker engine | -       | skipped: no network; connect |"
        );
    }

    #[test]
    fn ci_forgives_only_what_most_machines_cannot_have() {
        assert!(none_skipped(&[part("kubernetes", Origin::Shared, skipped())]).is_ok());
        let failure = none_skipped(&[part("Podman", Origin::Registry, skipped())]).unwrap_err();
        assert_eq!(failure.on_one_line().split(':').next(), Some("real parts were skipped"));
    }
}
