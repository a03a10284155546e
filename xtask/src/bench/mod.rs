//! `cargo xtask bench`: figures of the release build, each beside a floor that was measured in the same run.
//!
//! A new benchmark is a function and a line in [`BENCHES`].

mod capability;
mod dispatch;
mod figure;
mod machine;
mod mcp;
mod pause;
mod redaction;
mod register;
mod rounds;
mod startup;
mod worker;
mod workspace;

use std::{
    cell::OnceCell,
    fs,
    path::{Path, PathBuf},
};

use clap::{Args, builder::PossibleValuesParser};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

use crate::{console, failure::Failure, process::Program, stopwatch::Stopwatch, workspace as tree};
use figure::Figure;

/// One benchmark: it prepares what it needs, measures, and leaves nothing behind.
struct Bench {
    name: &'static str,
    run: fn(&Subject) -> Result<Vec<Figure>, Failure>,
}

const BENCHES: [Bench; 15] = [
    Bench { name: "startup", run: startup::help },
    Bench { name: "capability-list", run: capability::list },
    Bench { name: "capability-get", run: capability::get },
    Bench { name: "capability-register", run: register::thousand_files },
    Bench { name: "redaction", run: redaction::four_mebibytes },
    Bench { name: "worker", run: worker::steps },
    Bench { name: "worker-files", run: worker::thousand_files },
    Bench { name: "worker-output", run: worker::loud },
    Bench { name: "dispatch", run: dispatch::command },
    Bench { name: "dispatch-many", run: dispatch::many },
    Bench { name: "mcp", run: mcp::first_answer },
    Bench { name: "pause", run: pause::answers },
    Bench { name: "workspace", run: workspace::large },
    Bench { name: "size", run: size },
    Bench { name: "worker-size", run: worker::size },
];

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The benchmarks to run. All of them when none is named.
    #[arg(value_parser = PossibleValuesParser::new(BENCHES.map(|bench| bench.name)))]
    names: Vec<String>,
    /// Smaller, where a benchmark takes long.
    #[arg(long)]
    quick: bool,
}

/// Builds, measures and prints a table for `docs/performance.md`.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let scratch = tempfile::tempdir()
        .map_err(|source| Failure::new("could not make a temporary directory").because(source.to_string()))?;
    let agora = build("agora", "release")?;
    let subject = Subject {
        agora,
        worker: OnceCell::new(),
        scratch: scratch.path().to_path_buf(),
        quick: options.quick,
    };
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
    /// Built when it is asked for: linking it takes a minute that most benchmarks need not wait for.
    worker: OnceCell<PathBuf>,
    scratch: PathBuf,
    /// Whether a benchmark that takes long is to be smaller.
    quick: bool,
}

impl Subject {
    /// Returns `agora` with a home of its own, and nothing else from this machine.
    fn agora(&self, home: &Path) -> Program {
        Program::new(&self.agora).without_environment().env("AGORA_HOME", home).env("HOME", home)
    }

    /// Returns where the worker is.
    fn worker(&self) -> Result<&Path, Failure> {
        if let Some(worker) = self.worker.get() {
            return Ok(worker);
        }
        let built = build("agora-worker", "worker")?;
        Ok(self.worker.get_or_init(|| built))
    }

    /// Returns the floor of everything that is a process: one that does nothing.
    fn nothing() -> Program {
        Program::new("/bin/true").without_environment()
    }

    /// Checks that the disk has room for so much, before anything is written to it.
    fn needs(&self, bytes: u64, what_for: &str) -> Result<(), Failure> {
        let about = rustix::fs::statvfs(&self.scratch)
            .map_err(|source| Failure::file("ask for the room on", &self.scratch, &source.into()))?;
        let free = about.f_bavail.saturating_mul(about.f_frsize);
        console::progress(&format!("{what_for} takes {} on the disk for a while", gibibytes(bytes)));
        if free >= bytes {
            return Ok(());
        }
        let why = format!("`{}` has {} free", self.scratch.display(), gibibytes(free));
        Err(Failure::new(format!("{what_for} takes {} on the disk", gibibytes(bytes)))
            .because(why)
            .hint("`TMPDIR` says where it is made, `--quick` makes it smaller"))
    }

    /// Takes a directory away that the next benchmarks would be short of. What stays goes with everything else, at the end.
    fn clear(directory: &Path) {
        let _ = fs::remove_dir_all(directory);
    }

    /// Returns a new empty directory.
    fn directory(&self, name: &str) -> Result<PathBuf, Failure> {
        let directory = self.scratch.join(name);
        fs::create_dir_all(&directory).map_err(|source| Failure::file("create", &directory, &source))?;
        Ok(directory)
    }

    /// Returns a new empty directory for dispatches, which its file system is told about as an engine's is: what is in it is not kept
    /// together.
    fn directory_of_dispatches(&self, name: &str) -> Result<PathBuf, Failure> {
        let directory = self.directory(name)?;
        // Not every file system has a place for that.
        let _ = fs::File::open(&directory).map(|open| {
            ioctl_getflags(&open).and_then(|flags| ioctl_setflags(&open, flags | IFlags::TOPDIR))
        });
        Ok(directory)
    }
}

/// One digit, rounded up: it is about whether something fits.
fn gibibytes(bytes: u64) -> String {
    let tenths = (bytes * 10).div_ceil(1 << 30);
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

/// Builds a binary as it ships, and returns where cargo put it: that depends on the target.
fn build(package: &str, profile: &str) -> Result<PathBuf, Failure> {
    console::heading(&format!("cargo build --profile {profile} --package {package}"));
    let messages = Program::cargo()
        .args(["build", "--profile", profile, "--package", package])
        .args(["--message-format", "json-render-diagnostics"])
        .directory(&tree::root())
        .run_for_stdout()?;
    executable_in(&messages, package).ok_or_else(|| {
        Failure::new(format!("cargo did not say where it put `{package}`"))
            .hint("does the package have a binary?")
    })
}

fn executable_in(messages: &str, name: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut binaries = messages.filter(|message| message["target"]["name"] == name);
    binaries.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

fn size(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    Ok(vec![size_of("the binary `agora`", &subject.agora)?.wish("≤ 25 MB")])
}

fn size_of(what: &str, binary: &Path) -> Result<Figure, Failure> {
    let data = fs::metadata(binary).map_err(|source| Failure::file("look at", binary, &source))?;
    Ok(Figure::bytes(what, data.len()))
}

#[cfg(test)]
mod tests {
    use std::{cell::OnceCell, fs};

    use super::{PathBuf, Subject, executable_in};

    #[test]
    fn what_does_not_fit_is_refused_before_it_is_written() {
        let scratch = tempfile::tempdir().unwrap();
        let subject = Subject {
            agora: PathBuf::new(),
            worker: OnceCell::new(),
            scratch: scratch.path().to_path_buf(),
            quick: false,
        };
        subject.needs(1, "a tree").unwrap();
        let failure = subject.needs(u64::MAX / 16, "a tree").unwrap_err().to_string();
        assert!(failure.starts_with("error: a tree takes 1073741824.0 GiB on the disk"), "{failure}");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_binary_is_where_cargo_says() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"name":"agora_core"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"agora"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"agora"},"executable":"/t/x86_64/release/agora"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable_in(messages, "agora"), Some(PathBuf::from("/t/x86_64/release/agora")));
        assert_eq!(executable_in(messages, "agora_core"), None);
    }
}
