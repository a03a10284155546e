//! Dispatches, behind the wall that this machine can build: what the command adds to an agent's own time, and how many go through one engine.

use std::{fs, io, path::Path, time::Duration};

use agora_engine::{Agora, Dispatch, Settings, read_subagent};
use tokio::{runtime::Runtime, task::JoinSet};

use super::{Figure, Subject, rounds, startup::SPAWN};
use crate::{console, failure::Failure, stopwatch::Stopwatch};

/// Runs of the command in a round.
const RUNS: u32 = 20;
/// How many are asked for at once, by whoever asks one engine for many.
const AT_ONCE: usize = 32;
/// How many run at once: each is three processes, one after another, on two cores.
const ROOM: u32 = 4;
/// When the rate is looked at: so many dispatches are in the ledger by then.
const MARKS: [usize; 3] = [10, 1_000, 10_000];

/// The floor of what is written: a dispatch's files, made and removed by one thread.
const FILES: &str = "its files and directories, made and removed";
const FILES_RUNS: u32 = 500;

const SUBAGENT: &str = "runtime: command\ncommand: [\"/bin/true\"]\n";

/// `dispatch run`, and a list afterwards.
pub(super) fn command(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    let home = subject.directory("dispatch-home")?;
    let definition = define(&home)?;
    let register = ["subagent", "register", "--name", "nothing", "--from"];
    subject.agora(&home).args(register).arg(&definition).run_quietly()?;
    let mut run = subject.agora(&home).args(["dispatch", "run", "--subagent", "nothing"]);
    let mut list = subject.agora(&home).args(["ls", "--json"]);
    let mut nothing = Subject::nothing();
    let [run, list, floor] = rounds::medians([
        &mut || rounds::mean_of(&mut run, RUNS),
        &mut || rounds::mean_of(&mut list, RUNS),
        &mut || rounds::mean_of(&mut nothing, RUNS * 10),
    ])?;
    Ok(vec![
        Figure::time("`agora dispatch run`, an agent that does nothing, behind the wall", run, SPAWN, floor)
            .wish("≤ 25 ms"),
        Figure::time("`agora ls`, 120 dispatches", list, SPAWN, floor),
    ])
}

/// Many through one engine, in one process. The ledger waits for the disk at each step.
pub(super) fn many(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    let home = subject.directory("many-home")?;
    let definition = define(&home)?;
    let runtime = Runtime::new().map_err(broken)?;
    let mut settings = Settings::with_worker(&subject.agora);
    settings.targets.values_mut().for_each(|target| target.max_concurrent = ROOM);
    let agora = Agora::open(home.join("agora")).with_settings(settings);
    let raw = read_subagent(&definition).map_err(broken)?;
    let name = "nothing".parse().map_err(broken)?;
    runtime.block_on(agora.register_subagent(&name, raw, &[])).map_err(broken)?;
    let mut nothing = Subject::nothing();
    let [floor] = rounds::medians([&mut || rounds::mean_of(&mut nothing, 200)])?;
    // The peak of benchmarks that ran before in this process is not ours: 5 lets the kernel count anew.
    fs::write("/proc/self/clear_refs", "5").map_err(broken)?;
    let (idle, mut done) = (memory(), 0);
    let mut figures = Vec::new();
    for mark in MARKS {
        console::progress(&format!("dispatching up to {mark}"));
        let stopwatch = Stopwatch::start();
        runtime.block_on(dispatch(&agora, mark - done))?;
        let each = stopwatch.elapsed() / u32::try_from(mark - done).unwrap_or(1);
        let rate = 1.0 / each.as_secs_f64();
        let what = format!("one engine, dispatches {} to {mark}: {rate:.0} a second, each", done + 1);
        figures.push(Figure::time(what, each, SPAWN, floor).wish("≥ 150 a second"));
        done = mark;
        if mark == MARKS[2] {
            let scratch = subject.directory_of_dispatches("many-files")?;
            figures.push(Figure::time("the same, beside its files alone", each, FILES, files(&scratch)?));
        }
    }
    figures.push(Figure::memory_above(
        "one engine after 10,000 dispatches: peak memory above idle",
        memory(),
        "idle",
        idle,
    ));
    let mut list = subject.agora(&home.join("agora")).args(["ls", "--json"]);
    let [list, spawn] = rounds::medians([&mut || rounds::mean_of(&mut list, RUNS), &mut || {
        rounds::mean_of(&mut nothing, 200)
    }])?;
    figures.push(Figure::time("`agora ls`, 10,000 dispatches", list, SPAWN, spawn));
    Ok(figures)
}

/// Makes what a dispatch makes and removes what its end removes, and nothing else: how long that takes is up to the file system.
fn files(scratch: &Path) -> Result<Duration, Failure> {
    const DIRECTORIES: [&str; 10] =
        ["", "in", "out", "work", "home", "tmp", "work/a", "work/a/b", "work/a/b/c", "work/d"];
    const KEPT: [&str; 9] = ["in/1", "in/2", "out/1", "out/2", "out/3", "out/4", "out/5", "out/6", "out/7"];
    const REMOVED: [&str; 3] = ["work/a/b/c/1", "work/d/1", "out/spool"];
    let failed = |source| Failure::file("use", scratch, &source);
    let once = |dir: &Path| -> io::Result<()> {
        DIRECTORIES.iter().try_for_each(|path| fs::create_dir(dir.join(path)))?;
        KEPT.iter().chain(&REMOVED).try_for_each(|path| fs::write(dir.join(path), [b'x'; 500]))?;
        ["work", "home", "tmp"].iter().try_for_each(|path| fs::remove_dir_all(dir.join(path)))?;
        fs::remove_file(dir.join(REMOVED[2]))
    };
    let stopwatch = Stopwatch::start();
    (0..FILES_RUNS).try_for_each(|number| once(&scratch.join(number.to_string()))).map_err(failed)?;
    Ok(stopwatch.elapsed() / FILES_RUNS)
}

async fn dispatch(agora: &Agora, count: usize) -> Result<(), Failure> {
    let mut running = JoinSet::new();
    let mut asked = 0;
    while asked < count || !running.is_empty() {
        while asked < count && running.len() < AT_ONCE {
            asked += 1;
            let agora = agora.clone();
            running.spawn(async move { agora.dispatch(Dispatch::to("nothing")).await?.wait().await });
        }
        if let Some(ended) = running.join_next().await {
            let result = ended.map_err(broken)?.map_err(broken)?;
            if result.state != "finished" {
                return Err(broken(format!("a dispatch is {}: {:?}", result.state, result.failure)));
            }
        }
    }
    Ok(())
}

fn define(directory: &Path) -> Result<std::path::PathBuf, Failure> {
    let path = directory.join("nothing.yaml");
    fs::write(&path, SUBAGENT).map_err(|source| Failure::file("write", &path, &source))?;
    Ok(path)
}

/// Returns the most memory in bytes that this process had since it was last counted anew.
pub(super) fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    super::worker::peak_in(&status).unwrap_or_default()
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::new("the dispatches could not be measured").because(error.to_string())
}
