//! The worker, as it ships: what it adds to an agent's own time, and the memory it takes.

mod files;
mod run;

use std::{path::Path, time::Duration};

use agora_core::wall::Isolation;
use agora_testkit::worker::Dispatch;
use serde_json::json;

use super::{
    Figure, Subject, rounds,
    startup::{SPAWN, SPAWNS},
};
use crate::{console, failure::Failure, process::Program};

pub(super) use files::thousand_files;
pub(super) use run::peak_in;

/// An agent that talks far more than any log keeps.
const LOUD: &str =
    "yes 'The agent thinks aloud, line by line, and does not come to an end.' | head -c 629145600";

/// Files that are in no disk's way, where there are such.
const IN_MEMORY: &str = "/dev/shm";

/// All fourteen steps around an agent that does nothing: without a wall, and behind the one that this machine can build; with its files on
/// the disk, and in memory. All of them take turns, beside one floor.
pub(super) fn steps(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    let disk = subject.directory_of_dispatches("worker-steps")?;
    // Goes away with all that is below it, also when something fails.
    let memory = tempfile::Builder::new().prefix("agora-bench").tempdir_in(IN_MEMORY).ok();
    let memory = memory.as_ref().map_or_else(
        || {
            console::progress(&format!(
                "nothing can be made in `{IN_MEMORY}`: the figures in memory are of the disk"
            ));
            disk.as_path()
        },
        |memory| memory.path(),
    );
    let (mut bare, mut walled) =
        (Around::new(subject, &disk, Isolation::None)?, Around::new(subject, &disk, Isolation::Auto)?);
    let (mut quick_bare, mut quick_walled) =
        (Around::new(subject, memory, Isolation::None)?, Around::new(subject, memory, Isolation::Auto)?);
    let mut nothing = Subject::nothing();
    let [on_disk, on_disk_walled, in_memory, in_memory_walled, floor] = rounds::medians([
        &mut || bare.time(),
        &mut || walled.time(),
        &mut || quick_bare.time(),
        &mut || quick_walled.time(),
        &mut || rounds::mean_of(&mut nothing, SPAWNS),
    ])?;
    let [peak, walled_peak] = rounds::medians([&mut || bare.peak(), &mut || walled.peak()])?;
    let what = |how: &str| format!("worker: all 14 steps, an agent that does nothing, one file laid, {how}");
    Ok(vec![
        Figure::time(what("no wall"), on_disk, SPAWN, floor).wish("≤ 8 ×"),
        Figure::time(what("no wall, files in memory"), in_memory, SPAWN, floor),
        Figure::time(what("behind the wall"), on_disk_walled, SPAWN, floor),
        Figure::time(what("behind the wall, files in memory"), in_memory_walled, SPAWN, floor),
        Figure::memory(what("no wall: peak memory"), peak).wish("≤ 15 MiB"),
        Figure::memory(what("behind the wall: peak memory"), walled_peak),
    ])
}

/// Runs of the worker in one place, behind one kind of wall.
struct Around {
    make: Box<dyn Fn() -> Dispatch>,
    /// Taken away only at the end: ext4 does not like to give out again what was in use a minute ago, and would search.
    ended: Vec<Dispatch>,
}

impl Around {
    fn new(subject: &Subject, directory: &Path, isolation: Isolation) -> Result<Self, Failure> {
        let idle = idle(subject, directory)?;
        let make = Box::new(move || idle().with(|manifest| manifest.wall.isolation = isolation));
        Ok(Self { make, ended: Vec::new() })
    }

    /// Returns the mean of one run.
    fn time(&mut self) -> Result<Duration, Failure> {
        let mut total = Duration::ZERO;
        for _ in 0..SPAWNS {
            let dispatch = (self.make)();
            total += run::time(&dispatch)?;
            self.ended.push(dispatch);
        }
        Ok(total / SPAWNS)
    }

    fn peak(&self) -> Result<u64, Failure> {
        run::peak(&(self.make)())
    }
}

/// An agent that prints 600 MiB: what it takes to read, search and cut it, and to keep none of it in memory.
pub(super) fn loud(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    let (idle, loud) = (idle(subject, &subject.directory("worker-loud")?)?, script(subject, LOUD)?);
    let mut floor = Program::new("/bin/sh").args(["-c", &format!("{LOUD} | cat >/dev/null")]);
    let [measured, floor] = rounds::medians([&mut || run::time(&loud()), &mut || floor.time()])?;
    let [peak, idle] = rounds::medians([&mut || run::peak(&loud()), &mut || run::peak(&idle())])?;
    let what = "worker: an agent that prints 600 MiB";
    Ok(vec![
        Figure::time(what, measured, "the same into `cat >/dev/null`", floor),
        Figure::memory_above(format!("{what}: peak memory above idle"), peak, "idle", idle).wish("≤ 64 MiB"),
    ])
}

pub(super) fn size(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    Ok(vec![super::size_of("the binary `agora-worker`", subject.worker()?)?])
}

/// Makes dispatches for an agent that does nothing. Each is run once.
fn idle(subject: &Subject, directory: &Path) -> Result<impl Fn() -> Dispatch + use<>, Failure> {
    let (worker, directory) = (run::path(subject)?, directory.to_path_buf());
    let agent = || json!({"runtime": "command", "command": ["/bin/true"]});
    Ok(move || {
        Dispatch::below(&directory, &worker, agent()).capability("one-file", &[("README.md", "Hello.\n")])
    })
}

/// Makes dispatches for a script that works beside one laid file.
fn script(subject: &Subject, script: &'static str) -> Result<impl Fn() -> Dispatch, Failure> {
    let worker = run::path(subject)?;
    Ok(move || Dispatch::script(&worker, script).capability("one-file", &[("README.md", "Hello.\n")]))
}
