//! A large workspace: how soon an agent can work on it, what that writes, and what a pause with some changes costs.
//!
//! Every byte of it is written, and no two files are alike: nothing that stores holes, or the same bytes once, makes it smaller. It takes
//! twice its size on the disk, because the base is a copy where the file system cannot share bytes.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use super::{Figure, Subject, rounds};
use crate::{console, failure::Failure, stopwatch::Stopwatch};

/// 100,000 files of 52 KiB are 5 GiB.
const DIRECTORIES: usize = 1_000;
const FILES: usize = 100;
const QUICK_DIRECTORIES: usize = 100;
const FILE_BYTES: usize = 52 * 1024;
/// The tree, the copy of it, and a tenth for what every file takes beside its bytes.
const ROOM_PERCENT: u64 = 220;
/// What the user changes before a dispatch, and an agent before a pause.
const CHANGED: usize = 10;
const CHANGED_BY_AGENT: usize = 20;

const WALK: &str = "a stat of each path";

/// Tells when the agent could begin, by its own clock, which is ours.
const NOTHING: &str = "runtime: command\ncommand: [\"/bin/date\", \"+%s%N\"]\n";

/// A second dispatch, and one that pauses and goes on.
pub(super) fn large(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    let directories = if subject.quick { QUICK_DIRECTORIES } else { DIRECTORIES };
    let bytes = (directories * FILES * FILE_BYTES) as u64;
    subject.needs(bytes / 100 * ROOM_PERCENT, "a large workspace and its base")?;
    let home = subject.directory("workspace-home")?;
    let tree = subject.directory("workspace-tree")?;
    let figures = measure(subject, &home, &tree, directories);
    Subject::clear(&tree);
    Subject::clear(&home);
    figures
}

fn measure(subject: &Subject, home: &Path, tree: &Path, directories: usize) -> Result<Vec<Figure>, Failure> {
    console::progress("making the tree");
    make(tree, directories).map_err(|source| Failure::file("fill", tree, &source))?;
    settle(tree)?;
    register(subject, home, "nothing", NOTHING)?;
    let touch = (0..CHANGED_BY_AGENT).map(|number| format!("echo agent >> d{number}/f1; "));
    let script = format!("{}date +%s%N", touch.collect::<String>());
    register(
        subject,
        home,
        "changes",
        &format!("runtime: command\ncommand: [\"/bin/sh\", \"-c\", \"{script}\"]\n"),
    )?;
    let run = |name: &str| -> Result<Run, Failure> {
        let tree = tree.to_string_lossy().into_owned();
        Run::of(subject, home, &["dispatch", "run", "--subagent", name, "--workspace", &tree, "--json"])
    };
    console::progress("the first dispatch, which makes the base");
    let first = run("nothing")?;
    settle(tree)?;
    let mut round = 0;
    let mut written = 0;
    let mut second = || {
        round += 1;
        for number in 0..CHANGED {
            let path = tree.join(format!("d{number}/f0"));
            fs::write(&path, format!("round {round}"))
                .map_err(|source| Failure::file("write", &path, &source))?;
        }
        let run = run("nothing")?;
        written = run.written(home);
        Ok(run.ready)
    };
    let mut walk = || {
        let stopwatch = Stopwatch::start();
        stat_all(tree).map_err(|source| Failure::file("walk", tree, &source))?;
        Ok(stopwatch.elapsed())
    };
    let mut pause = || {
        let paused = run("changes")?;
        let resumed = Run::of(subject, home, &["continue", &paused.thread, "--json"])?;
        Ok(paused.after + resumed.ready)
    };
    let [second, floor, pause] = rounds::medians([&mut second, &mut walk, &mut pause])?;
    let files = directories * FILES;
    let bytes = (files * FILE_BYTES) as u64;
    let share = written as f64 * 100.0 / bytes as f64;
    let what = |text: &str| format!("workspace of {files} files, {} MiB: {text}", bytes >> 20);
    Ok(vec![
        Figure::time(what(&format!("first dispatch ready ({})", first.via)), first.ready, WALK, floor),
        Figure::time(what("second dispatch ready, 10 files changed"), second, WALK, floor).wish("≤ 3 ×"),
        Figure::bytes(what(&format!("written for it, {share:.2} % of it")), written).wish("≤ 1 %"),
        Figure::time(what("pause and resume, 20 files changed"), pause, "the second dispatch, ready", second)
            .wish("≤ 2 ×"),
    ])
}

