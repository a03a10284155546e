//! A large capability: laid, looked at before and after, and compared.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    sync::Arc,
    time::Duration,
};

use agora_core::{
    ContentHash,
    bundle::{Capability, FileEntry, FileMode, Runtime},
    overlay::{Layer, Owner, plan},
    secret::SecretValue,
};
use agora_testkit::worker::Dispatch;
use agora_worker::{
    overlay::{Contents, LaidFile, lay},
    patch::{Baseline, Known, KnownFile},
    redact::Redactor,
};

use super::{
    super::{
        Figure, Subject,
        register::{FILES, content, in_new_directory},
        rounds,
    },
    run, script,
};
use crate::{failure::Failure, stopwatch::Stopwatch};

/// How many of the files the agent changes: the first ones.
const CHANGED: usize = 10;
const AGENT: &str = "for file in file-000?.txt; do echo changed >>$file; done";
/// The same for a workspace with one file.
const LESSER_AGENT: &str = "echo changed >>README.md";

/// A thousand files of 40 KiB: the three parts by themselves, and all that they add to a worker's run.
pub(in super::super) fn thousand_files(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    let large = Large::make(subject)?;
    let worker = run::path(subject)?;
    let texts: Vec<(&str, &str)> =
        large.files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let many = || Dispatch::script(&worker, AGENT).capability("thousand-files", &texts);
    let one = script(subject, LESSER_AGENT)?;
    let [parts, many, one, floor] = rounds::medians([
        &mut || in_new_directory(subject, |directory| large.lay_and_compare(directory)),
        &mut || run::time(&many()),
        &mut || run::time(&one()),
        &mut || in_new_directory(subject, |directory| large.write_once(directory)),
    ])?;
    let write = "write them once";
    Ok(vec![
        Figure::time("overlay, baseline and patch: 1,000 files of 40 KiB, 10 changed", parts, write, floor)
            .wish("≤ 3 ×"),
        Figure::time("worker: all that those files add to a run", many.saturating_sub(one), write, floor),
    ])
}

/// The capability, as a worker has it when it was fetched.
struct Large {
    files: Vec<(String, String)>,
    tree: Capability,
    pack: Arc<File>,
}

impl Large {
    fn make(subject: &Subject) -> Result<Self, Failure> {
        let path = subject.directory("large")?.join("pack");
        let failed = |source| Failure::file("write", &path, &source);
        let (mut pack, mut files, mut entries) =
            (File::create(&path).map_err(failed)?, Vec::new(), Vec::new());
        for number in 0..FILES {
            let (name, bytes) = (format!("file-{number:04}.txt"), content(number));
            pack.write_all(&bytes).map_err(failed)?;
            entries.push(FileEntry {
                path: name.parse().map_err(unusable)?,
                mode: FileMode::Plain,
                size: bytes.len() as u64,
                sha256: ContentHash::of(&bytes),
            });
            files.push((name, String::from_utf8(bytes).map_err(unusable)?));
        }
        let pack = Arc::new(File::open(&path).map_err(failed)?);
        Ok(Self { files, tree: Capability::new(entries).map_err(unusable)?, pack })
    }

    /// Does what a worker does with a capability that was fetched, without what the agent takes.
    fn lay_and_compare(&self, workspace: &Path) -> Result<Duration, Failure> {
        let spool = tempfile::tempfile().map_err(unusable)?;
        let mut patch = tempfile::tempfile().map_err(unusable)?;
        let redactor = Redactor::new(&[] as &[SecretValue]).map_err(unusable)?;
        let before = Stopwatch::start();
        let baseline = self.lay(workspace, spool)?;
        let before = before.elapsed();
        self.change(workspace)?;
        let after = Stopwatch::start();
        let found = baseline.patch(workspace, &redactor, &mut patch).map_err(unusable)?;
        let after = after.elapsed();
        if found.files == CHANGED as u64 { Ok(before + after) } else { Err(unusable("the patch is another")) }
    }

    fn lay(&self, workspace: &Path, spool: File) -> Result<Baseline, Failure> {
        let owner = Owner::Capability("thousand-files".parse().map_err(unusable)?);
        let runtime = Runtime::ClaudeCode;
        let plan = plan(&runtime, &[Layer { owner, tree: &self.tree }]).map_err(unusable)?;
        let laid = lay(workspace, &plan, &[Contents::Pack(Arc::clone(&self.pack))]).map_err(unusable)?;
        let mut known = Known::default();
        for file in &laid.files {
            known.add(file.path.as_str(), known_file(file));
        }
        Baseline::take(workspace, spool, &known).map_err(unusable)
    }

    fn change(&self, workspace: &Path) -> Result<(), Failure> {
        for (name, text) in self.files.iter().take(CHANGED) {
            write(&workspace.join(name), &format!("{text}changed\n"))?;
        }
        Ok(())
    }

    fn write_once(&self, directory: &Path) -> Result<Duration, Failure> {
        let stopwatch = Stopwatch::start();
        for (name, text) in &self.files {
            write(&directory.join(name), text)?;
        }
        Ok(stopwatch.elapsed())
    }
}

fn known_file(file: &LaidFile) -> KnownFile {
    KnownFile {
        pack: Arc::clone(&file.pack),
        offset: file.offset,
        len: file.len,
        sha256: file.sha256.digest(),
        fingerprint: file.fingerprint,
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|source| Failure::file("write", path, &source))
}

fn unusable(error: impl std::fmt::Display) -> Failure {
    Failure::new("the capability could not be measured").because(error.to_string())
}
