//! The worker, as it ships: what it adds to an agent's own time, and the memory it takes.

mod files;
mod run;

use std::time::Duration;

use agora_core::wall::Isolation;
use agora_testkit::worker::Dispatch;
use serde_json::json;

use super::{
    Figure, Subject, rounds,
    startup::{SPAWN, SPAWNS},
};
use crate::{failure::Failure, process::Program};

pub(super) use files::thousand_files;
pub(super) use run::peak_in;

/// An agent that talks far more than any log keeps.
const LOUD: &str =
    "yes 'The agent thinks aloud, line by line, and does not come to an end.' | head -c 629145600";

/// All fourteen steps around an agent that does nothing: without a wall, and behind the one that this machine can build.
pub(super) fn steps(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    let what = "worker: all 14 steps, an agent that does nothing, one file laid";
    let mut figures = around(subject, Isolation::None, format!("{what}, no wall"))?;
    figures.extend(around(subject, Isolation::Auto, format!("{what}, behind the wall"))?);
    Ok(figures)
}

fn around(subject: &Subject, isolation: Isolation, what: String) -> Result<Vec<Figure>, Failure> {
    let idle = idle(subject)?;
    let idle = || idle().with(|manifest| manifest.wall.isolation = isolation);
    let mut nothing = Subject::nothing();
    // Taken away only at the end: ext4 does not like to give out again what was in use a minute ago, and would search.
    let mut ended = Vec::new();
    let mut run_many = || {
        let mut total = Duration::ZERO;
        for _ in 0..SPAWNS {
            let dispatch = idle();
            total += run::time(&dispatch)?;
            ended.push(dispatch);
        }
        Ok(total / SPAWNS)
    };
    let [measured, floor] = rounds::medians([&mut run_many, &mut || rounds::mean_of(&mut nothing, SPAWNS)])?;
    let [peak] = rounds::medians([&mut || run::peak(&idle())])?;
    let memory = Figure::memory(format!("{what}: peak memory"), peak);
    Ok(vec![Figure::time(what, measured, SPAWN, floor), memory])
}

/// An agent that prints 600 MiB: what it takes to read, search and cut it, and to keep none of it in memory.
pub(super) fn loud(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    let (idle, loud) = (idle(subject)?, script(subject, LOUD)?);
    let mut floor = Program::new("/bin/sh").args(["-c", &format!("{LOUD} | cat >/dev/null")]);
    let [measured, floor] = rounds::medians([&mut || run::time(&loud()), &mut || floor.time()])?;
    let [peak, idle] = rounds::medians([&mut || run::peak(&loud()), &mut || run::peak(&idle())])?;
    let what = "worker: an agent that prints 600 MiB";
    Ok(vec![
        Figure::time(what, measured, "the same into `cat >/dev/null`", floor),
        Figure::memory_above(format!("{what}: peak memory above idle"), peak, "idle", idle),
    ])
}

pub(super) fn size(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    super::size_of("the binary `agora-worker`", subject.worker()?)
}

/// Makes dispatches for an agent that does nothing. Each is run once.
fn idle(subject: &Subject) -> Result<impl Fn() -> Dispatch, Failure> {
    let worker = run::path(subject)?;
    let agent = || json!({"runtime": "command", "command": ["/bin/true"]});
    Ok(move || Dispatch::of(&worker, agent()).capability("one-file", &[("README.md", "Hello.\n")]))
}

/// Makes dispatches for a script that works beside one laid file.
fn script(subject: &Subject, script: &'static str) -> Result<impl Fn() -> Dispatch, Failure> {
    let worker = run::path(subject)?;
    Ok(move || Dispatch::script(&worker, script).capability("one-file", &[("README.md", "Hello.\n")]))
}
