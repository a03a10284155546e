//! Registering a large capability: the price of every byte.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use sha2::{Digest as _, Sha256};

use super::{Figure, Subject, capability, rounds};
use crate::{failure::Failure, stopwatch::Stopwatch};

pub(super) const FILES: usize = 1_000;
const FILE_BYTES: usize = 40 * 1024;

/// A thousand files of 40 KiB into an empty registry.
pub(super) fn thousand_files(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    let files = Files::make(subject)?;
    let [measured, floor, sync] = rounds::medians([
        &mut || files.register(subject),
        &mut || files.hash_and_write(subject),
        &mut || files.sync_once(subject),
    ])?;
    let what = "`agora capability register`, 1,000 files of 40 KiB";
    Ok(vec![
        Figure::time(what, measured, "read, hash and write them once", floor),
        Figure::time(what, measured, "the same, and one fsync of 40 MiB", floor + sync),
    ])
}

/// The capability, on disk and in the page cache.
struct Files {
    directory: PathBuf,
    names: Vec<String>,
}

impl Files {
    fn make(subject: &Subject) -> Result<Self, Failure> {
        let directory = subject.directory("thousand-files")?;
        let names: Vec<String> = (0..FILES).map(|number| format!("file-{number:04}.txt")).collect();
        for (number, name) in names.iter().enumerate() {
            write(&directory.join(name), &content(number))?;
        }
        Ok(Self { directory, names })
    }

    fn register(&self, subject: &Subject) -> Result<Duration, Failure> {
        in_new_directory(subject, |home| {
            let stopwatch = Stopwatch::start();
            capability::register(subject, home, "thousand-files", &self.directory)?;
            Ok(stopwatch.elapsed())
        })
    }

    /// The least that has to be done: every byte read, hashed and stored.
    fn hash_and_write(&self, subject: &Subject) -> Result<Duration, Failure> {
        in_new_directory(subject, |directory| {
            let stopwatch = Stopwatch::start();
            for name in &self.names {
                let source = self.directory.join(name);
                let bytes = fs::read(&source).map_err(|error| Failure::file("read", &source, &error))?;
                std::hint::black_box(Sha256::digest(&bytes));
                write(&directory.join(name), &bytes)?;
            }
            Ok(stopwatch.elapsed())
        })
    }

    /// The least that makes it durable: one file of the same size.
    fn sync_once(&self, subject: &Subject) -> Result<Duration, Failure> {
        in_new_directory(subject, |directory| {
            let path = directory.join("all");
            let failed = |source| Failure::file("write", &path, &source);
            let mut file = File::create(&path).map_err(failed)?;
            for number in 0..self.names.len() {
                file.write_all(&content(number)).map_err(failed)?;
            }
            let stopwatch = Stopwatch::start();
            file.sync_all().map_err(failed)?;
            Ok(stopwatch.elapsed())
        })
    }
}

/// Measures in a directory that is removed afterwards: only the first registration has to store anything.
pub(super) fn in_new_directory(
    subject: &Subject,
    measure: impl FnOnce(&Path) -> Result<Duration, Failure>,
) -> Result<Duration, Failure> {
    let directory = tempfile::tempdir_in(&subject.scratch)
        .map_err(|source| Failure::file("make a directory in", &subject.scratch, &source))?;
    measure(directory.path())
}

/// Returns text that is different for each file, as nothing may be stored once for two files.
pub(super) fn content(number: usize) -> Vec<u8> {
    let line = format!("This is file {number} of a capability, and it is text.\n");
    line.bytes().cycle().take(FILE_BYTES).collect()
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(path, bytes).map_err(|source| Failure::file("write", path, &source))
}