/// One dispatch, from the start of the command.
struct Run {
    thread: String,
    dispatch: String,
    via: String,
    /// Until the agent ran.
    ready: Duration,
    /// From when the agent ended until everything was put away.
    after: Duration,
}

impl Run {
    fn of(subject: &Subject, home: &Path, words: &[&str]) -> Result<Self, Failure> {
        let start = now();
        let out =
            subject.agora(home).args(words).env("PATH", "/usr/local/bin:/usr/bin:/bin").run_for_stdout()?;
        let end = now();
        let broken = |why: String| Failure::new("a large workspace could not be measured").because(why);
        let result: Value = serde_json::from_str(&out).map_err(|error| broken(error.to_string()))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
        let said: u64 = text(&result["output"]["text"]).parse().map_err(|_| broken(out.clone()))?;
        let at = Duration::from_nanos(said);
        Ok(Self {
            thread: text(&result["threadId"]),
            dispatch: text(&result["dispatchId"]),
            via: text(&result["workspace"]["via"]),
            ready: at.saturating_sub(start),
            after: end.saturating_sub(at),
        })
    }

    /// Returns what the disk holds of the thread's ground and of what the dispatch left.
    fn written(&self, home: &Path) -> u64 {
        used(&home.join("grounds").join(&self.thread)) + used(&home.join("dispatches").join(&self.dispatch))
    }
}

#[expect(clippy::disallowed_methods, reason = "two processes tell the same clock")]
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn register(subject: &Subject, home: &Path, name: &str, definition: &str) -> Result<(), Failure> {
    let path = home.join(format!("{name}.yaml"));
    fs::write(&path, definition).map_err(|source| Failure::file("write", &path, &source))?;
    subject
        .agora(home)
        .args(["subagent", "register", "--name", name, "--from"])
        .arg(&path)
        .run_quietly()
        .map(drop)
}

fn make(tree: &Path, directories: usize) -> std::io::Result<()> {
    let (mut noise, mut bytes) = (Noise(0x9e37_79b9_7f4a_7c15), vec![0; FILE_BYTES]);
    for number in 0..directories {
        let directory = tree.join(format!("d{number}"));
        fs::create_dir_all(&directory)?;
        for file in 0..FILES {
            noise.fill(&mut bytes);
            fs::write(directory.join(format!("f{file}")), &bytes)?;
        }
        if (number + 1) % (directories / 10) == 0 {
            console::progress(&format!("{} of {directories} directories are filled", number + 1));
        }
    }
    Ok(())
}

/// Bytes that no program makes smaller, the same in every run: Marsaglia's xorshift, which takes a second for 5 GiB and is no secret.
struct Noise(u64);

impl Noise {
    fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&self.0.to_le_bytes()[..word.len()]);
        }
    }
}

/// Waits until the disk has what was written: a disk that is still busy with it would slow down what is measured next.
fn settle(tree: &Path) -> Result<(), Failure> {
    console::progress("waiting for the disk");
    let failed = |source: std::io::Error| Failure::file("sync", tree, &source);
    let directory = fs::File::open(tree).map_err(failed)?;
    rustix::fs::syncfs(&directory).map_err(|error| failed(error.into()))
}

fn stat_all(directory: &Path) -> std::io::Result<u64> {
    let mut count = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        count += 1;
        if entry.metadata()?.is_dir() {
            count += stat_all(&entry.path())?;
        }
    }
    Ok(count)
}

fn used(path: &Path) -> u64 {
    let Ok(data) = fs::symlink_metadata(path) else { return 0 };
    let below = fs::read_dir(path).into_iter().flatten().flatten();
    let below: u64 = if data.is_dir() { below.map(|entry| used(&entry.path())).sum() } else { 0 };
    data.blocks() * 512 + below
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{FILE_BYTES, Noise};

    #[test]
    fn no_block_of_the_noise_is_empty_or_comes_twice() {
        let (mut noise, mut bytes) = (Noise(1), vec![0; FILE_BYTES]);
        let mut seen = BTreeSet::new();
        for _ in 0..20 {
            noise.fill(&mut bytes);
            for block in bytes.chunks(512) {
                assert!(seen.insert(block.to_vec()));
            }
        }
        assert!(!seen.contains(&vec![0; 512]));
    }
}
