//! `cargo xtask bench`: figures of the release build, each beside a floor that was measured in the same run.
//!
//! A new benchmark is a function and a line in [`BENCHES`].

mod capability;
mod figure;
mod machine;
mod redaction;
mod register;
mod rounds;
mod startup;

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{Args, builder::PossibleValuesParser};

use crate::{console, failure::Failure, process::Program, stopwatch::Stopwatch, workspace};
use figure::Figure;

/// One benchmark: it prepares what it needs, measures, and leaves nothing behind.
struct Bench {
    name: &'static str,
    run: fn(&Subject) -> Result<Vec<Figure>, Failure>,
}

const BENCHES: [Bench; 6] = [
    Bench { name: "startup", run: startup::help },
    Bench { name: "capability-list", run: capability::list },
    Bench { name: "capability-get", run: capability::get },
    Bench { name: "capability-register", run: register::thousand_files },
    Bench { name: "redaction", run: redaction::four_mebibytes },
    Bench { name: "size", run: size },
];

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The benchmarks to run. All of them when none is named.
    #[arg(value_parser = PossibleValuesParser::new(BENCHES.map(|bench| bench.name)))]
    names: Vec<String>,
}

/// Builds, measures and prints a table for `docs/performance.md`.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    if cfg!(debug_assertions) {
        // The floors are measured in this process: unoptimised, they would flatter us.
        let again = ["run", "--release", "--quiet", "--package", "xtask", "--", "bench"];
        return Program::cargo().args(again).args(&options.names).run();
    }
    let scratch = tempfile::tempdir()
        .map_err(|source| Failure::new("could not make a temporary directory").because(source.to_string()))?;
    let subject = Subject { agora: build()?, scratch: scratch.path().to_path_buf() };
    let mut figures = Vec::new();
    for bench in BENCHES.iter().filter(|bench| is_chosen(bench, &options.names)) {
        console::heading(bench.name);
        let stopwatch = Stopwatch::start();
        figures.extend((bench.run)(&subject)?);
        console::finished(bench.name, stopwatch.elapsed());
    }
    console::result(&format!("\n{}\n\n{}", machine::describe(), figure::render(&figures)));
    Ok(())
}

fn is_chosen(bench: &Bench, names: &[String]) -> bool {
    names.is_empty() || names.iter().any(|name| name == bench.name)
}

/// What is measured, and room to do it in.
struct Subject {
    agora: PathBuf,
    scratch: PathBuf,
}

impl Subject {
    /// Returns `agora` with a home of its own, and nothing else from this machine.
    fn agora(&self, home: &Path) -> Program {
        Program::new(&self.agora).without_environment().env("AGORA_HOME", home).env("HOME", home)
    }

    /// Returns the floor of everything that is a process: one that does nothing.
    fn nothing() -> Program {
        Program::new("/bin/true").without_environment()
    }

    /// Returns a new empty directory.
    fn directory(&self, name: &str) -> Result<PathBuf, Failure> {
        let directory = self.scratch.join(name);
        fs::create_dir_all(&directory).map_err(|source| Failure::file("create", &directory, &source))?;
        Ok(directory)
    }
}

/// Builds `agora` as it ships, and returns where cargo put it: that depends on the target.
fn build() -> Result<PathBuf, Failure> {
    console::heading("cargo build --release --package agora");
    let messages = Program::cargo()
        .args(["build", "--release", "--package", "agora", "--message-format", "json-render-diagnostics"])
        .directory(&workspace::root())
        .run_for_stdout()?;
    executable_in(&messages).ok_or_else(|| {
        Failure::new("cargo did not say where it put `agora`").hint("does the package have a binary?")
    })
}

fn executable_in(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut binaries = messages.filter(|message| message["target"]["name"] == "agora");
    binaries.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

fn size(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    let data =
        fs::metadata(&subject.agora).map_err(|source| Failure::file("look at", &subject.agora, &source))?;
    Ok(vec![Figure::bytes("the binary `agora`", data.len())])
}

#[cfg(test)]
mod tests {
    use super::{PathBuf, executable_in};

    #[test]
    fn the_binary_is_where_cargo_says() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"name":"agora_core"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"agora"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"agora"},"executable":"/t/x86_64/release/agora"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable_in(messages), Some(PathBuf::from("/t/x86_64/release/agora")));
    }
}
